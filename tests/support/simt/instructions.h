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
#define __global__
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

struct alignas(16) Quad {
  Word w[4];
};
struct alignas(16) Four {
  float v[4];
};
struct alignas(8) Pair {
  Word w[2];
};

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
  void store_half(int i, int half, const Pair& value) {
    if (half != 0 && half != 1) mmaemu::testing::simt::fault("no such half of an element");
    note(i, static_cast<std::size_t>(half) * sizeof(Pair), sizeof(Pair), Access::write);
    std::memcpy(reinterpret_cast<std::byte*>(&at_[i]) + half * static_cast<int>(sizeof(Pair)), &value,
                sizeof value);
  }
  Quad load_matrices(int row) const {
    static_assert(sizeof(T) == 16);
    note(row, 0, sizeof(T), Access::read);
    Quad q;
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

inline Word bf16x2_fma(Word a, Word b, Word c) {
  using namespace mmaemu::testing::simt;
  Word result = 0;
  for (int half = 0; half < 2; ++half) {
    const double product = static_cast<double>(bf16_of(a, half)) * bf16_of(b, half);
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

inline Word bf16x2_abs(Word a) {
  return a & 0x7FFF7FFFU;
}

inline void mma_s8(Word (&d)[4], const Quad& a, Word b0, Word b1) {
  struct Inputs {
    Word a[4], b[2], c[4];
  };
  const Inputs inputs{{a.w[0], a.w[1], a.w[2], a.w[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  static_assert(sizeof inputs <= mmaemu::testing::simt::kMostBytes);
  mmaemu::testing::simt::warp_instruction(
      "mma.m16n8k32.s8",
      [](const mmaemu::testing::simt::LaneBytes& lanes, mmaemu::testing::simt::LaneBytes& results) {
        std::array<Inputs, 32> in;
        for (std::size_t lane = 0; lane < 32; ++lane)
          std::memcpy(&in[lane], lanes[lane].data(), sizeof(Inputs));
        const auto byte = [](Word w, int i) {
          return static_cast<int>(static_cast<std::int8_t>(w >> (8 * i)));
        };
        const auto a_at = [&](int row, int k) {
          const auto lane = static_cast<std::size_t>(row % 8 * 4 + k % 16 / 4);
          return byte(in[lane].a[row / 8 + k / 16 * 2], k % 4);
        };
        const auto b_at = [&](int k, int column) {
          return byte(in[static_cast<std::size_t>(column * 4 + k % 16 / 4)].b[k / 16], k % 4);
        };
        for (int lane = 0; lane < 32; ++lane) {
          Word out[4];
          for (int i = 0; i < 4; ++i) {
            Word sum = in[static_cast<std::size_t>(lane)].c[i];
            for (int k = 0; k < 32; ++k)
              sum += static_cast<Word>(a_at(lane / 4 + 8 * (i / 2), k) * b_at(k, lane % 4 * 2 + i % 2));
            out[i] = sum;
          }
          std::memcpy(results[static_cast<std::size_t>(lane)].data(), out, sizeof out);
        }
      },
      &inputs, sizeof inputs, d, sizeof d);
}
