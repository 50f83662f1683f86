// Blocks of a chain with one fused multiply-add per product, in round-toward-zero.
//
// Per lane and block, g = 2^(E - 13) is the grid and S an fp32 number whose distance to the next is g:
//   E = max(exponents of the products, exponent of acc)
//   S = magic + acc, magic = 1.5 * 2^(E + 10); then S = fma(a', b, S) for each product, a' = a * (1 + 2^-17)
//   bits(S) += number of products that S rounded away from zero
//   acc = (S - magic) with the low bits cleared (sign and magnitude: toward zero)
// With S > 0 every fma rounds down onto the grid. A product p = ab has |p| < 2^8 of its own lowest bit and
// < 2^15 g, so the nudge moves it away from zero by less than both and never onto another grid point: p > 0
// is truncated, and p < 0 is rounded to one g below its truncation, on the grid or not. Hence the count. Sums
// stay in the binade of S: 64 products below 4 * 2^E and acc below 2 * 2^E are under 2^(E + 9). A zero is
// packed as a tiny number with a sign, so it takes part in the count like any other. Where every product of a
// block is zero, E is of no account: acc is a multiple of a coarser grid than the tiny products could set.
#if defined(MMAEMU_CPU_CHAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MMAEMU_CPU_CHAIN_INL_H
#undef MMAEMU_CPU_CHAIN_INL_H
#else
#define MMAEMU_CPU_CHAIN_INL_H
#endif

#include <algorithm>

#include "cpu/constants.h"
#include "cpu/kernels.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mmaemu::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b + c with one rounding toward zero, or to nearest where c is zero. Highway's emulation rounds the
// product to fp32. In fp64 the product is exact, and two roundings toward zero are one.
HWY_INLINE Floats fused(Floats a, Floats b, Floats c) {
#if HWY_TARGET == HWY_EMU128
  for (int i = 0; i < kLanes; ++i)
    c.raw[i] = static_cast<float>(static_cast<double>(a.raw[i]) * static_cast<double>(b.raw[i]) +
                                  static_cast<double>(c.raw[i]));
  return c;
#else
  return hn::MulAdd(a, b, c);
#endif
}

// 2^E in the fp32 exponent field from byte j of each 32-bit lane. The other bits are whatever is next to it.
template <int kVector>
HWY_INLINE Words exponent_field(Bytes exponents) {
  const Words bytes = hn::BitCast(kD32, exponents);
  if constexpr (kVector == 3)
    return hn::RotateRight<1>(bytes);
  else
    return hn::RotateRight<8 * kVector + 9>(bytes);
}

#if HWY_TARGET <= HWY_AVX3
// The magic number takes the sign of acc, so |S| grows by |acc|: that truncates acc, however many bits it
// has, and needs neither a nudge nor a count; between blocks its low bits can stay. The products that S
// rounds away from zero are those of acc's other sign. What is kept is base = +-2^E.
HWY_INLINE Floats block_base(Words exponents, Floats acc) {
  // The larger magnitude, with the sign of acc.
  const __m512i larger = _mm512_castps_si512(_mm512_range_ps(acc.raw, hn::BitCast(kDF, exponents).raw, 0x3));
  return hn::BitCast(kDF, hn::And(Words{larger}, hn::Set(kD32, 0xFF800000U)));
}

inline constexpr float kMagic = 1.5F * (1 << kMagicExponent);

HWY_INLINE Floats block_start(Floats base, Floats acc) {
  return hn::MulAdd(base, hn::Set(kDF, kMagic), acc);
}

HWY_INLINE Words negative(Floats base) {
  const hn::RebindToSigned<decltype(kD32)> signed_words;
  return hn::BitCast(kD32, hn::BroadcastSignBit(hn::BitCast(signed_words, base)));
}

// How blocks of at most 32 products, an even number, end. The mask bits of no product are set in one half and
// clear in the other, whatever the sign of acc: the count is that much too large, which `magic` takes back.
struct UsualBlock {
  static constexpr bool kOneWord = true;
  static bool serves(const ChainArguments& g) {
    return g.blocks.words() == 1 && g.blocks.block % 2 == 0 && g.blocks.elements % 2 == 0 &&
           g.kept_bits == kept_bits(kFrac);
  }

