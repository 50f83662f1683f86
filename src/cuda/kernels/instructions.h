// Instructions that have no name in CUDA C++ without its headers, and shared memory. The tests bring their
// own counterpart of this file, which checks every access.
#ifndef MMAEMU_CUDA_INSTRUCTIONS_H
#define MMAEMU_CUDA_INSTRUCTIONS_H

#include "device.h"

// Four words that one instruction loads or stores.
struct alignas(16) Quad {
  Word w[4];
};
struct alignas(16) Four {
  float v[4];
};
struct alignas(8) Pair {
  Word w[2];
};

// An array in shared memory: every access to one goes through here.
template <class T, int kSize>
class SharedArray {
 public:
  __device__ T load(int i) const { return at_[i]; }
  __device__ void store(int i, const T& value) { at_[i] = value; }
  __device__ void store_half(int i, int half, const Pair& value) {
    reinterpret_cast<Pair*>(&at_[i])[half] = value;
  }
  // Four 8 x 8 matrices of 16-bit elements, row r of matrix q at 16 bytes from element `row` of lane 8q + r:
  // the lane gets elements 2t and 2t + 1 of row g of each (lane = 4g + t).
  __device__ Quad load_matrices(int row) const {
    static_assert(sizeof(T) == 16, "a row is 16 bytes");
    const Word address = static_cast<Word>(__cvta_generic_to_shared(&at_[row]));
    Quad q;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q.w[0]), "=r"(q.w[1]), "=r"(q.w[2]), "=r"(q.w[3])
                 : "r"(address)
                 : "memory");
    return q;
  }

 private:
  T at_[kSize];
};

// Two bf16 numbers in a word. IEEE 754 with round to nearest; the larger of two; the magnitude.
__device__ inline Word bf16x2_fma(Word a, Word b, Word c) {
  Word d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ inline Word bf16x2_max(Word a, Word b) {
  Word d;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ inline Word bf16x2_abs(Word a) {
  Word d;
  asm("abs.bf16x2 %0, %1;" : "=r"(d) : "r"(a));
  return d;
}

// d += a b in integers: a is 16 x 32 and b 32 x 8 signed bytes, d 16 x 8 words. Lane 4g + t has of a the rows
// g and g + 8, columns 4t.. and 16 + 4t..; of b the rows 4t.. and 16 + 4t.., column g; of d the rows g (first
// two) and g + 8, columns 2t and 2t + 1.
__device__ inline void mma_s8(Word (&d)[4], const Quad& a, Word b0, Word b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));
}

#endif  // MMAEMU_CUDA_INSTRUCTIONS_H
