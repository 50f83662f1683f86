// v4 and h4: tiles, one fused multiply-add a product, the count of rounded-away products by integer tensor
// cores. Every instruction is defined to the bit by IEEE 754 or PTX. The chain and why it is exact:
// src/cpu/chain-inl.h.
//
// What differs from there, with S between 2^(E+10) and 2^(E+11) and g = 2^(E-13) as there:
// - The accumulator keeps the bits below its 14 significant ones until the chain ends: it is a multiple of
// the old g
//   below 2^21 of them, so a nudge of 1 + 2^-23 moves it past no grid point, old or new, and truncating it to
//   14 bits first would change nothing.
// - The count goes into the bits of S by a product of signs: negative x positive + positive x negative.
// - E comes from sums of powers: operand exponents e as powers 2^(8e) in bf16 (2^(4e) where E5M2 takes part,
// whose
//   range of exponents is wider), whose sum over a block (8 elements) is at least the largest product and
//   less than 2^8 (2^4) times it, however its terms are rounded to nearest. Hopper has an instruction for
//   maxima of sums instead.
// - All numbers are scaled by a power of two, which makes exponent fields out of the sums' by a shift and an
// or.
// - The last bits of a magic number are what lies beside it in a register: any fraction about 1.5 serves.
#include "tiled.h"

template <class A, class B>
struct Powers {
  static constexpr bool kNarrow = A::kExponent == 4 && B::kExponent == 4;
  static constexpr int kShift =
      kNarrow ? 3 : 2;  // the logarithm of the power of two that a step of an exponent is
  static constexpr Word kFields =
      kNarrow ? 0x7C007C00U : 0x7E007E00U;             // where a sum of powers has those of the terms
  static constexpr Word kOffset = kNarrow ? 128 : 64;  // of exponent fields
  // The exponent field of 2^(E + 10), scaled, is kOffset plus the operands' fields.
  static constexpr int kScale = kBias<A> + kBias<B> + static_cast<int>(kOffset) - 137;
};

// __viaddmax_s16x2 is one instruction on these, two on sm_120 and thirteen on sm_89.
constexpr bool kMaximumOfSums = kArchitecture >= 90 && kArchitecture < 120;

constexpr Word kHalf = 0x00400040U;  // the fraction of two magic numbers

template <class A, class B, int kBlock>
class FastTile {
 public:
  // Operand 0 is a, 1 is b.
  struct Shared {
    SharedArray<Four, 2 * kStage / 4 * kTile> values;  // [operand][k / 4][row]
    SharedArray<Quad, 2 * 2 * kTile>
        signs;  // [operand][negative, positive (a), positive, negative (b)][row], bytes
    // [k / 4][pair of rows], both in a word: rows 8 apart of a, neighbours of b. For maxima of sums, rows of
    // a one by one, twice in a word.
    SharedArray<Quad, kBlock / 4 * kTile / (kMaximumOfSums ? 1 : 2)> exponents_a;
    SharedArray<Quad, kBlock / 4 * kTile / 2> exponents_b;
  };

  __device__ FastTile(Shared& shared, const Byte* a, const Byte* b, int M, int N, int K)
      : shared_(shared), K_(K) {
    const int thread = static_cast<int>(threadIdx.x);
    of_a_ = thread < kTiledThreads / 2;
    row_ = thread % kTile;
    const int first = static_cast<int>(of_a_ ? blockIdx.y : blockIdx.x) * kTile;
    rows_a_ = M - static_cast<int>(blockIdx.y) * kTile;
    rows_b_ = N - static_cast<int>(blockIdx.x) * kTile;
    outside_ = row_ >= (of_a_ ? rows_a_ : rows_b_);
    codes_ = (of_a_ ? a : b) + (static_cast<Count>(first) + row_) * K;
  }

