// What the tiled kernels share: a block of threads computes a 128 x 128 tile of the result, a thread 8 x 8
// outputs of it in the layout of the tensor cores' results; codes are unpacked to shared memory 16 of K at a
// time.
#pragma once

#include "instructions.h"

constexpr int kTile = 128;          // rows of a and of b
constexpr int kTiledThreads = 256;  // the first half unpacks a, the second b
constexpr int kStage = 16;          // elements of K whose values are in shared memory at once

// Where a thread's 8 x 8 outputs lie: those of 4 x 4 tensor-core results of 16 x 8. Lane 4g + t of a warp of
// 64 x 32 outputs has row i at 16 (i / 2) + 8 (i % 2) + g and column j at 8 (j / 2) + 2t + j % 2.
class Place {
 public:
  __device__ Place() {
    const int thread = static_cast<int>(threadIdx.x);
    lane_ = thread % 32;
    row_ = thread / 32 / 4 * 64;
    column_ = thread / 32 % 4 * 32;
  }
  __device__ int row_of(int i) const { return row_ + 16 * (i / 2) + 8 * (i % 2) + lane_ / 4; }
  __device__ int column_of(int j) const { return column_ + 8 * (j / 2) + lane_ % 4 * 2 + j % 2; }
  // Of rows i and i + 1, in pairs of rows 8 apart; of columns 2j and 2j + 1, in pairs of neighbours.
  __device__ int pair_of_rows(int i) const { return row_ / 2 + 4 * i + lane_ / 4; }
  __device__ int pair_of_columns(int j) const { return column_ / 2 + 4 * j + lane_ % 4; }
  // Where the lane's row is for load_matrices, in arrays [half of K][row of 16 bytes] that begin with half
  // `first`: the first operand of result row i of tiles, the second operands of result columns j and j + 1 of
  // tiles.
  __device__ int matrices_of_a(int first, int i) const {
    return (first + lane_ / 16) * kTile + row_ + 16 * i + lane_ % 16;
  }
  __device__ int matrices_of_b(int first, int j) const {
    return (first + lane_ / 8 % 2) * kTile + column_ + 8 * j + lane_ / 16 * 8 + lane_ % 8;
  }

 private:
  int lane_;
  int row_, column_;  // of the warp's first output in the tile
};

// Four words that one instruction loads or stores.
struct alignas(16) Quad {
  Word w[4];
};
struct alignas(16) Four {
  float v[4];
};

template <class F>
constexpr Word kBias = (1U << (F::kExponent - 1)) - 1U;

// What the bytes of a word, four codes of one row, are.
template <class F>
class FourCodes {
 public:
  __device__ explicit FourCodes(Word codes) : codes_(codes), magnitudes_(codes & 0x7F7F7F7FU) {
    // A sum's top bit tells whether a magnitude is as large as the least number that is not zero, or not
    // subnormal.
    const Word nonzero = magnitudes_ + 0x7F * kOnes;
    const Word normal = magnitudes_ + (0x80U - (1U << F::kFraction)) * kOnes;
    present_ = nonzero >> 7 & kOnes;
    subnormal_ = (nonzero ^ normal) & 0x80 * kOnes;
  }
  // 1 for each negative (positive) number that is not zero.
  __device__ Word negative() const { return codes_ >> 7 & present_; }
  __device__ Word positive() const { return ~(codes_ >> 7) & present_; }
  // In each byte the exponent field shifted left by kShift, that of subnormal numbers one, plus `offset`; 0
  // for zero.
  template <int kShift>
  __device__ Word exponents(Word offset) const {
    constexpr Word kFields = (((1U << F::kExponent) - 1U) << F::kFraction) * kOnes;
    const Word fields = magnitudes_ & kFields;
    const Word placed =
        kShift >= F::kFraction ? fields << (kShift - F::kFraction) : fields >> (F::kFraction - kShift);
    return (placed | subnormal_ >> (7 - kShift)) + present_ * offset;
  }
  // The numbers times `scale`, a power of two with a nudge or without. Codes that are not finite give
  // anything.
  __device__ Four values(float scale) const {
    Four values;
    if constexpr (kArchitecture >= 89) {
      const Word low = fp16x2_of<F, 0>(codes_);
      const Word high = fp16x2_of<F, 1>(codes_);
      values.v[0] = __fmul_rn(float_of_fp16<0>(low), scale);
      values.v[1] = __fmul_rn(float_of_fp16<1>(low), scale);
      values.v[2] = __fmul_rn(float_of_fp16<0>(high), scale);
      values.v[3] = __fmul_rn(float_of_fp16<1>(high), scale);
    } else {
      // A code's bits in the fields of fp32 are its number times the power of two between the biases, for
      // subnormal numbers too.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Word top = __byte_perm(codes_, 0, static_cast<Word>(i) << 12 | 0x0444U);
        const Word spread = static_cast<Word>(static_cast<int>(top) >> (F::kFraction + 1));
        values.v[i] =
            __fmul_rn(__uint_as_float(spread & (0x80000000U | 0x7FU << (23 - F::kFraction))), scale);
      }
    }
    return values;
  }
  // What `values` takes for the numbers themselves, 1 or the power of two between the biases of the format
  // and fp32.
  static constexpr Word kScale = (127U + (kArchitecture >= 89 ? 0U : 127U - kBias<F>)) << 23;

 private:
  static constexpr Word kOnes = 0x01010101U;
  Word codes_;
  Word magnitudes_;
  Word present_;    // 1 for a number that is not zero
  Word subnormal_;  // 0x80 for a subnormal one
};

