// One block step of a tensor core, in exact integers: the specification in code. docs/semantics.md,
// section 2.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "mmaemu/preset.h"

#include "model/number.h"

namespace mmaemu::model {

// A sum of aligned terms. A term is below 2^(frac + 2) (a product is below 4 * 2^E, the accumulator below 2 *
// 2^E), so 64 bits would hold 2^21 terms at frac = 40; a block may be larger (any nfma), so the sum has 128.
__extension__ using Sum = __int128;

// An operand code for the inner loops: value = significand * 2^(exponent - fraction_bits of its format).
// Zero and non-finite codes have significand 0 (the latter are handled apart; finite outputs never meet one).
struct Term {
  std::int32_t significand = 0;  // signed
  std::int32_t exponent = 0;
};

// trunc(significand * 2^shift), toward zero. |significand| < 2^24, and shift <= 40 unless it is zero.
inline std::int64_t shift_toward_zero(std::int64_t significand, std::int64_t shift) {
  if (significand == 0) return 0;  // a zero has no exponent: its shift means nothing and may be any
  if (shift >= 0) return significand * (std::int64_t{1} << shift);
  if (shift < -62) return 0;
  const std::int64_t magnitude = (significand < 0 ? -significand : significand) >> -shift;
  return significand < 0 ? -magnitude : magnitude;
}

// sum * 2^exponent truncated toward zero to `fraction_bits` below its own exponent (at least -126): fp32
// bits. Zero is +0. A value beyond fp32 is infinity; FP8 operands cannot reach it.
inline std::uint32_t truncate_to_f32(Sum sum, int exponent, int fraction_bits) {
  if (sum == 0) return 0;
  const bool negative = sum < 0;
  __extension__ using Magnitude = unsigned __int128;
  Magnitude magnitude = negative ? -static_cast<Magnitude>(sum) : static_cast<Magnitude>(sum);
  const auto high = static_cast<std::uint64_t>(magnitude >> 64);
  const int width =
      high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(magnitude));
  const int top = width - 1 + exponent;
  constexpr int kMinExponent = format(FormatId::float32).min_exponent();
  const int quantum = (top < kMinExponent ? kMinExponent : top) - fraction_bits;
  const int shift = quantum - exponent;
  if (shift >= 128) return 0;
  if (shift > 0) {
    magnitude >>= shift;
    exponent = quantum;
  }
  // At most 24 bits are left where bits were dropped, and the low ones are zero otherwise: exact in fp32.
  while (magnitude >> 64 != 0) {
    magnitude >>= 1;
    ++exponent;
  }
  return magnitude == 0 ? 0
                        : round_nearest_even(format(FormatId::float32), negative,
                                             static_cast<std::uint64_t>(magnitude), exponent);
}

// The block step's scalars, taken out of the loops.
struct BlockRules {
  explicit BlockRules(const Preset& preset, int product_fraction_bits)
      : frac(preset.frac),
        frac_out(preset.frac_out),
        // Operand and accumulator exponents lie within +-200: floors beyond +-2000 act alike, and need no
        // wider integers.
        min_exp(std::clamp(preset.min_exp, -2000, 2000)),
        late_c(preset.late_c),
        product_fraction(product_fraction_bits) {}
  int frac;
  int frac_out;
  int min_exp;
  bool late_c;
  int product_fraction;  // fraction bits of a product: the sum of the operand formats' fraction bits
};

// One block: d = c + sum of products. `for_each(f)` calls f(a, b) with the Terms of each product, twice over
// the block. c is a finite fp32 bit pattern.
template <class ForEachProduct>
std::uint32_t block_step(const BlockRules& rules, std::uint32_t c, ForEachProduct for_each) {
  const Decoded acc = decode_f32(c);
  // The accumulator's exponent is its own: not clamped where it is subnormal.
  const int acc_exponent =
      acc.exponent - format(FormatId::float32).fraction_bits + (31 - std::countl_zero(acc.significand | 1));
  const bool align_c = !rules.late_c && acc.kind == NumberClass::finite;
  int block_exponent = rules.min_exp;
  if (align_c && acc_exponent > block_exponent) block_exponent = acc_exponent;
  for_each([&](Term a, Term b) {
    const int e = a.exponent + b.exponent;
    if (a.significand != 0 && b.significand != 0 && e > block_exponent) block_exponent = e;
  });
  const int to_grid = rules.frac - block_exponent;
  const int product_shift = to_grid - rules.product_fraction;
  Sum sum = 0;
  for_each([&](Term a, Term b) {
    sum += shift_toward_zero(std::int64_t{a.significand} * b.significand,
                             product_shift + a.exponent + b.exponent);
  });
  if (align_c) {
    const std::int64_t significand =
        acc.negative ? -std::int64_t{acc.significand} : std::int64_t{acc.significand};
    sum += shift_toward_zero(significand, to_grid + acc.exponent - format(FormatId::float32).fraction_bits);
  }
  const std::uint32_t d = truncate_to_f32(sum, -to_grid, rules.frac_out);
  return rules.late_c ? add_f32(d, c) : d;
}

}  // namespace mmaemu::model
