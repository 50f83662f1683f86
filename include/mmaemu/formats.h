// Number formats as data: every fact about a format is a field of one row of kFormats. A new operand or
// result format is one more row. docs/semantics.md, section 1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mmaemu {

enum class FormatId : std::uint8_t { e4m3, e5m2, float16, bfloat16, float32 };

// How the largest exponent field is used.
enum class SpecialValues : std::uint8_t {
  ieee,      // fraction 0 is infinity, any other fraction is NaN
  nan_only,  // "fn": only exponent and fraction all ones is NaN; there is no infinity
};

struct Format {
  FormatId id;
  std::string_view name;   // PTX's name: "e4m3"
  std::string_view dtype;  // torch's name: "float8_e4m3fn"
  int bits;                // storage width
  int exponent_bits;
  int fraction_bits;
  int bias;
  SpecialValues specials;
  std::uint32_t canonical_nan;  // the only NaN the library returns in this format
  bool operand;                 // accepted as an operand of a matrix product
  bool saturates;               // results beyond the largest finite value become it, infinities included

  constexpr int min_exponent() const { return 1 - bias; }
  constexpr int max_exponent() const {
    return (1 << exponent_bits) - 1 - bias - (specials == SpecialValues::ieee ? 1 : 0);
  }
  constexpr std::uint32_t sign_bit() const { return std::uint32_t{1} << (bits - 1); }
  // The code of the largest finite value.
  constexpr std::uint32_t max_finite() const {
    const std::uint32_t magnitudes = sign_bit() - 1;
    return specials == SpecialValues::nan_only ? magnitudes - 1
                                               : magnitudes - (std::uint32_t{1} << fraction_bits);
  }
  constexpr int bytes() const { return bits / 8; }
};

inline constexpr std::array<Format, 5> kFormats{{
    {FormatId::e4m3, "e4m3", "float8_e4m3fn", 8, 4, 3, 7, SpecialValues::nan_only, 0x7F, true, true},
    {FormatId::e5m2, "e5m2", "float8_e5m2", 8, 5, 2, 15, SpecialValues::ieee, 0x7F, true, true},
    {FormatId::float16, "float16", "float16", 16, 5, 10, 15, SpecialValues::ieee, 0x7FFF, false, false},
    {FormatId::bfloat16, "bfloat16", "bfloat16", 16, 8, 7, 127, SpecialValues::ieee, 0x7FFF, false, false},
    {FormatId::float32, "float32", "float32", 32, 8, 23, 127, SpecialValues::ieee, 0x7FFFFFFF, false, false},
}};

constexpr const Format& format(FormatId id) {
  return kFormats[static_cast<std::size_t>(id)];
}

// The format called `name` in PTX's or torch's spelling ("e4m3", "float8_e4m3fn", "float32"), if there is
// one.
constexpr std::optional<FormatId> find_format(std::string_view name) {
  for (const Format& f : kFormats)
    if (f.name == name || f.dtype == name) return f.id;
  return std::nullopt;
}

enum class NumberClass : std::uint8_t { zero, finite, infinity, nan };

// A code taken apart. A finite value is (-1)^negative * significand * 2^(exponent - fraction_bits). The
// exponent is floor(log2|x|) clamped below at the format's min_exponent: subnormals keep a denormalised
// significand.
struct Decoded {
  NumberClass kind = NumberClass::zero;
  bool negative = false;
  std::uint32_t significand = 0;
  int exponent = 0;
};

constexpr Decoded decode(const Format& f, std::uint32_t code) {
  const std::uint32_t fraction = code & ((std::uint32_t{1} << f.fraction_bits) - 1);
  const std::uint32_t top = (std::uint32_t{1} << f.exponent_bits) - 1;
  const std::uint32_t field = (code >> f.fraction_bits) & top;
  Decoded d;
  d.negative = (code & f.sign_bit()) != 0;
  if (field == top) {
    const std::uint32_t all_ones = (std::uint32_t{1} << f.fraction_bits) - 1;
    const bool ieee = f.specials == SpecialValues::ieee;
    if (ieee && fraction == 0) {
      d.kind = NumberClass::infinity;
      return d;
    }
    if (ieee || fraction == all_ones) {
      d.kind = NumberClass::nan;
      return d;
    }
  }
  if (field == 0 && fraction == 0) return d;
  d.kind = NumberClass::finite;
  d.significand = field == 0 ? fraction : fraction | (std::uint32_t{1} << f.fraction_bits);
  d.exponent = field == 0 ? f.min_exponent() : static_cast<int>(field) - f.bias;
  return d;
}

}  // namespace mmaemu
