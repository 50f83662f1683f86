// Chains of a few rows straight from the codes of a strip. What pack_strip would write for many rows to read
// stays in registers; each block reads its codes three times: for the exponents, the values and the signs.
#if defined(MMAEMU_CPU_CODE_CHAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MMAEMU_CPU_CODE_CHAIN_INL_H
#undef MMAEMU_CPU_CODE_CHAIN_INL_H
#else
#define MMAEMU_CPU_CODE_CHAIN_INL_H
#endif

#include <algorithm>

#include "cpu/chain-inl.h"
#include "cpu/kernels.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mmaemu::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <FormatId kFormat, class Ending, int kRows>
HWY_NOINLINE void chain_code_rows(const ChainArguments& g, StripCodes codes, std::uint8_t* non_finite) {
  HWY_ALIGN float bases[kRows * kStrip];
  HWY_ALIGN std::uint32_t signs[kStrip];
  const Words kept = hn::Set(kD32, g.kept_bits);
  Bytes largest = hn::Zero(kD8);
  Floats s[kRows][4];  // between blocks the accumulator, within one the sum
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) s[r][j] = hn::Load(kDF, g.accumulators + r * kStrip + j * kLanes);

  for (int begin = 0, word = 0; begin < g.blocks.elements; begin += g.blocks.block, ++word) {
    const int end = std::min(begin + g.blocks.block, g.blocks.elements);

    Bytes e[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) e[r] = hn::Set(kD8, g.least_exponent);
#pragma GCC unroll 4
    for (int k = begin; k < end; ++k) {
      const Bytes code = hn::Load(kD8, codes.at(k));
      const Bytes b = Decoder<kFormat>(code).exponent();
      largest = larger_magnitude(largest, code);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        e[r] = hn::Max(e[r], hn::Add(b, hn::BitCast(kD8, hn::Set(kD32, g.rows[r].exponents[k]))));
    }
    start_block<kRows>(e, bases, s);
#pragma GCC unroll 2
    for (int k = begin; k < end; ++k) {
      Floats b[4];
      to_values(Decoder<kFormat>(hn::Load(kD8, codes.at(k))).value(), b);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats a = hn::Set(kDF, g.rows[r].values[k]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) s[r][j] = fused(a, b[j], s[r][j]);
      }
    }
    store_sign_masks(codes.from(begin), end - begin, signs);
    end_block(Ending(end - begin, kept), g.rows, word, end - begin, bases, signs, s);
  }
  note_non_finite<kFormat>(largest, non_finite);
  store_accumulators<kRows>(s, kept, g.accumulators);
}

#if HWY_TARGET == HWY_AVX2
inline constexpr int kCodeRows = 1;
#else
inline constexpr int kCodeRows = 2;
#endif

template <FormatId kFormat, class Ending, int kRows>
void chain_codes_upto(const ChainArguments& g, StripCodes codes, std::uint8_t* non_finite) {
  if (g.row_count == kRows) return chain_code_rows<kFormat, Ending, kRows>(g, codes, non_finite);
  if constexpr (kRows > 1) chain_codes_upto<kFormat, Ending, kRows - 1>(g, codes, non_finite);
}

template <FormatId kFormat>
void chain_codes_of(const ChainArguments& g, StripCodes codes, std::uint8_t* non_finite) {
  if (UsualBlock::serves(g))
    chain_codes_upto<kFormat, UsualBlock, kCodeRows>(g, codes, non_finite);
  else
    chain_codes_upto<kFormat, AnyBlock, kCodeRows>(g, codes, non_finite);
}

inline void chain_codes(const ChainArguments& g, FormatId format, StripCodes codes,
                        std::uint8_t* non_finite) {
  if (format == FormatId::e4m3)
    chain_codes_of<FormatId::e4m3>(g, codes, non_finite);
  else
    chain_codes_of<FormatId::e5m2>(g, codes, non_finite);
}

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard of one target
