// What the tiled kernels share: a block of threads computes a 128 x 128 tile of the result, a thread 8 x 8
// outputs of it in the layout of the tensor cores' results; codes are unpacked to shared memory 16 of K at a
// time.
#pragma once

#include "instructions.h"

constexpr int kTile = 128;          // rows of a and of b
constexpr int kTiledThreads = 256;  // the first half unpacks a, the second b
constexpr int kStage = 16;          // elements of K whose values are in shared memory at once

// Where a thread's 8 x 8 outputs lie. Lane 4g + t of a warp of 64 x 32 outputs has row i at 16 (i / 2) + 8 (i
// % 2) + g and column j at 8 (j / 2) + 2t + j % 2.
struct Place {
  int g, t, row, column;  // of the warp's first output in the tile
  __device__ Place() {
    const int thread = static_cast<int>(threadIdx.x);
    g = thread % 32 / 4;
    t = thread % 4;
    row = thread / 32 / 4 * 64;
    column = thread / 32 % 4 * 32;
  }
  __device__ int row_of(int i) const { return row + 16 * (i / 2) + 8 * (i % 2) + g; }
  __device__ int column_of(int j) const { return column + 8 * (j / 2) + 2 * t + j % 2; }
};

// Four words that one instruction loads or stores.
struct alignas(16) Quad {
  Word w[4];
};
struct alignas(16) Four {
  float v[4];
};

template <class F>
constexpr int kBias = (1 << (F::kExponent - 1)) - 1;

// 2^exponent.
__device__ constexpr Word power_of_two(int exponent) {
  return static_cast<Word>(exponent + 127) << 23;
}

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
  // What `values` takes for numbers times 2^exponent.
  __device__ static constexpr Word scale_of(int exponent) {
    return power_of_two(kArchitecture >= 89 ? exponent : exponent + 127 - kBias<F>);
  }

 private:
  static constexpr Word kOnes = 0x01010101U;
  Word codes_;
  Word magnitudes_;
  Word present_;    // 1 for a number that is not zero
  Word subnormal_;  // 0x80 for a subnormal one
};
