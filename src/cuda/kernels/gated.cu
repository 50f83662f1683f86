// v9 and tc3, which lean on how tensor cores round, and the probes of just that. PTX does not specify it: the kernels
// are used where the probes and whole products pass.
#include "fast.h"

using V9 = FastTile<E4m3, E4m3, 16, TensorSumsOfPowers>;
MMAEMU_TILED(mmaemu_v9_e4m3e4m3, V9)

// Products by the tensor cores' fp16. On Ampere and Ada one instruction of 8 products aligns them and the accumulator
// to the largest exponent, cuts each to 24 fraction bits, adds exactly, and cuts the sum to fp32. With an accumulator
// of d = 2^(E+11), which is above every product, products are cut to 2^(E-13) = g: the block step's own grid. A result
// below d has g in its last place. One above lost a bit, but then that of the negated products, -s, is below: s is
// min(d + s, d) - min(d - s, d).
class TensorTile {
 public:
  struct Shared {
    TensorSumsOfPowers::Shared exponents;
    SharedArray<Quad, 2 * 2 * kTile> values;  // fp16, [operand][k / 8][row]
  };

  __device__ TensorTile(Shared& shared, const Byte* a, const Byte* b, int M, int N, int K)
      : shared_(shared), operands_(a, b, M, N, K) {}

  __device__ void run(float* c, int N, int K) {
    float sum[8][8] = {};
    Quad codes[1];
    operands_.fetch(0, codes);
    for (int k = 0; k < K; k += kStage) {
      TensorSumsOfPowers::unpack(shared_.exponents, codes, operands_.of_a, operands_.row);
      unpack(codes[0]);
      __syncthreads();
      operands_.fetch(k + kStage, codes);
      Quad powers[4];
      Quad values[4];
      Quad negated[4];
      TensorSumsOfPowers::load_a(shared_.exponents, place_, powers);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = shared_.values.load_matrices(place_.matrices_of_a(0, i));
#pragma unroll
        for (int q = 0; q < 4; ++q) negated[i].w[q] = values[i].w[q] ^ 0x80008000U;
      }
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const Quad power = TensorSumsOfPowers::load_b(shared_.exponents, place_, j);
        const Quad value = shared_.values.load_matrices(place_.matrices_of_b(2, j));
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float(&low)[8] = sum[2 * i];
            float(&high)[8] = sum[2 * i + 1];
            Word magic[2];
            TensorSumsOfPowers::magic_of(powers[i], power.w[2 * n], power.w[2 * n + 1], low, high, j + n, magic[0],
                                         magic[1]);
            block(values[i], negated[i], value.w[2 * n], value.w[2 * n + 1], magic, low, high, 2 * (j + n));
          }
        }
      }
      __syncthreads();
    }
    operands_.store(sum, place_, c, N);
  }

 private:
  __device__ void unpack(const Quad& codes) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      Quad values;
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        values.w[2 * q] = fp16x2_of<E4m3, 0>(codes.w[2 * h + q]);
        values.w[2 * q + 1] = fp16x2_of<E4m3, 1>(codes.w[2 * h + q]);
      }
      shared_.values.store(((operands_.of_a ? 0 : 2) + h) * kTile + operands_.row, values);
    }
  }

  // A block of 16 products of 2 x 2 outputs, columns j and j + 1.
  __device__ static void block(const Quad& a, const Quad& negated, Word b0, Word b1, const Word (&magic)[2],
                               float (&low)[8], float (&high)[8], int j) {
    float m[4];  // 1.5 * 2^(E + 10) and a little
    float d[4];  // 2^(E + 11)
    float sum[4] = {low[j], low[j + 1], high[j], high[j + 1]};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Word field = i % 2 == 0 ? magic[i / 2] << 16 : magic[i / 2];
      m[i] = __uint_as_float(field);
      d[i] = __uint_as_float((field & 0x7F800000U) + 0x00800000U);
      // As in fast.h: the sum cut to g, toward zero.
      const Word begin = __float_as_uint(__fmaf_rz(sum[i], 1.0F + 0x1p-23F, m[i]));
      sum[i] = __uint_as_float(begin + (__float_as_uint(sum[i]) >> 31));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float up[4];
      float down[4];
      mma_fp16(up, a.w[2 * h], a.w[2 * h + 1], h == 0 ? b0 : b1, d);
      mma_fp16(down, negated.w[2 * h], negated.w[2 * h + 1], h == 0 ? b0 : b1, d);
      // Multiples of g below 2^24 g, each of them: exact.
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = __fadd_rn(__fsub_rn(sum[i], fminf(down[i], d[i])), fminf(up[i], d[i]));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = __fsub_rn(sum[i], m[i]);
    low[j] = sum[0];
    low[j + 1] = sum[1];
    high[j] = sum[2];
    high[j + 1] = sum[3];
  }

  Shared& shared_;
  TileOperands<kStage> operands_;
  Place place_;
};
MMAEMU_TILED(mmaemu_tc3_e4m3e4m3, TensorTile)
