// v9 and tc3, which lean on how tensor cores round, and the probes of just that. PTX does not specify it: the
// kernels are used where the probes and whole products pass.
#include "fast_tile.h"

using V9 = FastTile<E4m3, E4m3, 16, TensorSumsOfPowers>;
MMAEMU_TILED(mmaemu_v9_e4m3e4m3, V9)

// Products by the tensor cores' fp16. On Ampere and Ada one instruction of 8 products aligns them and the
// accumulator to the largest exponent, cuts each to 24 fraction bits, adds exactly, and cuts the sum to fp32.
// With an accumulator of d = 2^(E+11), which is above every product, products are cut to 2^(E-13) = g: the
// block step's own grid. A result below d has g in its last place. One above lost a bit, but then that of the
// negated products, -s, is below: s is min(d + s, d) - min(d - s, d).
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
            TensorSumsOfPowers::magic_of(powers[i], power.w[2 * n], power.w[2 * n + 1], low, high, j + n,
                                         magic[0], magic[1]);
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
      m[i] = magic_of_two(magic[i / 2], i);
      d[i] = __uint_as_float((__float_as_uint(m[i]) & 0x7F800000U) + 0x00800000U);
      sum[i] = __uint_as_float(begin_block(sum[i], m[i]));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float up[4];
      float down[4];
      mma_fp16(up, a.w[2 * h], a.w[2 * h + 1], h == 0 ? b0 : b1, d);
      mma_fp16(down, negated.w[2 * h], negated.w[2 * h + 1], h == 0 ? b0 : b1, d);
      // Multiples of g below 2^24 g, each of them: exact.
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sum[i] = __fadd_rn(__fsub_rn(sum[i], fminf(down[i], d[i])), fminf(up[i], d[i]));
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

// The probes add the number of results that break the property to `violations`; each warp makes `rounds`
// products of 16 x 8 results. `seed` chooses the operands.

// Numbers that differ for every argument.
__device__ inline Word scrambled(Word x) {
  x = (x ^ x >> 16) * 0x7FEB352DU;
  x = (x ^ x >> 15) * 0x846CA68BU;
  return x ^ x >> 16;
}

// The operands of one product: for each element of rows of a (0) and columns of b (1), a number below 2^32.
class ProbeOperands {
 public:
  __device__ ProbeOperands(Word seed, int round) {
    const Word warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32U;
    base_ = scrambled(scrambled(seed + warp) + static_cast<Word>(round));
  }
  __device__ Word common(Word bound) const { return scrambled(base_) % bound; }
  __device__ Word at(int operand, int row, int k) const {
    return scrambled(base_ + 1U + static_cast<Word>((operand * 16 + row) * 16 + k));
  }

 private:
  Word base_;
};

__device__ inline int lane_row(int i) {
  return static_cast<int>(threadIdx.x) % 32 / 4 + 8 * (i / 2);
}
__device__ inline int lane_column(int i) {
  return static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

// "window": a sum of 16 products of powers of two, or 0, lies between the largest and 17 times it; without
// products it is zero. Exponent fields as TensorSumsOfPowers has them.
__device__ inline Word probe_field(const ProbeOperands& operands, int operand, int row, int k) {
  // Fields of a narrow range in some products, where many are the largest; the full range in others.
  const Word range = 1U + operands.common(15);
  const Word x = operands.at(operand, row, k);
  return x % 5U == 0 ? 0U : 1U + (operands.common(7) + x / 5U % range) % 15U;
}

__device__ inline Word probe_power(const ProbeOperands& operands, int operand, int row, int k) {
  const Word field = probe_field(operands, operand, row, k);
  return field == 0 ? 0U : ((operand == 0 ? 63U : 64U) + 8U * field) << 7;
}

MMAEMU_KERNEL void mmaemu_probe_window(Word* violations, Word seed, int rounds) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int round = 0; round < rounds; ++round) {
    const ProbeOperands operands(seed, round);
    Word a[4];
    Word b[2];
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i % 2);
      const int k = lane % 4 * 2 + 8 * (i / 2);
      a[i] = probe_power(operands, 0, row, k) | probe_power(operands, 0, row, k + 1) << 16;
      if (i < 2) {
        const int first = lane % 4 * 2 + 8 * i;
        b[i] = probe_power(operands, 1, lane / 4, first) | probe_power(operands, 1, lane / 4, first + 1)
                                                               << 16;
      }
    }
    float d[4];
    mma_bf16(d, a, b[0], b[1]);
    Word broken = 0;
    for (int i = 0; i < 4; ++i) {
      Word largest = 0;
      for (int k = 0; k < 16; ++k) {
        const Word x = probe_field(operands, 0, lane_row(i), k);
        const Word y = probe_field(operands, 1, lane_column(i), k);
        if (x != 0 && y != 0 && x + y > largest) largest = x + y;
      }
      // The field of a product of powers is 8 times the sum of the two.
      const float least = __uint_as_float(largest == 0 ? 0U : 8U * largest << 23);
      if (!(d[i] >= least && d[i] <= 17.0F * least)) ++broken;
    }
    if (broken != 0) atomicAdd(violations, broken);
  }
}

