// Tiles with one fused multiply-add a product. The chain and why it is exact: src/cpu/chain-inl.h.
//
// What differs, with S between 2^(E+10) and 2^(E+11) and g = 2^(E-13) as there:
//
// The accumulator keeps the bits below its 14 significant ones until the chain ends. It is a multiple of the
// old g below 2^21 of them, so a nudge of 1 + 2^-23 moves it past no grid point, old or new; and truncating
// it to 14 bits before it is truncated to the new g would change nothing.
//
// The count of the products that S rounded away from zero goes into the bits of S as a matrix product of
// signs by the integer tensor cores: negative x positive + positive x negative numbers.
//
// The last bits of a magic number are what lies beside it in a register: any fraction about 1.5 serves.
#pragma once

#include "exponents.h"

template <class A, class B, int kBlock, class Exponents>
class FastTile {
 public:
  // Operand 0 is a, 1 is b.
  struct Shared {
    typename Exponents::Shared exponents;
    SharedArray<Four, 2 * kStage / 4 * kTile> values;  // [operand][k / 4][row]
    // [operand][negative, positive (of b the other way round)][row], a byte an element
    SharedArray<Quad, 2 * 2 * kTile> signs;
  };

  __device__ FastTile(Shared& shared, const Byte* a, const Byte* b, int M, int N, int K)
      : shared_(shared), operands_(a, b, M, N, K) {}

  __device__ void run(float* c, int N, int K) {
    float sum[8][8] = {};
    Quad codes[kHalves];
    operands_.fetch(0, codes);
    for (int k = 0; k < K; k += kBlock) {
      Exponents::unpack(shared_.exponents, codes, operands_.of_a, operands_.row);
      unpack(codes[0]);
      __syncthreads();
      if constexpr (kHalves == 1) operands_.fetch(k + kBlock, codes);
      float magic[8][8];
      Word s[8][8];
      start(sum, magic, s);
      chain(s);
      __syncthreads();
      if constexpr (kHalves == 2) {
        unpack(codes[kHalves - 1]);
        __syncthreads();
        operands_.fetch(k + kBlock, codes);
        chain(s);
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = __fsub_rn(__uint_as_float(s[i][j]), magic[i][j]);
    }
    operands_.store(sum, place_, c, N);
  }

 private:
  static constexpr int kHalves = kBlock / kStage;
  static_assert(kHalves == 1 || kHalves == 2, "");

  // Values and signs of a stage.
  __device__ void unpack(const Quad& codes) {
    // The nudge of the products, 1 + 2^-17, is the first operand's.
    constexpr Word kScaleA = FourCodes<A>::kScale | 1U << 6;
    constexpr Word kScaleB = FourCodes<B>::kScale;
    if (A::kExponent == B::kExponent || operands_.of_a)
      unpack_as<A>(codes, __uint_as_float(operands_.of_a ? kScaleA : kScaleB));
    else
      unpack_as<B>(codes, __uint_as_float(kScaleB));
  }

  template <class F>
  __device__ void unpack_as(const Quad& codes, float scale) {
    Quad negative, positive;
    const int operand = operands_.of_a ? 0 : 1;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const FourCodes<F> four(codes.w[q]);
      negative.w[q] = four.negative();
      positive.w[q] = four.positive();
      shared_.values.store((operand * 4 + q) * kTile + operands_.row, four.values(scale));
    }
    shared_.signs.store((operand * 2 + operand) * kTile + operands_.row, negative);
    shared_.signs.store((operand * 2 + 1 - operand) * kTile + operands_.row, positive);
  }

  // From the sums of the blocks before to the beginning of this one: E, the magic number and S.
  __device__ void start(const float (&sum)[8][8], float (&magic)[8][8], Word (&s)[8][8]) const {
    Word fields[8][4];
    Exponents::magic(shared_.exponents, place_, sum, fields);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        magic[i][j] = magic_of_two(fields[i][j / 2], j);
        s[i][j] = begin_block(sum[i][j], magic[i][j]);
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
    Quad a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = shared_.signs.load_matrices(place_.matrices_of_a(0, i));
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const Quad b = shared_.signs.load_matrices(place_.matrices_of_b(2, j / 2));
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

  Shared& shared_;
  TileOperands<kBlock> operands_;
  Place place_;
};

template <class Tile>
__device__ inline void run_tile(const Byte* a, const Byte* b, float* c, int M, int N, int K) {
  __shared__ typename Tile::Shared shared;
  Tile(shared, a, b, M, N, K).run(c, N, K);
}

#define MMAEMU_TILED(name, tile)                                          \
  MMAEMU_KERNEL void __launch_bounds__(kTiledThreads, 1)                  \
      name(const Byte* a, const Byte* b, float* c, int M, int N, int K) { \
    run_tile<tile>(a, b, c, M, N, K);                                     \
  }
