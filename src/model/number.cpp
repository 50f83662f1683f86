#include "model/number.h"

#include <algorithm>
#include <utility>

namespace mmaemu::model {
namespace {

constexpr const Format& kF32 = format(FormatId::float32);

// significand * 2^-shift rounded to nearest even. shift >= 0.
std::uint64_t shift_right_nearest_even(std::uint64_t significand, int shift) {
  if (shift == 0) return significand;
  if (shift > 64) return 0;  // below half a unit
  if (shift == 64) return significand > (std::uint64_t{1} << 63) ? 1 : 0;
  const std::uint64_t kept = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

std::uint32_t signed_code(const Format& f, bool negative, std::uint32_t magnitude) {
  return negative ? magnitude | f.sign_bit() : magnitude;
}

std::uint32_t overflow_code(const Format& f) {
  const bool has_infinity = f.specials == SpecialValues::ieee;
  return has_infinity && !f.saturates ? f.max_finite() + 1 : f.max_finite();
}

// The exponent of a decoded fp32 number's lowest significand bit.
int unit_exponent(const Decoded& d) {
  return d.exponent - kF32.fraction_bits;
}

}  // namespace

std::uint32_t round_nearest_even(const Format& f, bool negative, std::uint64_t significand, int exponent) {
  if (significand == 0) return signed_code(f, negative, 0);
  const int top = 63 - std::countl_zero(significand) + exponent;  // floor(log2|x|)
  // The result is a multiple of 2^quantum: of the subnormal quantum where x is that small.
  const int quantum = std::max(top, f.min_exponent()) - f.fraction_bits;
  const int shift = quantum - exponent;
  const std::uint64_t rounded =
      shift >= 0 ? shift_right_nearest_even(significand, shift) : significand << -shift;
  // In units of the quantum. Rounding up to the next power of two carries into the exponent field by itself,
  // and so does a subnormal that rounds up to the least normal number.
  const auto base = static_cast<std::uint64_t>(std::max(top, f.min_exponent()) - f.min_exponent());
  const std::uint64_t magnitude = (base << f.fraction_bits) + rounded;
  if (magnitude > f.max_finite()) return signed_code(f, negative, overflow_code(f));
  return signed_code(f, negative, static_cast<std::uint32_t>(magnitude));
}

std::uint32_t add_f32(std::uint32_t a, std::uint32_t b) {
  Decoded x = decode_f32(a);
  Decoded y = decode_f32(b);
  if (x.kind == NumberClass::nan || y.kind == NumberClass::nan) return kNaN32;
  if (x.kind == NumberClass::infinity || y.kind == NumberClass::infinity) {
    const bool opposite = x.kind == y.kind && x.negative != y.negative;
    return opposite ? kNaN32 : (x.kind == NumberClass::infinity ? a : b);
  }
  if (x.kind == NumberClass::zero && y.kind == NumberClass::zero) return a & b;  // -0 only if both are
  if (x.kind == NumberClass::zero) return b;
  if (y.kind == NumberClass::zero) return a;
  if (x.exponent < y.exponent) std::swap(x, y);
  // Both on a grid 32 bits below x's: of what y has below that grid only "something" matters to the rounding,
  // and one sticky bit keeps it. 24 + 32 bits and a carry fit 64.
  constexpr int kGuard = 32;
  const std::uint64_t big = std::uint64_t{x.significand} << kGuard;
  const int down = x.exponent - y.exponent;
  std::uint64_t small = 1;
  if (down < 24 + kGuard) {
    const std::uint64_t wide = std::uint64_t{y.significand} << kGuard;
    small = wide >> down;
    if ((small << down) != wide) small |= 1;
  }
  const int exponent = x.exponent - kF32.fraction_bits - kGuard;
  if (x.negative == y.negative) return round_nearest_even(kF32, x.negative, big + small, exponent);
  if (big == small) return 0;  // exact cancellation is +0
  const bool negative = big > small ? x.negative : y.negative;
  return round_nearest_even(kF32, negative, big > small ? big - small : small - big, exponent);
}

std::uint32_t multiply_f32(std::uint32_t a, std::uint32_t b) {
  const Decoded x = decode_f32(a);
  const Decoded y = decode_f32(b);
  const bool negative = x.negative != y.negative;
  if (x.kind == NumberClass::nan || y.kind == NumberClass::nan) return kNaN32;
  if (x.kind == NumberClass::infinity || y.kind == NumberClass::infinity) {
    const bool zero = x.kind == NumberClass::zero || y.kind == NumberClass::zero;
    return zero ? kNaN32 : signed_code(kF32, negative, kInfinity32);
  }
  return round_nearest_even(kF32, negative, std::uint64_t{x.significand} * y.significand,
                            unit_exponent(x) + unit_exponent(y));
}

std::uint32_t multiply_add_zero_f32(std::uint32_t a, std::uint32_t b) {
  const bool zero = (a & ~kSign32) == 0 || (b & ~kSign32) == 0;
  const std::uint32_t product = multiply_f32(a, b);
  return zero && product != kNaN32 ? 0 : product;
}

std::uint32_t convert_from_f32(const Format& f, std::uint32_t bits) {
  const Decoded d = decode_f32(bits);
  if (d.kind == NumberClass::nan) return f.canonical_nan;
  if (d.kind == NumberClass::infinity) return signed_code(f, d.negative, overflow_code(f));
  return round_nearest_even(f, d.negative, d.significand, unit_exponent(d));
}

}  // namespace mmaemu::model