// Sizes and places that follow from the formats. Fields are those of fp32 and bf16 exponents.
template <class A, class B>
struct Powers {
  // An operand exponent e stands as 2^(8e), or as 2^(4e) where E5M2, whose exponents have a wider range,
  // takes part: the sum of up to 32 (8) products of powers is at least the largest and less than 2^8 (2^4)
  // times it.
  static constexpr bool kNarrow = A::kExponent == 4 && B::kExponent == 4;
  static constexpr int kShift = kNarrow ? 3 : 2;
  static constexpr int kMostTerms = kNarrow ? 32 : 8;
  static constexpr Word kFields = kNarrow ? 0x7C007C00U : 0x7E007E00U;  // of the largest, in two sums
  // The field of 2^(E + 10) is this plus the operands' fields, of which subnormal numbers have one.
  static constexpr Word kOffset = 137U - kBias<A> - kBias<B>;
};

// Two magic numbers 1.5 * 2^(E + 10) in a word, as far as the sums before them tell: the upper halves.
constexpr Word kMagicFraction = 0x00400040U;
__device__ inline Word own_magic(float even, float odd) {
  const Word halves = __byte_perm(__float_as_uint(even), __float_as_uint(odd), 0x7632U);
  return (halves & 0x7F807F80U) + (0x05000500U + kMagicFraction);
}

// One of the two: the even output's is in the lower half.
__device__ inline float magic_of_two(Word two, int i) {
  return __uint_as_float(i % 2 == 0 ? two << 16 : two);
}

// The sum so far, cut toward zero to the grid of a block, on its magic number. The nudge and the sign undo
// what the rounding of a number below the magic one does; src/cpu/chain-inl.h.
__device__ inline Word begin_block(float sum, float magic) {
  return __float_as_uint(__fmaf_rz(sum, 1.0F + 0x1p-23F, magic)) + (__float_as_uint(sum) >> 31);
}

// The rows that the threads of a tile unpack, and the tile's outputs.
template <int kBlock>
class TileOperands {
 public:
  static constexpr int kHalves = kBlock / kStage;

  __device__ TileOperands(const Byte* a, const Byte* b, int M, int N, int K) : K_(K) {
    const int thread = static_cast<int>(threadIdx.x);
    of_a = thread < kTiledThreads / 2;
    row = thread % kTile;
    const int first = static_cast<int>(of_a ? blockIdx.y : blockIdx.x) * kTile;
    rows_a_ = M - static_cast<int>(blockIdx.y) * kTile;
    rows_b_ = N - static_cast<int>(blockIdx.x) * kTile;
    outside_ = row >= (of_a ? rows_a_ : rows_b_);
    codes_ = (of_a ? a : b) + (static_cast<Count>(first) + row) * K;
  }

  // The thread's row of the block at k, zeros outside of the operand.
  __device__ void fetch(int k, Quad (&codes)[kHalves]) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      codes[h] = Quad{{0, 0, 0, 0}};
      if (k + h * kStage < K_ && !outside_)
        codes[h] = *reinterpret_cast<const Quad*>(codes_ + k + h * kStage);
    }
  }

  // The sums with 14 significant bits.
  __device__ void store(const float (&sum)[8][8], const Place& place, float* c, int N) const {
    c += static_cast<Count>(blockIdx.y) * kTile * N + static_cast<Count>(blockIdx.x) * kTile;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int m = place.row_of(i);
      if (m >= rows_a_) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int n = place.column_of(j);
        if (n < rows_b_)
          c[static_cast<Count>(m) * N + n] = __uint_as_float(__float_as_uint(sum[i][j]) & 0xFFFFFC00U);
      }
    }
  }

  bool of_a;  // the thread unpacks a row of a, else of b
  int row;    // in the tile

 private:
  const Byte* codes_;
  int K_;
  int rows_a_, rows_b_;  // of the operands, from the tile's first on
  bool outside_;
};