// "design_a": the sum of eight products that TensorTile::block makes of two results is that of the products
// cut to g.
__device__ inline Word probe_code(const ProbeOperands& operands, int operand, int row, int k) {
  const Word x = operands.at(operand, row, k);
  const Word magnitude = operands.common(3) == 0 ? x % 127U : (operands.common(100) + x % 24U) % 127U;
  return magnitude | (x >> 31) << 7;
}

MMAEMU_KERNEL void mmaemu_probe_design_a(Word* violations, Word seed, int rounds) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int round = 0; round < rounds; ++round) {
    const ProbeOperands operands(seed, round);
    Word a[2];
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i;
      const int k = lane % 4 * 2;
      a[i] = fp16x2_of<E4m3, 0>(probe_code(operands, 0, row, k) | probe_code(operands, 0, row, k + 1) << 8);
    }
    const int k = lane % 4 * 2;
    const Word b = fp16x2_of<E4m3, 0>(probe_code(operands, 1, lane / 4, k) |
                                      probe_code(operands, 1, lane / 4, k + 1) << 8);
    int exponents[4];  // E, as the sum of two exponent fields
    float d[4];
    for (int i = 0; i < 4; ++i) {
      exponents[i] = 2;
      for (int n = 0; n < 8; ++n) {
        const Word x = probe_code(operands, 0, lane_row(i), n);
        const Word y = probe_code(operands, 1, lane_column(i), n);
        const int both = exponent_field<E4m3>(x) + exponent_field<E4m3>(y);
        if ((x & 0x7FU) != 0 && (y & 0x7FU) != 0 && both > exponents[i]) exponents[i] = both;
      }
      // The sum before may have a larger one.
      if (operands.common(2) == 0) exponents[i] += static_cast<int>(operands.at(1, 15, i) % 20U);
      d[i] = __uint_as_float(static_cast<Word>(exponents[i] - 14 + 11 + 127) << 23);
    }
    float up[4];
    float down[4];
    mma_fp16(up, a[0], a[1], b, d);
    mma_fp16(down, a[0] ^ 0x80008000U, a[1] ^ 0x80008000U, b, d);
    Word broken = 0;
    for (int i = 0; i < 4; ++i) {
      // In units of g: a product of significands of 3 fraction bits each, moved by its exponents, toward
      // zero.
      int sum = 0;
      for (int n = 0; n < 8; ++n) {
        const Word x = probe_code(operands, 0, lane_row(i), n);
        const Word y = probe_code(operands, 1, lane_column(i), n);
        const Word x_significand = (x & 7U) | ((x & 0x78U) != 0 ? 8U : 0U);
        const Word y_significand = (y & 7U) | ((y & 0x78U) != 0 ? 8U : 0U);
        const int up_by = 13 - 6 + exponent_field<E4m3>(x) + exponent_field<E4m3>(y) - exponents[i];
        const Word product = x_significand * y_significand;
        const Word magnitude = up_by >= 0 ? product << up_by : -up_by < 32 ? product >> -up_by : 0U;
        sum += ((x ^ y) & 0x80U) != 0 ? -static_cast<int>(magnitude) : static_cast<int>(magnitude);
      }
      const float g = __uint_as_float(static_cast<Word>(exponents[i] - 14 - 13 + 127) << 23);
      const float found = __fsub_rn(fminf(up[i], d[i]), fminf(down[i], d[i]));
      if (found != __fmul_rn(static_cast<float>(sum), g)) ++broken;
    }
    if (broken != 0) atomicAdd(violations, broken);
  }
}
