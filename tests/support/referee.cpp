// The independent formulas.
#include "referee.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mmaemu::testing {

double value_of(const Format& f, std::uint32_t code) {
  const auto fraction = static_cast<double>(code % (1U << f.fraction_bits));
  const auto field = static_cast<int>((code >> f.fraction_bits) % (1U << f.exponent_bits));
  const double sign = (code >> (f.bits - 1)) % 2 == 1 ? -1.0 : 1.0;
  const double fraction_scale = std::ldexp(1.0, -f.fraction_bits);
  const bool top = field == (1 << f.exponent_bits) - 1;
  if (top && f.specials == SpecialValues::ieee)
    return fraction == 0.0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  if (top && fraction * fraction_scale == 1.0 - fraction_scale)
    return std::numeric_limits<double>::quiet_NaN();
  if (field == 0) return sign * std::ldexp(fraction * fraction_scale, 1 - f.bias);
  return sign * std::ldexp(1.0 + fraction * fraction_scale, field - f.bias);
}

std::uint32_t nearest_code(const Format& f, double value) {
  if (std::isnan(value)) return f.canonical_nan;
  const std::uint32_t sign = std::signbit(value) ? 1U << (f.bits - 1) : 0U;
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return sign;
  const double largest = value_of(f, f.max_finite());
  const std::uint32_t beyond = f.saturates ? f.max_finite() : f.max_finite() + 1;
  if (std::isinf(magnitude)) return sign | beyond;
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  // Quanta of this binade; nearbyint is to nearest, ties to even, as the floating-point environment is by
  // default.
  const double quanta = std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent));
  if (std::ldexp(quanta, exponent - f.fraction_bits) > largest) return sign | beyond;
  // Consecutive codes are consecutive quanta, also across a binade's end.
  const auto binade = static_cast<std::uint32_t>(exponent + f.bias - 1);
  return sign | ((binade << f.fraction_bits) + static_cast<std::uint32_t>(quanta));
}

std::uint32_t epilogue_code(const Format& f, float accumulator, float scale_a, float scale_b,
                            const float* scale_result) {
  // A double holds the exact product of two floats, and + 0.0 turns an exactly zero one into +0.
  const auto alpha = static_cast<float>(static_cast<double>(scale_a) * static_cast<double>(scale_b));
  auto y = static_cast<float>(static_cast<double>(accumulator) * static_cast<double>(alpha) + 0.0);
  if (f.saturates && scale_result != nullptr)
    y = static_cast<float>(static_cast<double>(y) * static_cast<double>(*scale_result));
  return nearest_code(f, static_cast<double>(y));
}

}  // namespace mmaemu::testing
