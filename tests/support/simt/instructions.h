// CUDA's words and instructions as C++, each by its definition in IEEE 754 or PTX. Included before a kernel's
// source, in place of src/cuda/kernels/instructions.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "simt/simt.h"

#define MMAEMU_CUDA_INSTRUCTIONS_H
#define __device__
#define MMAEMU_KERNEL
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define threadIdx (::mmaemu::testing::simt::registers().thread)
#define blockIdx (::mmaemu::testing::simt::registers().block)
#define blockDim (::mmaemu::testing::simt::registers().threads)
#define gridDim (::mmaemu::testing::simt::registers().blocks)

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline void atomicOr(unsigned* at, unsigned bits) {
  *at |= bits;
}
inline void atomicAdd(unsigned* at, unsigned value) {
  *at += value;
}
inline void __syncthreads() {
  mmaemu::testing::simt::barrier();
}

namespace mmaemu::testing::simt {

// a + b rounded toward zero in fp64, and whether that is inexact. Finite numbers.
struct Truncated {
  double value;
  bool inexact;
};
inline Truncated add_toward_zero(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double rest = (a - (sum - b_part)) + (b - b_part);  // exact: sum + rest is a + b
  if (rest == 0) return {sum, false};
  if ((rest < 0) == (sum < 0)) return {sum, true};
  return {std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) - 1), true};
}

// A number to nearest even in bf16; `inexact`: it stands for something a little larger in magnitude.
inline float round_to_bf16(double x, bool inexact) {
  if (x == 0) return static_cast<float>(x);
  auto bits = std::bit_cast<std::uint64_t>(x);
  // Round to odd: the last of 53 bits keeps that something was there, which decides no tie of fewer bits.
  if (inexact) bits |= 1U;
  constexpr int kDropped = 52 - 7;
  if (std::fabs(x) >= 0x1p-126) {
    bits += (std::uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1U);
    bits &= ~((std::uint64_t{1} << kDropped) - 1);
    return static_cast<float>(std::bit_cast<double>(bits));  // beyond the largest: infinity
  }
  constexpr int kQuantum = -126 - 7;
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(std::bit_cast<double>(bits), -kQuantum)), kQuantum));
}

}  // namespace mmaemu::testing::simt

// A product of fp32 numbers is exact in fp64.
inline float __fmaf_rz(float a, float b, float c) {
  using namespace mmaemu::testing::simt;
  const double product = static_cast<double>(a) * b;
  if (!std::isfinite(product) || !std::isfinite(c)) return static_cast<float>(product + c);
  const double sum = add_toward_zero(product, c).value;
  const double magnitude = std::fabs(sum);
  if (magnitude > static_cast<double>(std::numeric_limits<float>::max()))
    return std::copysign(std::numeric_limits<float>::max(), static_cast<float>(sum));
  if (magnitude < 0x1p-126)  // fp32's subnormal numbers: multiples of 2^-149
    return static_cast<float>(std::ldexp(std::trunc(std::ldexp(sum, 149)), -149));
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) & ~0x1FFFFFFFULL));
}

inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> ((selector >> (4 * i) & 7U) * 8) & 0xFFU) << (8 * i);
  return result;
}

inline unsigned __viaddmax_s16x2(unsigned a, unsigned b, unsigned c) {
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto half = [&](unsigned x) { return static_cast<std::int16_t>(x >> shift); };
    const auto sum = static_cast<std::int16_t>(half(a) + half(b));
    result |= static_cast<unsigned>(static_cast<std::uint16_t>(std::max(sum, half(c)))) << shift;
  }
  return result;
}

#include "cuda/kernels/device.h"

constexpr int kArchitecture = MMAEMU_HOST_ARCHITECTURE;

