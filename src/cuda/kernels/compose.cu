// Everything around the chains: the operands of one chain side by side, sums of chain results, and the end of
// a product. docs/semantics.md, sections 3 to 5.
#include "device.h"

// A chain's elements (mmaemu/plan.h: begin, width, stride; multiples of 16) of rows of `depth` codes,
// `length` a row.
MMAEMU_KERNEL void mmaemu_gather(const Byte* from, Byte* to, Count rows, Count depth, Count begin,
                                 Count length, Count width, Count stride) {
  const Count pieces = length / 16;
  const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * pieces; i += step) {
    const Count k = i % pieces * 16;
    const Count source = i / pieces * depth + begin + k / width * stride + k % width;
    reinterpret_cast<Sixteen*>(to)[i] = *reinterpret_cast<const Sixteen*>(from + source);
  }
}

// sum += part, to nearest. A sum that begins with a chain result needs no +0 before it: a chain never gives
// -0.
MMAEMU_KERNEL void mmaemu_add(float* sum, const float* part, Count elements) {
  const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step)
    sum[i] = __fadd_rn(sum[i], part[i]);
}

MMAEMU_KERNEL void mmaemu_clear(Word* words, Count elements) {
  const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step)
    words[i] = 0;
}

// Sets the flags of the rows that hold a code from first_non_finite on (E4M3: 0x7F, E5M2: 0x7C), whatever its
// sign.
MMAEMU_KERNEL void mmaemu_flag(const Byte* codes, Word* flags, Count rows, Count depth,
                               Word first_non_finite) {
  const Count pieces = depth / 16;
  const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * pieces; i += step) {
    const Sixteen piece = reinterpret_cast<const Sixteen*>(codes)[i];
    bool found = false;
    for (int j = 0; j < 16; ++j) found = found || (piece.code(j) & 0x7FU) >= first_non_finite;
    if (found) atomicOr(flags + i / pieces, 1U);
  }
}

// What an operand's code is to a sum that is not finite. Zero and finite codes of either sign, infinity, NaN.
__device__ inline bool is_nan(Word code, Word first_non_finite) {
  return (code & 0x7FU) >= first_non_finite && ((code & 0x7FU) != 0x7CU || first_non_finite == 0x7FU);
}

__device__ inline bool is_infinity(Word code, Word first_non_finite) {
  return (code & 0x7FU) == 0x7CU && first_non_finite == 0x7CU;
}

// The IEEE value of a sum of products where that is not finite, else `sum`.
__device__ inline float patched(float sum, const Byte* a, const Byte* b, Count depth, Word first_a,
                                Word first_b) {
  bool positive = false;
  bool negative = false;
  const float nan = __uint_as_float(0x7FFFFFFFU);
  for (Count k = 0; k < depth; ++k) {
    const Word x = a[k];
    const Word y = b[k];
    if (is_nan(x, first_a) || is_nan(y, first_b)) return nan;
    if (!is_infinity(x, first_a) && !is_infinity(y, first_b)) continue;
    if ((x & 0x7FU) == 0 || (y & 0x7FU) == 0) return nan;
    if (((x ^ y) & 0x80U) != 0)
      negative = true;
    else
      positive = true;
  }
  if (positive && negative) return nan;
  if (!positive && !negative) return sum;
  return __uint_as_float(negative ? 0xFF800000U : 0x7F800000U);
}

// The nearest number of a format to a finite fp32 number, ties to even, as its code without a sign; at
// `limit` and beyond it is `limit`, which is infinity or the largest number.
__device__ inline Word rounded(float y, int exponent_bits, int fraction_bits, Word limit) {
  const Word bits = __float_as_uint(y) & 0x7FFFFFFFU;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = static_cast<int>(bits >> 23);
  Word significand = bits & 0x007FFFFFU;
  if (exponent == 0)
    exponent = 1;
  else
    significand |= 0x00800000U;
  // Of the 23 fraction bits fraction_bits stay, fewer below the format's least exponent.
  int field = exponent - 127 + bias;
  int dropped = 23 - fraction_bits;
  if (field < 1) {
    dropped += 1 - field;
    field = 1;
  }
  if (dropped > 25) return 0;
  Word code = significand >> dropped;
  if (dropped > 0) {
    const Word rest = significand & ((1U << dropped) - 1U);
    const Word half = 1U << (dropped - 1);
    if (rest > half || (rest == half && (code & 1U) != 0)) ++code;
  }
  // The leading bit adds one to the exponent field, and so does rounding up to the next power of two.
  code += static_cast<Word>(field - 1) << fraction_bits;
  return code < limit ? code : limit;
}

// FormatId of formats.h.
enum Result { kE4m3, kE5m2, kFloat16, kBfloat16, kFloat32 };

__device__ inline void store(void* out, Count at, int format, float y) {
  const Word sign = __float_as_uint(y) >> 31;
  const bool nan = y != y;
  if (format == kFloat32) {
    static_cast<float*>(out)[at] = nan ? __uint_as_float(0x7FFFFFFFU) : y;
  } else if (format == kFloat16 || format == kBfloat16) {
    const bool half = format == kFloat16;
    const Word code = half ? rounded(y, 5, 10, 0x7C00U) : rounded(y, 8, 7, 0x7F80U);
    static_cast<unsigned short*>(out)[at] = static_cast<unsigned short>(nan ? 0x7FFFU : code | sign << 15);
  } else {
    const Word code = format == kE4m3 ? rounded(y, 4, 3, 0x7EU) : rounded(y, 5, 2, 0x7BU);
    static_cast<Byte*>(out)[at] = static_cast<Byte>(nan ? 0x7FU : code | sign << 7);
  }
}

// The result [rows, columns] from the sums; a and b are those rows of the operands, `stride` the result's row
// stride. Without scale_a: the accumulator. scale_result may be null.
MMAEMU_KERNEL void mmaemu_finish(const float* sums, const Byte* a, const Byte* b, const Word* flags_a,
                                 const Word* flags_b, Word first_a, Word first_b, void* out, int format,
                                 Count rows, Count columns, Count depth, Count stride, const float* scale_a,
                                 const float* scale_b, const float* scale_result) {
  const Count step = static_cast<Count>(gridDim.x) * blockDim.x;
  for (Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const Count m = i / columns;
    const Count n = i % columns;
    float y = sums[i];
    if ((flags_a[m] | flags_b[n]) != 0) y = patched(y, a + m * depth, b + n * depth, depth, first_a, first_b);
    if (scale_a != nullptr) {
      // One rounding, and never -0 from a product of zero.
      y = __fmaf_rn(y, __fmul_rn(*scale_a, *scale_b), 0.0F);
      if (scale_result != nullptr && format <= kE5m2) y = __fmul_rn(y, *scale_result);
    }
    store(out, m * stride + n, format, y);
  }
}