  UsualBlock(int products, Words /*kept*/)
      : magic_(hn::Set(kDF, kMagic + static_cast<float>((32 - products) / 2) * 0x1p-13F)) {}
  HWY_INLINE Words rounded_away(Floats base, Words a, Words b, Words /*valid*/) const {
    return Words{_mm512_ternarylogic_epi32(a.raw, b.raw, negative(base).raw, 0x96)};  // x ^ y ^ z
  }
  HWY_INLINE Floats result(Floats base, Floats sum) const { return hn::NegMulAdd(base, magic_, sum); }

 private:
  Floats magic_;
};

// Any number of products and any frac_out.
struct AnyBlock {
  static constexpr bool kOneWord = false;
  AnyBlock(int /*products*/, Words kept) : kept_(kept) {}
  HWY_INLINE Words rounded_away(Floats base, Words a, Words b, Words valid) const {
    const Words products = hn::Xor(a, b);
    return Words{
        _mm512_ternarylogic_epi32(products.raw, negative(base).raw, valid.raw, 0x28)};  // (x ^ y) & z
  }
  HWY_INLINE Floats result(Floats base, Floats sum) const {
    return hn::BitCast(kDF,
                       hn::And(hn::BitCast(kD32, hn::NegMulAdd(base, hn::Set(kDF, kMagic), sum)), kept_));
  }

 private:
  Words kept_;
};
#else
// What is kept is the magic number itself.
HWY_INLINE Floats block_base(Words exponents, Floats acc) {
  const Words field = hn::Set(kD32, 0x7F800000);
  const Words larger = hn::Max(hn::And(exponents, field), hn::And(hn::BitCast(kD32, acc), field));
  return hn::BitCast(kDF, hn::Add(larger, hn::Set(kD32, (kMagicExponent << 23) | 0x00400000)));
}

// The accumulator is nudged like a product, and counted at once.
HWY_INLINE Floats block_start(Floats magic, Floats acc) {
  const Words sum = hn::BitCast(kD32, fused(acc, hn::Set(kDF, kAccumulatorNudge), magic));
  return hn::BitCast(kDF, hn::Add(sum, hn::ShiftRight<31>(hn::BitCast(kD32, acc))));
}

template <bool kOneWordBlocks>
struct Block {
  static constexpr bool kOneWord = kOneWordBlocks;
  static bool serves(const ChainArguments& g) { return g.blocks.words() == 1; }

  Block(int /*products*/, Words kept) : kept_(kept) {}
  HWY_INLINE Words rounded_away(Floats /*magic*/, Words a, Words b, Words /*valid*/) const {
    return hn::Xor(a, b);
  }
  HWY_INLINE Floats result(Floats magic, Floats sum) const {
    return hn::BitCast(kDF, hn::And(hn::BitCast(kD32, hn::Sub(sum, magic)), kept_));
  }

 private:
  Words kept_;
};
using UsualBlock = Block<true>;
using AnyBlock = Block<false>;
#endif

// Accumulators to sums: e has each row's largest exponents, `bases` gets [row][4][lanes].
template <int kRows>
HWY_INLINE void start_block(const Bytes (&e)[kRows], float* bases, Floats (&s)[kRows][4]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const auto start = [&](int j, Words exponents) HWY_ATTR {
      const Floats base = block_base(exponents, s[r][j]);
      s[r][j] = block_start(base, s[r][j]);
      hn::Store(base, kDF, bases + r * kStrip + j * kLanes);
    };
    start(0, exponent_field<0>(e[r]));
    start(1, exponent_field<1>(e[r]));
    start(2, exponent_field<2>(e[r]));
    start(3, exponent_field<3>(e[r]));
  }
}