template <class T, int kSize>
class SharedArray {
 public:
  T load(int i) const {
    note(i, 0, sizeof(T), Access::read);
    return at_[i];
  }
  void store(int i, const T& value) {
    note(i, 0, sizeof(T), Access::write);
    at_[i] = value;
  }
  T load_matrices(int row) const {
    static_assert(sizeof(T) == 16);
    note(row, 0, sizeof(T), Access::read);
    T q;
    mmaemu::testing::simt::warp_instruction(
        "ldmatrix.x4",
        [](const mmaemu::testing::simt::LaneBytes& rows, mmaemu::testing::simt::LaneBytes& results) {
          for (std::size_t lane = 0; lane < 32; ++lane)
            for (std::size_t matrix = 0; matrix < 4; ++matrix)
              std::memcpy(results[lane].data() + 4 * matrix,
                          rows[8 * matrix + lane / 4].data() + lane % 4 * 4, 4);
        },
        &at_[row], sizeof(T), &q, sizeof q);
    return q;
  }

 private:
  using Access = mmaemu::testing::simt::Access;
  void note(int i, std::size_t offset, std::size_t bytes, Access access) const {
    if (i < 0 || i >= kSize)
      mmaemu::testing::simt::fault("element " + std::to_string(i) + " of a shared array of " +
                                   std::to_string(kSize));
    const std::size_t word = (static_cast<std::size_t>(i) * sizeof(T) + offset) / 4;
    mmaemu::testing::simt::shared_access(&words_[word], bytes / 4, access);
  }
  T at_[kSize];
  mutable mmaemu::testing::simt::SharedWord words_[kSize * sizeof(T) / 4];
};

inline float bf16_of(Word pair, int half) {
  return __uint_as_float(half == 0 ? pair << 16 : pair & 0xFFFF0000U);
}

template <int kHalf>
Word bf16x2_fma(Word a, Word b, Word c) {
  using namespace mmaemu::testing::simt;
  Word result = 0;
  for (int half = 0; half < 2; ++half) {
    const double product = static_cast<double>(bf16_of(a, kHalf)) * bf16_of(b, half);
    const float addend = bf16_of(c, half);
    float sum = static_cast<float>(product + addend);
    if (std::isfinite(product) && std::isfinite(addend)) {
      const Truncated exact = add_toward_zero(product, addend);
      sum = round_to_bf16(exact.value, exact.inexact);
    }
    const Word code = std::isnan(sum) ? 0x7FFFU : __float_as_uint(sum) >> 16;
    result |= code << (16 * half);
  }
  return result;
}

// The larger; NaN loses.
inline Word bf16x2_max(Word a, Word b) {
  Word result = 0;
  for (int half = 0; half < 2; ++half)
    result |= __float_as_uint(std::fmax(bf16_of(a, half), bf16_of(b, half))) >> 16 << (16 * half);
  return result;
}

// cvt.rn.f16x2 of FP8 codes: exact; NaN becomes NaN.
template <class F, int kHalf>
Word fp16x2_of(Word codes) {
  Word result = 0;
  for (int i = 0; i < 2; ++i) {
    const Word code = codes >> (16 * kHalf + 8 * i) & 0xFFU;
    Word half = (code & 0x80U) << 8;
    if constexpr (F::kExponent == 5) {
      half |= (code & 0x7FU) << 8;
    } else if ((code & 0x7FU) == 0x7FU) {
      half = 0x7FFFU;
    } else if ((code & 0x78U) != 0) {
      half |= ((code & 0x7FU) << 7) + (8U << 10);
    } else if ((code & 7U) != 0) {  // n * 2^-9, a normal number in fp16
      const int top = std::bit_width(code & 7U) - 1;
      half |= static_cast<Word>(top - 9 + 15) << 10 | ((code & 7U) << (10 - top) & 0x3FFU);
    }
    result |= half << (16 * i);
  }
  return result;
}

template <int kHalf>
float float_of_fp16(Word two) {
  const Word half = two >> (16 * kHalf) & 0xFFFFU;
  const Word sign = (half & 0x8000U) << 16;
  const Word magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) return __uint_as_float(magnitude > 0x7C00U ? 0x7FFFFFFFU : sign | 0x7F800000U);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112F));
}