  __device__ void run(float* c, int N) {
    float sum[8][8] = {};
    Quad codes[kHalves];
    fetch(0, codes);
    for (int k = 0; k < K_; k += kBlock) {
      unpack_exponents(codes);
      unpack(codes[0]);
      __syncthreads();
      if constexpr (kHalves == 1) fetch(k + kBlock, codes);
      float magic[8][8];
      Word s[8][8];
      start(sum, magic, s);
      chain(s);
      __syncthreads();
      if constexpr (kHalves == 2) {
        unpack(codes[kHalves - 1]);
        __syncthreads();
        fetch(k + kBlock, codes);
        chain(s);
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = __fsub_rn(__uint_as_float(s[i][j]), magic[i][j]);
    }
    store(sum, c, N);
  }

 private:
  using P = Powers<A, B>;
  static constexpr int kHalves = kBlock / kStage;
  static constexpr bool kOneFormat = A::kExponent == B::kExponent;

  // The thread's row of a block at k, zeros outside of the operand.
  __device__ void fetch(int k, Quad (&codes)[kHalves]) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      codes[h] = Quad{{0, 0, 0, 0}};
      if (k + h * kStage < K_ && !outside_)
        codes[h] = *reinterpret_cast<const Quad*>(codes_ + k + h * kStage);
    }
  }

  __device__ void unpack_exponents(const Quad (&codes)[kHalves]) {
    constexpr int kStep = kMaximumOfSums ? 0 : P::kShift;
    constexpr Word kOffsetA = kMaximumOfSums ? P::kOffset / 2 : 63;
    constexpr Word kOffsetB = kMaximumOfSums ? P::kOffset / 2 : 64;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      Word e[4];
      if (kOneFormat || of_a_) {
#pragma unroll
        for (int q = 0; q < 4; ++q)
          e[q] = FourCodes<A>(codes[h].w[q]).template exponents<kStep>(of_a_ ? kOffsetA : kOffsetB);
      } else {
#pragma unroll
        for (int q = 0; q < 4; ++q) e[q] = FourCodes<B>(codes[h].w[q]).template exponents<kStep>(kOffsetB);
      }
      Word others[2];
      const int distance = of_a_ ? 8 : 1;
      const bool upper = (row_ & distance) != 0;
#pragma unroll
      for (int q = 0; q < 2; ++q) others[q] = exchange(upper ? e[q] : e[2 + q], distance);
      if (kMaximumOfSums && of_a_)
        store_twice(4 * h, e);
      else
        store_pairs(4 * h, e, others, upper);
    }
  }

  // Words k / 4 = first.. of a row of a.
  __device__ void store_twice(int first, const Word (&e)[4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      Quad twice;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        twice.w[i] = (__byte_perm(e[q], 0, 0x0404U | static_cast<Word>(i) * 0x1010U) >> 1) + kHalf;
      shared_.exponents_a.store((first + q) * kTile + row_, twice);
    }
  }

  // The two threads that have the rows of a pair each make half of the pair's words.
  __device__ void store_pairs(int first, const Word (&e)[4], const Word (&others)[2], bool upper) {
    const int pair = of_a_ ? row_ / 16 * 8 + row_ % 8 : row_ / 2;
    // Bytes i of the lower row's word and of the upper row's, at 0 and 2; the others are cleared below.
    const Word order = upper ? 0x0004U : 0x0400U;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const Word own = upper ? e[2 + q] : e[q];
      Quad both;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        both.w[i] = (__byte_perm(own, others[q], order + static_cast<Word>(i) * 0x0101U) & 0x00FF00FFU) << 7;
      const int at = (first + (upper ? 2 : 0) + q) * (kTile / 2) + pair;
      if (of_a_)
        shared_.exponents_a.store(at, both);
      else
        shared_.exponents_b.store(at, both);
    }
  }

  // Values and signs of a stage.
  __device__ void unpack(const Quad& codes) {
    // The nudge of the products, 1 + 2^-17, is the first operand's, and so is the scale.
    constexpr Word kScaleA = FourCodes<A>::scale_of(P::kScale) | 1U << 6;
    constexpr Word kScaleB = FourCodes<B>::scale_of(0);
    if (kOneFormat || of_a_)
      unpack_as<A>(codes, __uint_as_float(of_a_ ? kScaleA : kScaleB));
    else
      unpack_as<B>(codes, __uint_as_float(kScaleB));
  }

  template <class F>
  __device__ void unpack_as(const Quad& codes, float scale) {
    Quad negative, positive;
    const int operand = of_a_ ? 0 : 1;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const FourCodes<F> four(codes.w[q]);
      negative.w[q] = four.negative();
      positive.w[q] = four.positive();
      shared_.values.store((operand * 4 + q) * kTile + row_, four.values(scale));
    }
    shared_.signs.store((operand * 2 + operand) * kTile + row_, negative);
    shared_.signs.store((operand * 2 + 1 - operand) * kTile + row_, positive);
  }

  // From the sums of the blocks before to the beginning of this one: E, the magic number and S.
  __device__ void start(const float (&sum)[8][8], float (&magic)[8][8], Word (&s)[8][8]) const {
    Word fields[8][4];
    exponents(sum, fields);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        magic[i][j] = __uint_as_float(j % 2 == 0 ? fields[i][j / 2] << 16 : fields[i][j / 2]);
        const Word begin = __float_as_uint(__fmaf_rz(sum[i][j], 1.0F + 0x1p-23F, magic[i][j]));
        s[i][j] = begin + (__float_as_uint(sum[i][j]) >> 31);
      }
    }
  }

  // As the sums' exponents would have them.
  __device__ static Word own_magic(float even, float odd) {
    const Word halves = __byte_perm(__float_as_uint(even), __float_as_uint(odd), 0x7632U);
    return (halves & 0x7F807F80U) + (0x05000500U + kHalf);
  }

  // The upper halves of the magic numbers of two outputs in a word.
  __device__ void exponents(const float (&sum)[8][8], Word (&fields)[8][4]) const {
    if constexpr (kMaximumOfSums) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) fields[i][j] = own_magic(sum[i][2 * j], sum[i][2 * j + 1]);
      over_exponents<0, kBlock>(fields);
    } else {
      constexpr int kGroup = P::kNarrow ? kBlock : 8;
      over_exponents<0, kGroup>(fields);
      if constexpr (kGroup < kBlock) maximum_of_groups<kGroup, kGroup>(fields);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          // LOP3 takes one constant, and an addition goes with a shift.
          const Word products =
              ((fields[i][j] & P::kFields) >> P::kShift) + (P::kOffset << 7 | P::kOffset << 23 | kHalf);
          fields[i][j] = bf16x2_max(products, own_magic(sum[i][2 * j], sum[i][2 * j + 1]));
        }
      }
    }
  }

  template <int kFrom, int kGroup>
  __device__ void maximum_of_groups(Word (&fields)[8][4]) const {
    Word others[8][4];
    over_exponents<kFrom, kGroup>(others);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) fields[i][j] = bf16x2_max(fields[i][j], others[i][j]);
    if constexpr (kFrom + kGroup < kBlock) maximum_of_groups<kFrom + kGroup, kGroup>(fields);
  }

  // The sums of powers of elements kFrom.. of the block, or the maxima of sums with what is there.
  template <int kFrom, int kCount>
  __device__ void over_exponents(Word (&fields)[8][4]) const {
#pragma unroll
    for (int q = kFrom / 4; q < (kFrom + kCount) / 4; ++q) {
      Quad b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        b[j] = shared_.exponents_b.load(q * (kTile / 2) + (place_.column + 8 * j) / 2 + place_.t);
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        if constexpr (kMaximumOfSums) {
#pragma unroll
          for (int r = i; r < i + 2; ++r) {
            const Quad a = shared_.exponents_a.load(q * kTile + place_.row_of(r));
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
              for (int j = 0; j < 4; ++j) fields[r][j] = __viaddmax_s16x2(a.w[k], b[j].w[k], fields[r][j]);
          }
        } else {
          const Quad a = shared_.exponents_a.load(q * (kTile / 2) + (place_.row + 8 * i) / 2 + place_.g);
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const bool first = q == kFrom / 4 && k == 0;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              fields[i][j] = bf16x2_fma<0>(a.w[k], b[j].w[k], first ? 0U : fields[i][j]);
              fields[i + 1][j] = bf16x2_fma<1>(a.w[k], b[j].w[k], first ? 0U : fields[i + 1][j]);
            }
          }
        }
      }
    }
  }

  // A stage of products, and the count of those that were rounded away from zero.
  __device__ void chain(Word (&s)[8][8]) const {
#pragma unroll
    for (int q = 0; q < kStage / 4; ++q) {
      Four a[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = shared_.values.load(q * kTile + place_.row_of(i));
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Four b = shared_.values.load((kStage / 4 + q) * kTile + place_.column_of(j));
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int i = 0; i < 8; ++i)
            s[i][j] = __float_as_uint(__fmaf_rz(a[i].v[k], b.v[k], __uint_as_float(s[i][j])));
      }
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Quad a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = shared_.signs.load_matrices(lane / 16 * kTile + place_.row + 16 * i + lane % 16);
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int row = place_.column + 4 * j + lane / 16 * 8 + lane % 8;
      const Quad b = shared_.signs.load_matrices((2 + lane / 8 % 2) * kTile + row);
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        count_away(s[i], s[i + 1], j, a[i / 2], b.w[0], b.w[1]);
        count_away(s[i], s[i + 1], j + 2, a[i / 2], b.w[2], b.w[3]);
      }
    }
  }

  __device__ static void count_away(Word (&low)[8], Word (&high)[8], int j, const Quad& a, Word b0, Word b1) {
    Word d[4] = {low[j], low[j + 1], high[j], high[j + 1]};
    mma_s8(d, a.w, b0, b1);
    low[j] = d[0];
    low[j + 1] = d[1];
    high[j] = d[2];
    high[j + 1] = d[3];
  }

  __device__ void store(const float (&sum)[8][8], float* c, int N) const {
    const float unscale = __uint_as_float(power_of_two(-P::kScale));
    c += static_cast<Count>(blockIdx.y) * kTile * N + static_cast<Count>(blockIdx.x) * kTile;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = place_.row_of(i);
      if (row >= rows_a_) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = place_.column_of(j);
        if (column >= rows_b_) continue;
        const float kept = __uint_as_float(__float_as_uint(sum[i][j]) & 0xFFFFFC00U);
        c[static_cast<Count>(row) * N + column] = __fmul_rn(kept, unscale);
      }
    }
  }

  Shared& shared_;
  const Byte* codes_;  // of the row that the thread unpacks
  int K_;
  int row_;              // in the tile
  int rows_a_, rows_b_;  // of the operands, from the tile's first on
  bool of_a_;
  bool outside_;
  Place place_;
};

#define MMAEMU_FAST(name, A, B, block)                                    \
  MMAEMU_KERNEL void __launch_bounds__(kTiledThreads, 1)                  \
      name(const Byte* a, const Byte* b, float* c, int M, int N, int K) { \
    __shared__ FastTile<A, B, block>::Shared shared;                      \
    FastTile<A, B, block>(shared, a, b, M, N, K).run(c, N);               \
  }

MMAEMU_FAST(mmaemu_v4_e4m3e4m3, E4m3, E4m3, 16)
MMAEMU_FAST(mmaemu_v4_e4m3e5m2, E4m3, E5m2, 16)
MMAEMU_FAST(mmaemu_v4_e5m2e4m3, E5m2, E4m3, 16)
MMAEMU_FAST(mmaemu_h4_e4m3e4m3, E4m3, E4m3, 32)
MMAEMU_FAST(mmaemu_h4_e4m3e5m2, E4m3, E5m2, 32)
MMAEMU_FAST(mmaemu_h4_e5m2e4m3, E5m2, E4m3, 32)