// Sums to block results. `bases` and `signs` are [row][4][lanes] and [word][4][lanes]; `words` is the first
// of each row's sign masks.
template <class Ending, int kRows>
HWY_INLINE void end_block(const Ending& ending, const PackedRow* rows, int first_word, int products,
                          const float* bases, const std::uint32_t* signs, Floats (&s)[kRows][4]) {
  const int words = Ending::kOneWord ? 1 : (products + 31) / 32;
  for (int word = 0; word < words; ++word) {
    const int in_word = std::min(products - 32 * word, 32);
    const Words valid = hn::Set(kD32, static_cast<std::uint32_t>((std::uint64_t{1} << in_word) - 1));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Words a = hn::Set(kD32, rows[r].signs[first_word + word]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Floats base = hn::Load(kDF, bases + r * kStrip + j * kLanes);
        const Words b = hn::Load(kD32, signs + word * kStrip + j * kLanes);
        const Words away = hn::PopulationCount(ending.rounded_away(base, a, b, valid));
        s[r][j] = hn::BitCast(kDF, hn::Add(hn::BitCast(kD32, s[r][j]), away));
        if constexpr (Ending::kOneWord) s[r][j] = ending.result(base, s[r][j]);
      }
    }
  }
  if constexpr (!Ending::kOneWord) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        s[r][j] = ending.result(hn::Load(kDF, bases + r * kStrip + j * kLanes), s[r][j]);
  }
}

template <int kRows>
HWY_INLINE void store_accumulators(const Floats (&s)[kRows][4], Words kept, float* accumulators) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      hn::Store(hn::BitCast(kDF, hn::And(hn::BitCast(kD32, s[r][j]), kept)), kDF,
                accumulators + r * kStrip + j * kLanes);
}

template <class Ending, int kRows>
HWY_NOINLINE void chain_rows(const ChainArguments& g) {
  HWY_ALIGN float bases[kRows * kStrip];
  const PackedRow* const rows = g.rows;
  const Words kept = hn::Set(kD32, g.kept_bits);
  const int words = g.blocks.words();
  const std::uint32_t* signs = g.strip->signs;
  Floats s[kRows][4];  // between blocks the accumulator, within one the sum
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) s[r][j] = hn::Load(kDF, g.accumulators + r * kStrip + j * kLanes);

  for (int begin = 0, word = 0; begin < g.blocks.elements; begin += g.blocks.block, word += words) {
    const int end = std::min(begin + g.blocks.block, g.blocks.elements);

    Bytes e[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) e[r] = hn::Set(kD8, g.least_exponent);
#pragma GCC unroll 4
    for (int k = begin; k < end; ++k) {
      const Bytes b = hn::Load(kD8, g.strip->exponents + k * kStrip);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        e[r] = hn::Max(e[r], hn::Add(b, hn::BitCast(kD8, hn::Set(kD32, rows[r].exponents[k]))));
    }

    start_block<kRows>(e, bases, s);

    for (int k = begin; k < end; ++k) {
      const float* const values = g.strip->values + k * kStrip;
      Floats b[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) b[j] = hn::Load(kDF, values + j * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Floats a = hn::Set(kDF, rows[r].values[k]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) s[r][j] = fused(a, b[j], s[r][j]);
      }
    }

    end_block(Ending(end - begin, kept), rows, word, end - begin, bases, signs, s);
    signs += words * kStrip;
  }

  store_accumulators<kRows>(s, kept, g.accumulators);
}

// Rows of the register tile: with 4 vectors a row, as many as leave room for one row of b and a broadcast.
#if HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 3;
#else
inline constexpr int kTileRows = 6;
#endif

template <class Ending, int kRows>
void chain_upto(const ChainArguments& arguments) {
  if (arguments.row_count == kRows) return chain_rows<Ending, kRows>(arguments);
  if constexpr (kRows > 1) chain_upto<Ending, kRows - 1>(arguments);
}

inline void chain(const ChainArguments& arguments) {
  if (UsualBlock::serves(arguments))
    chain_upto<UsualBlock, kTileRows>(arguments);
  else
    chain_upto<AnyBlock, kTileRows>(arguments);
}

}  // namespace HWY_NAMESPACE
}  // namespace mmaemu::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard of one target
