// v1 and h1: one thread an output, one fused multiply-add a product, nothing that IEEE 754 does not define. The chain
// and why it is exact: src/cpu/chain-inl.h. Blocks of 16 products for preset ada, of 32 for hopper.
#include "device.h"

template <class A, class B, int kBlock>
__device__ inline void portable_chain(const Byte* a, const Byte* b, float* c, int M, int N, int K) {
  const int m = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (m >= M || n >= N) return;
  const Sixteen* row = reinterpret_cast<const Sixteen*>(a + static_cast<Count>(m) * K);
  const Sixteen* column = reinterpret_cast<const Sixteen*>(b + static_cast<Count>(n) * K);
  constexpr int kPieces = kBlock / 16;
  constexpr int kBias = (1 << (A::kExponent - 1)) - 1 + (1 << (B::kExponent - 1)) - 1;
  const int pieces = K / 16;
  float sum = 0.0F;
  for (int first = 0; first < pieces; first += kPieces) {
    Sixteen x[kPieces] = {};
    Sixteen y[kPieces] = {};
    for (int p = 0; p < kPieces; ++p) {
      if (first + p < pieces) {
        x[p] = row[first + p];
        y[p] = column[first + p];
      }
    }
    // The sum's exponent, and each product's: the sum of the operands', not that of the product.
    int largest = 0;
    Word away = 0;  // numbers that the floor of the sum moves one step too far
    for (int i = 0; i < kBlock; ++i) {
      const Word s = x[i / 16].code(i % 16);
      const Word t = y[i / 16].code(i % 16);
      if ((s & 0x7FU) == 0 || (t & 0x7FU) == 0) continue;
      const int both = exponent_field<A>(s) + exponent_field<B>(t);
      largest = both > largest ? both : largest;
      away += (s ^ t) >> 7 & 1U;
    }
    if (largest == 0) continue;  // no product: the sum is a multiple of its own grid
    const Word bits = __float_as_uint(sum);
    const int own = static_cast<int>(bits >> 23 & 0xFFU);  // 0 for zero, else biased by 127
    int field = largest - kBias + 127;
    if (own > field) field = own;
    away += bits >> 31;
    const float magic = __uint_as_float(static_cast<Word>(field + 10) << 23 | 0x00400000U);
    float s = __fmaf_rz(sum, 1.0F + 0x1p-15F, magic);
    for (int i = 0; i < kBlock; ++i) {
      const float p = __fmul_rn(value<A>(x[i / 16].code(i % 16)), 1.0F + 0x1p-17F);
      s = __fmaf_rz(p, value<B>(y[i / 16].code(i % 16)), s);
    }
    s = __uint_as_float(__float_as_uint(s) + away);
    sum = __uint_as_float(__float_as_uint(__fsub_rn(s, magic)) & 0xFFFFFC00U);
  }
  c[static_cast<Count>(m) * N + n] = sum;
}

#define MMAEMU_PORTABLE(name, A, B, block)                                                                  \
  extern "C" __global__ void name(const Byte* a, const Byte* b, float* c, int M, int N, int K) {            \
    portable_chain<A, B, block>(a, b, c, M, N, K);                                                          \
  }

MMAEMU_PORTABLE(mmaemu_v1_e4m3e4m3, E4m3, E4m3, 16)
MMAEMU_PORTABLE(mmaemu_v1_e4m3e5m2, E4m3, E5m2, 16)
MMAEMU_PORTABLE(mmaemu_v1_e5m2e4m3, E5m2, E4m3, 16)
MMAEMU_PORTABLE(mmaemu_h1_e4m3e4m3, E4m3, E4m3, 32)
MMAEMU_PORTABLE(mmaemu_h1_e4m3e5m2, E4m3, E5m2, 32)
MMAEMU_PORTABLE(mmaemu_h1_e5m2e4m3, E5m2, E4m3, 32)
