// Exact numbers and their rounding, in integers alone: independent of the floating-point environment and of
// the compiler's view of floating point. Values are fp32 bit patterns (std::uint32_t) unless said otherwise.
#pragma once

#include <bit>
#include <cstdint>

#include "mmaemu/formats.h"

namespace mmaemu::model {

// (-1)^negative * significand * 2^exponent rounded to nearest even in `f`: a code. Beyond the largest finite
// value it is that value where the format saturates, else infinity (the largest finite value in a format
// without). significand == 0 gives a zero of the sign.
std::uint32_t round_nearest_even(const Format& f, bool negative, std::uint64_t significand, int exponent);

// RN32(a + b), IEEE: NaN is canonical, x + -x is +0.
std::uint32_t add_f32(std::uint32_t a, std::uint32_t b);

// RN32(a * b), IEEE: NaN is canonical.
std::uint32_t multiply_f32(std::uint32_t a, std::uint32_t b);

// RN32(a * b + (+0)) with one rounding: an exactly zero product gives +0, a product that underflows keeps its
// sign.
std::uint32_t multiply_add_zero_f32(std::uint32_t a, std::uint32_t b);

// An fp32 number rounded to nearest even in `f` (any format): a code; NaN is canonical.
std::uint32_t convert_from_f32(const Format& f, std::uint32_t bits);

inline constexpr std::uint32_t kNaN32 = format(FormatId::float32).canonical_nan;
inline constexpr std::uint32_t kInfinity32 = 0x7F800000;
inline constexpr std::uint32_t kSign32 = 0x80000000;

inline Decoded decode_f32(std::uint32_t bits) {
  return decode(format(FormatId::float32), bits);
}

}  // namespace mmaemu::model
