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

// What the bytes of a word, four codes of one row, are.
template <class F>
struct FourCodes {
  Word magnitudes;  // the codes without their signs
  Word present;     // 1 for a number that is not zero
  Word negative;    // 1 for a negative one
  Word subnormal;   // 1 for a subnormal one

  __device__ explicit FourCodes(Word codes) {
    constexpr Word kOnes = 0x01010101U;
    magnitudes = codes & 0x7F7F7F7FU;
    present = (magnitudes + 0x7FU * kOnes) >> 7 & kOnes;
    negative = codes >> 7 & present;
    const Word normal = (magnitudes + (0x80U - (1U << F::kFraction)) * kOnes) >> 7 & kOnes;
    subnormal = present ^ normal;
  }
  __device__ Word positive() const { return present ^ negative; }
  // In each byte the exponent field shifted left by kShift, that of subnormal numbers one, plus `offset`; 0
  // for zero.
  template <int kShift>
  __device__ Word exponents(Word offset) const {
    constexpr Word kField = ((1U << F::kExponent) - 1U) << F::kFraction;
    const Word fields = magnitudes & kField * 0x01010101U;
    const Word placed =
        kShift >= F::kFraction ? fields << (kShift - F::kFraction) : fields >> (F::kFraction - kShift);
    return present * offset + (subnormal * (1U << kShift) + placed);
  }
};

// The value of byte i times `scale`, which holds the power of two between the biases of the format and of
// fp32.
template <class F>
__device__ inline float scaled_value(Word codes, int i, float scale) {
  const Word top = __byte_perm(codes, 0, static_cast<Word>(i) << 12 | 0x0444U);
  const Word spread = static_cast<Word>(static_cast<int>(top) >> (F::kFraction + 1));
  return __fmul_rn(__uint_as_float(spread & (0x80000000U | 0x7FU << (23 - F::kFraction))), scale);
}

template <class F>
constexpr int kBias = (1 << (F::kExponent - 1)) - 1;

// 2^exponent.
__device__ constexpr Word power_of_two(int exponent) {
  return static_cast<Word>(exponent + 127) << 23;
}
