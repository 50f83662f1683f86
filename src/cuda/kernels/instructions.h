// Instructions that have no name in CUDA C++ without its headers, and shared memory. The tests bring their
// own counterpart of this file, which checks every access.
#ifndef MMAEMU_CUDA_INSTRUCTIONS_H
#define MMAEMU_CUDA_INSTRUCTIONS_H

#include "device.h"

// 89: compute capability 8.9; 0 where a compiler only looks.
#ifdef __CUDA_ARCH__
constexpr int kArchitecture = __CUDA_ARCH__ / 10;
#else
constexpr int kArchitecture = 0;
#endif

// An array in shared memory: every access to one goes through here.
template <class T, int kSize>
class SharedArray {
 public:
  __device__ T load(int i) const { return at_[i]; }
  __device__ void store(int i, const T& value) { at_[i] = value; }
  // Four 8 x 8 matrices of 16-bit elements, row r of matrix q at 16 bytes from element `row` of lane 8q + r:
  // the lane gets elements 2t and 2t + 1 of row g of each (lane = 4g + t).
  __device__ T load_matrices(int row) const {
    static_assert(sizeof(T) == 16, "a row is 16 bytes");
    const Word address = static_cast<Word>(__cvta_generic_to_shared(&at_[row]));
    T q;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q.w[0]), "=r"(q.w[1]), "=r"(q.w[2]), "=r"(q.w[3])
                 : "r"(address)
                 : "memory");
    return q;
  }

 private:
  T at_[kSize];
};

// Two bf16 numbers in a word: a b + c by IEEE 754, to nearest, with one of the two numbers of a for both.
template <int kHalf>
__device__ inline Word bf16x2_fma(Word a, Word b, Word c) {
  Word d;
  if constexpr (kHalf == 0)
    asm("{\n\t.reg .b16 low, high;\n\t.reg .b32 twice;\n\tmov.b32 {low, high}, %1;\n\tmov.b32 twice, {low, "
        "low};\n\t"
        "fma.rn.bf16x2 %0, twice, %2, %3;\n\t}"
        : "=r"(d)
        : "r"(a), "r"(b), "r"(c));
  else
    asm("{\n\t.reg .b16 low, high;\n\t.reg .b32 twice;\n\tmov.b32 {low, high}, %1;\n\tmov.b32 twice, {high, "
        "high};\n\t"
        "fma.rn.bf16x2 %0, twice, %2, %3;\n\t}"
        : "=r"(d)
        : "r"(a), "r"(b), "r"(c));
  return d;
}

// The larger of two.
__device__ inline Word bf16x2_max(Word a, Word b) {
  Word d;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// The fp16 numbers of the codes in the low (high) half of a word, in the order of the codes.
template <class F, int kHalf>
__device__ inline Word fp16x2_of(Word codes) {
  Word d;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  const auto two = static_cast<unsigned short>(codes >> (16 * kHalf));
  if constexpr (F::kExponent == 4)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(two));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(d) : "h"(two));
#else
  // A code's bits in the fields of fp16 are its number times the power of two between the biases.
  const Word high = __byte_perm(codes, 0, kHalf == 0 ? 0x1404U : 0x3424U);
  const Word bits = (high & 0x80008000U) | (high & 0x7F007F00U) >> (F::kExponent == 4 ? 1 : 0);
  const Word scale = F::kExponent == 4 ? 0x5C005C00U : 0x3C003C00U;  // 2^8, 1
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(bits), "r"(scale));
#endif
  return d;
}
template <int kHalf>
__device__ inline float float_of_fp16(Word two) {
  float x;
  if constexpr (kHalf == 0)
    asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tcvt.f32.f16 %0, low;\n\t}"
        : "=f"(x)
        : "r"(two));
  else
    asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tcvt.f32.f16 %0, high;\n\t}"
        : "=f"(x)
        : "r"(two));
  return x;
}

// What the lane whose number differs in the bit `distance` passes.
__device__ inline Word exchange(Word x, int distance) {
  return __shfl_xor_sync(0xFFFFFFFFU, x, distance);
}

// Products of matrices by a warp, d 16 x 8. Lane 4g + t has of d the rows g (first two) and g + 8, columns 2t
// and 2t + 1. Of a it has rows g and g + 8 and of b column g: in each 16 bytes of a row the four from 4t on,
// first of both rows, then of the next 16 bytes.
//
// d += a b, 16 x 32 and 32 x 8 signed bytes; words, modulo 2^32.
__device__ inline void mma_s8(Word (&d)[4], const Word (&a)[4], Word b0, Word b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d = a b, 16 x 16 and 16 x 8 bf16 numbers; fp32, rounded as the architecture does.
__device__ inline void mma_bf16(float (&d)[4], const Word (&a)[4], Word b0, Word b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}
// d = c + a b, 16 x 8 and 8 x 8 fp16 numbers; fp32, rounded as the architecture does.
__device__ inline void mma_fp16(float (&d)[4], Word a0, Word a1, Word b, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a0), "r"(a1), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

#endif  // MMAEMU_CUDA_INSTRUCTIONS_H