inline Word exchange(Word x, int distance) {
  struct Inputs {
    Word x;
    int distance;
  };
  const Inputs inputs{x, distance};
  Word result = 0;
  mmaemu::testing::simt::warp_instruction(
      "shfl.xor",
      [](const mmaemu::testing::simt::LaneBytes& lanes, mmaemu::testing::simt::LaneBytes& results) {
        for (std::size_t lane = 0; lane < 32; ++lane) {
          Inputs own;
          std::memcpy(&own, lanes[lane].data(), sizeof own);
          std::memcpy(results[lane].data(), lanes[lane ^ static_cast<std::size_t>(own.distance)].data(),
                      sizeof(Word));
        }
      },
      &inputs, sizeof inputs, &result, sizeof result);
  return result;
}

inline void mma_s8(Word (&d)[4], const Word (&a)[4], Word b0, Word b1) {
  struct Inputs {
    Word a[4], b[2], c[4];
  };
  const Inputs inputs{{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  static_assert(sizeof inputs <= mmaemu::testing::simt::kMostBytes);
  mmaemu::testing::simt::warp_instruction(
      "mma.m16n8k32.s8",
      [](const mmaemu::testing::simt::LaneBytes& lanes, mmaemu::testing::simt::LaneBytes& results) {
        std::array<Inputs, 32> in;
        for (std::size_t lane = 0; lane < 32; ++lane)
          std::memcpy(&in[lane], lanes[lane].data(), sizeof(Inputs));
        // Rows of a and columns of b.
        std::array<std::array<std::int8_t, 32>, 16> rows;
        std::array<std::array<std::int8_t, 32>, 8> columns;
        for (std::size_t lane = 0; lane < 32; ++lane) {
          for (std::size_t part = 0; part < 2; ++part) {
            const std::size_t k = 16 * part + lane % 4 * 4;
            std::memcpy(&rows[lane / 4][k], &in[lane].a[2 * part], 4);
            std::memcpy(&rows[lane / 4 + 8][k], &in[lane].a[2 * part + 1], 4);
            std::memcpy(&columns[lane / 4][k], &in[lane].b[part], 4);
          }
        }
        for (std::size_t lane = 0; lane < 32; ++lane) {
          Word out[4];
          for (std::size_t i = 0; i < 4; ++i) {
            const auto& row = rows[lane / 4 + 8 * (i / 2)];
            const auto& column = columns[lane % 4 * 2 + i % 2];
            int sum = 0;
            for (std::size_t k = 0; k < 32; ++k) sum += row[k] * column[k];
            out[i] = in[lane].c[i] + static_cast<Word>(sum);
          }
          std::memcpy(results[lane].data(), out, sizeof out);
        }
      },
      &inputs, sizeof inputs, d, sizeof d);
}

// A tensor core's sum of up to eight products and c, as on Ampere and Ada: all aligned to the largest
// exponent (that of a product is the sum of its operands'), each cut to 24 fraction bits, added exactly, the
// sum cut to fp32. Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ
// Computer Science 7:e330, 2021 (A100); Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores",
// arXiv:2512.07004 (A100), and arXiv:2510.15884 (RTX 3060, RTX 1000 Ada). A kernel that passes with this is
// not validated: hardware decides.
namespace mmaemu::testing::simt {
constexpr int kTensorBlock = 8;
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}
// Of a normal number.
inline int exponent_of(float x) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23 & 0xFFU) - 127;
}
inline float tensor_block(const std::array<float, kTensorBlock>& a, const std::array<float, kTensorBlock>& b,
                          float c) {
  float by_ieee = c;
  for (std::size_t i = 0; i < kTensorBlock; ++i) by_ieee += a[i] * b[i];
  if (!std::isfinite(by_ieee)) return by_ieee;
  const int fraction = tensor_model().fraction;
  int largest = std::numeric_limits<int>::min();
  if (c != 0) largest = exponent_of(c);
  for (std::size_t i = 0; i < kTensorBlock; ++i)
    if (a[i] != 0 && b[i] != 0) largest = std::max(largest, exponent_of(a[i]) + exponent_of(b[i]));
  if (largest == std::numeric_limits<int>::min()) return 0.0F;
  const double to_grid = power_of_two(fraction - largest);
  const auto on_grid = [&](double x) { return static_cast<std::int64_t>(x * to_grid); };
  std::int64_t sum = on_grid(c);
  for (std::size_t i = 0; i < kTensorBlock; ++i) sum += on_grid(static_cast<double>(a[i]) * b[i]);
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int extra = std::max(0, static_cast<int>(std::bit_width(magnitude)) - 24);
  const double kept = static_cast<double>(magnitude >> extra << extra) * power_of_two(largest - fraction);
  return static_cast<float>((sum < 0 ? -kept : kept) * tensor_model().factor);
}

