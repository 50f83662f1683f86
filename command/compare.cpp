#include "compare.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace mmaemu::command {
namespace {

constexpr std::size_t kShown = 10;

std::uint32_t code_at(const Matrix& matrix, std::int64_t index) {
  const auto bytes = static_cast<std::size_t>(format(matrix.format).bytes());
  std::uint32_t code = 0;
  std::memcpy(&code, matrix.bytes.data() + static_cast<std::size_t>(index) * bytes, bytes);
  return code;
}

// Codes in the order of their values; both zeros are 0.
std::int64_t order(const Format& f, std::uint32_t code) {
  const auto magnitude = static_cast<std::int64_t>(code & ~f.sign_bit());
  return (code & f.sign_bit()) != 0 ? -magnitude : magnitude;
}

std::string hex(const Format& f, std::uint32_t code) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", f.bits / 4, code);
  return text;
}

}  // namespace

std::string value_text(FormatId id, std::uint32_t code) {
  const Format& f = format(id);
  const Decoded d = decode(f, code);
  const std::string sign = (code & f.sign_bit()) != 0 ? "-" : "";
  if (d.kind == NumberClass::nan) return "nan";
  if (d.kind == NumberClass::infinity) return sign + "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%s%.9g", sign.c_str(),
                std::ldexp(static_cast<double>(d.significand), d.exponent - f.fraction_bits));
  return text;
}

Comparison compare(const Matrix& a, const Matrix& b) {
  const Format& f = format(a.format);
  Comparison result;
  result.format = a.format;
  result.elements = a.rows * a.columns;
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const std::uint32_t code = code_at(a, i);
    const std::uint32_t other = code_at(b, i);
    if (code == other) continue;
    const NumberClass kind = decode(f, code).kind;
    const NumberClass other_kind = decode(f, other).kind;
    if (kind == NumberClass::zero && other_kind == NumberClass::zero) {
      ++result.zero_sign;
    } else if (kind == NumberClass::nan && other_kind == NumberClass::nan) {
      ++result.nan_payload;
    } else {
      ++result.value;
      const bool finite = kind <= NumberClass::finite && other_kind <= NumberClass::finite;
      const auto distance = static_cast<std::uint64_t>(std::abs(order(f, code) - order(f, other)));
      if (finite) ++result.ulps[static_cast<int>(std::bit_width(distance - 1))];
    }
    if (result.first.size() < kShown) result.first.push_back({i / a.columns, i % a.columns, code, other});
  }
  return result;
}

nlohmann::ordered_json Comparison::to_json() const {
  const Format& f = mmaemu::format(format);
  nlohmann::ordered_json histogram = nlohmann::ordered_json::array();
  for (const auto& [power, count] : ulps)
    histogram.push_back({{"up_to", std::int64_t{1} << power}, {"count", count}});
  nlohmann::ordered_json places = nlohmann::ordered_json::array();
  for (const Difference& d : first)
    places.push_back({{"row", d.row},
                      {"column", d.column},
                      {"bits", {hex(f, d.code), hex(f, d.other)}},
                      {"values", {value_text(format, d.code), value_text(format, d.other)}}});
  return {{"equal", different() == 0},
          {"format", f.dtype},
          {"elements", elements},
          {"different", different()},
          {"zero_sign", zero_sign},
          {"nan_payload", nan_payload},
          {"value", value},
          {"ulps", std::move(histogram)},
          {"first", std::move(places)}};
}

std::string Comparison::text() const {
  const Format& f = mmaemu::format(format);
  if (different() == 0) return "equal: " + std::to_string(elements) + " elements, bit for bit\n";
  std::string text = std::to_string(different()) + " of " + std::to_string(elements) +
                     " elements differ: " + std::to_string(zero_sign) + " in the sign of zero, " +
                     std::to_string(nan_payload) + " in the payload of NaN, " + std::to_string(value) +
                     " in value\n";
  for (const auto& [power, count] : ulps) {
    const std::int64_t most = std::int64_t{1} << power;
    const std::string range =
        most <= 2 ? std::to_string(most) : std::to_string(most / 2 + 1) + " to " + std::to_string(most);
    char line[80];
    std::snprintf(line, sizeof line, "%16s ulp  %lld\n", range.c_str(), static_cast<long long>(count));
    text += line;
  }
  for (const Difference& d : first)
    text += "  [" + std::to_string(d.row) + ", " + std::to_string(d.column) + "]  " + hex(f, d.code) + " " +
            value_text(format, d.code) + "  against  " + hex(f, d.other) + " " + value_text(format, d.other) +
            "\n";
  if (first.size() < static_cast<std::size_t>(different())) text += "  ...\n";
  return text;
}

}  // namespace mmaemu::command
