// What the kernels share: codes in registers, and the functions of IEEE 754 that they rest on. Device code
// for nvcc and NVRTC; the tests compile it as host C++ with their own __global__, threadIdx and intrinsics.
#pragma once

using Byte = unsigned char;
using Word = unsigned int;
using Count = long long;

// Numbers as in formats.h: exponent and fraction bits of a format, and whether its largest exponent is
// IEEE's.
struct E4m3 {
  static constexpr int kFraction = 3;
  static constexpr int kExponent = 4;
  static constexpr Word kFirstNonFinite = 0x7F;
};
struct E5m2 {
  static constexpr int kFraction = 2;
  static constexpr int kExponent = 5;
  static constexpr Word kFirstNonFinite = 0x7C;
};

// Sixteen codes of a row, as one load brings them.
struct alignas(16) Sixteen {
  Word words[4];
  __device__ Word code(int i) const { return words[i / 4] >> (i % 4 * 8) & 0xFFU; }
};

template <class F>
__device__ inline bool finite(Word code) {
  return (code & 0x7FU) < F::kFirstNonFinite;
}

// The value of a finite code: its bits in the fp32 fields, times the power of two between the biases, which
// is exact for subnormal numbers too. Codes that are not finite give some finite number.
template <class F>
__device__ inline float value(Word code) {
  const Word bits = (code & 0x80U) << 24 | (code & 0x7FU) << (23 - F::kFraction);
  return __fmul_rn(__uint_as_float(bits), __uint_as_float((254U - ((1U << (F::kExponent - 1)) - 1U)) << 23));
}

// floor(log2|x|) of a code that is not zero, with subnormal numbers at the format's least exponent, above the
// bias.
template <class F>
__device__ inline int exponent_field(Word code) {
  const int field = static_cast<int>((code & 0x7FU) >> F::kFraction);
  return field > 1 ? field : 1;
}