// A lane's inputs of a product of 16-bit numbers, `kDepth` elements of K.
template <int kDepth>
struct TensorInputs {
  Word a[kDepth / 4], b[kDepth / 8];
  float c[4];
};
template <int kDepth, float (*kValue)(Word pair, int half)>
void multiply(const LaneBytes& lanes, LaneBytes& results) {
  std::array<TensorInputs<kDepth>, kWarp> in;
  for (std::size_t lane = 0; lane < kWarp; ++lane)
    std::memcpy(&in[lane], lanes[lane].data(), sizeof in[lane]);
  for (int lane = 0; lane < kWarp; ++lane) {
    float out[4];
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2);
      const int column = lane % 4 * 2 + i % 2;
      float sum = in[static_cast<std::size_t>(lane)].c[i];
      for (int first = 0; first < kDepth; first += kTensorBlock) {
        std::array<float, kTensorBlock> a;
        std::array<float, kTensorBlock> b;
        for (int k = 0; k < kTensorBlock; ++k) {
          const int word = first / kTensorBlock;
          a[static_cast<std::size_t>(k)] =
              kValue(in[static_cast<std::size_t>(row % 8 * 4 + k / 2)].a[2 * word + row / 8], k % 2);
          b[static_cast<std::size_t>(k)] =
              kValue(in[static_cast<std::size_t>(column * 4 + k / 2)].b[word], k % 2);
        }
        sum = tensor_block(a, b, sum);
      }
      out[i] = sum;
    }
    std::memcpy(results[static_cast<std::size_t>(lane)].data(), out, sizeof out);
  }
}
inline float fp16_of(Word pair, int half) {
  return half == 0 ? float_of_fp16<0>(pair) : float_of_fp16<1>(pair);
}
}  // namespace mmaemu::testing::simt

inline void mma_bf16(float (&d)[4], const Word (&a)[4], Word b0, Word b1) {
  const mmaemu::testing::simt::TensorInputs<16> inputs{{a[0], a[1], a[2], a[3]}, {b0, b1}, {}};
  mmaemu::testing::simt::warp_instruction("mma.m16n8k16.bf16", mmaemu::testing::simt::multiply<16, bf16_of>,
                                          &inputs, sizeof inputs, d, sizeof d);
}
inline void mma_fp16(float (&d)[4], Word a0, Word a1, Word b, const float (&c)[4]) {
  const mmaemu::testing::simt::TensorInputs<8> inputs{{a0, a1}, {b}, {c[0], c[1], c[2], c[3]}};
  mmaemu::testing::simt::warp_instruction("mma.m16n8k8.f16",
                                          mmaemu::testing::simt::multiply<8, mmaemu::testing::simt::fp16_of>,
                                          &inputs, sizeof inputs, d, sizeof d);
}
inline float fminf(float a, float b) {
  return std::fmin(a, b);
}
