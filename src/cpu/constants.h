// The numbers that the exactness of the CPU engine rests on; chain-inl.h says how. MMAEMU_MUTANT breaks one
// of them at a time: only the mutation test defines it.
#pragma once

#include <bit>
#include <cstdint>

#include "cpu/float_environment.h"

#ifndef MMAEMU_MUTANT
#define MMAEMU_MUTANT none
#endif

namespace mmaemu::cpu {

enum class Mutant : std::uint8_t {
  none,
  no_nudge,       // products on the grid are counted, but not rounded away from zero
  loose_nudge,    // 1 + 2^-14: one binade more than is safe
  product_nudge,  // 1 + 2^-10: moves large products that lie on the grid past the next grid point
  sign_count,     // negative products stay rounded down
  popcount_mask,  // the signs beyond the 16th product of a block are not counted
  rounding_leak,  // additions outside chains round toward zero
  kept_bits,      // a block result keeps 15 significant bits
  zero_exponent,  // zero times a large number takes part in the maximum
};
inline constexpr Mutant kMutant = Mutant::MMAEMU_MUTANT;

// Fraction bits kept of each aligned term: the one value of Preset::frac that the engine serves.
inline constexpr int kFrac = 13;
// The magic number is 1.5 * 2^(E + kMagicExponent): the distance of fp32 numbers there is 2^(E - kFrac).
inline constexpr int kMagicExponent = 23 - kFrac;
// Products per block at most: 64 * 4 + 2 times 2^E is below 2^(E + 9), half a binade of the magic number.
inline constexpr int kMaxBlock = 64;
// Preset::min_exp at most: E + kMagicExponent is far from fp32's largest exponent.
inline constexpr int kMostMinExp = 100;

// a * b moves away from zero by less than its own lowest bit and less than the grid: |ab| * 2^-17 < min of
// both.
inline constexpr float kProductNudge = kMutant == Mutant::no_nudge        ? 1.0F
                                       : kMutant == Mutant::loose_nudge   ? 1.0F + 0x1p-14F
                                       : kMutant == Mutant::product_nudge ? 1.0F + 0x1p-10F
                                                                          : 1.0F + 0x1p-17F;
// Likewise for an accumulator of 14 significant bits.
inline constexpr float kAccumulatorNudge = 1.0F + 0x1p-15F;

// Zero is packed as this number with its own sign, so that every product has a sign to count: in a chain it
// acts as "something below the grid". 2^-100 * 2^16 is below every grid, and no fp32 subnormal is near (each
// costs a hundred cycles on x86).
inline constexpr std::uint32_t kTinyBits = std::bit_cast<std::uint32_t>(0x1p-100F);

// Exponent bytes: the sum of two is the fp32 exponent field of 2^E. Zero is so small that zero plus anything
// stays below the sum of two nonzero numbers.
inline constexpr int kExponentBiasRows = 64;
inline constexpr int kExponentBiasLanes = 63;
inline constexpr int kExponentOfZero = kMutant == Mutant::zero_exponent ? 48 : 8;

// Which products of a 32-product mask have their signs counted.
inline constexpr std::uint32_t kCountedSigns = kMutant == Mutant::sign_count      ? 0
                                               : kMutant == Mutant::popcount_mask ? 0x0000FFFF
                                                                                  : 0xFFFFFFFF;

// The fp32 bits of a block result that frac_out fraction bits take; the others are dropped.
constexpr std::uint32_t kept_bits(int frac_out) {
  const int kept = frac_out + (kMutant == Mutant::kept_bits ? 1 : 0);
  return ~((1U << (23 - kept)) - 1);
}

// The rounding of sums of chain results and of the epilogue.
inline constexpr Rounding kOutsideChains =
    kMutant == Mutant::rounding_leak ? Rounding::toward_zero : Rounding::nearest;

}  // namespace mmaemu::cpu
