// v4 and h4: tiles, one fused multiply-add a product, the count of rounded-away products by integer tensor cores.
// Every instruction is defined to the bit by IEEE 754 or PTX. The chain and why it is exact: src/cpu/chain-inl.h.
//
// What differs from there, with S between 2^(E+10) and 2^(E+11) and g = 2^(E-13) as there:
// - The accumulator keeps the bits below its 14 significant ones until the chain ends: it is a multiple of the old g
//   below 2^21 of them, so a nudge of 1 + 2^-23 moves it past no grid point, old or new, and truncating it to 14 bits
//   first would change nothing.
// - The count goes into the bits of S by a product of signs: negative x positive + positive x negative.
// - E comes from sums of powers: operand exponents e as powers 2^(8e) in bf16 (2^(4e) where E5M2 takes part, whose
//   range of exponents is wider), whose sum over a block (8 elements) is at least the largest product and less than
//   2^8 (2^4) times it, however its terms are rounded to nearest. Hopper has an instruction for maxima of sums instead.
// - All numbers are scaled by a power of two, which makes exponent fields out of the sums' by a shift and an or.
#include "tiled.h"

template <class A, class B>
struct Powers {
  static constexpr bool kNarrow = A::kExponent == 4 && B::kExponent == 4;
  static constexpr int kShift = kNarrow ? 3 : 2;  // the logarithm of the power of two that a step of an exponent is
  static constexpr Word kFields = kNarrow ? 0x0F800F80U : 0x1F801F80U;
  static constexpr Word kOffset = kNarrow ? 128 : 64;  // of exponent fields, a bit that the sum of two fields never has
  // The exponent field of 2^(E + 10), scaled, is kOffset plus the operands' fields.
  static constexpr int kScale = kBias<A> + kBias<B> + static_cast<int>(kOffset) - 137;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
constexpr bool kMaximumOfSums = true;  // __viaddmax_s16x2 is one instruction
#else
constexpr bool kMaximumOfSums = false;
#endif

template <class A, class B, int kBlock>
class FastTile {
 public:
  struct Shared {
    SharedArray<Four, kStage / 4 * kTile> value_a, value_b;   // [k / 4][row]
    SharedArray<Quad, 2 * kTile> sign_a;                       // [negative, positive][row], a byte an element
    SharedArray<Quad, 2 * kTile> sign_b;                       // [positive, negative][row]
    SharedArray<Quad, kBlock / 4 * kTile> exponent_a;          // [k / 4][row], an element twice in a word
    SharedArray<Quad, kBlock / 4 * kTile / 2> exponent_b;      // [k / 4][row / 2], an element of two rows in a word
  };

  __device__ FastTile(Shared& shared, const Byte* a, const Byte* b, int M, int N, int K)
      : shared_(shared), a_(a), b_(b), M_(M), N_(N), K_(K) {}

  __device__ void run(float* c) {
    float sum[8][8] = {};
    Quad codes[kHalves];
    fetch(0, codes);
    for (int k = 0; k < K_; k += kBlock) {
      unpack_exponents(codes);
      unpack(codes[0]);
      __syncthreads();
      Quad next[kHalves];
      fetch(k + kBlock, next);
      float magic[8][8];
      Word s[8][8];
      start(sum, magic, s);
      chain(s);
      __syncthreads();
      if constexpr (kHalves == 2) {
        unpack(codes[kHalves - 1]);
        __syncthreads();
        chain(s);
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = __fsub_rn(__uint_as_float(s[i][j]), magic[i][j]);
#pragma unroll
      for (int h = 0; h < kHalves; ++h) codes[h] = next[h];
    }
    store(sum, c);
  }

 private:
  using P = Powers<A, B>;
  static constexpr int kHalves = kBlock / kStage;

  __device__ static bool of_a() { return threadIdx.x < kTiledThreads / 2; }
  __device__ static int row_a() { return static_cast<int>(threadIdx.x); }
  __device__ static int pair_b() { return static_cast<int>(threadIdx.x) % (kTile / 2); }
  __device__ static int eight_b() { return static_cast<int>(threadIdx.x) / (kTile / 2) % 2; }

  // Codes of a stage at k: sixteen of a row of a, or eight of two rows of b. Zeros outside of the operands.
  __device__ void fetch(int k, Quad (&codes)[kHalves]) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h, k += kStage) {
      codes[h] = Quad{{0, 0, 0, 0}};
      if (k >= K_) continue;
      if (of_a()) {
        const int row = static_cast<int>(blockIdx.y) * kTile + row_a();
        if (row < M_) codes[h] = *reinterpret_cast<const Quad*>(a_ + static_cast<Count>(row) * K_ + k);
      } else {
        const int row = static_cast<int>(blockIdx.x) * kTile + 2 * pair_b();
        const Byte* from = b_ + static_cast<Count>(row) * K_ + k + 8 * eight_b();
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (row + r >= N_) continue;
          const Pair two = *reinterpret_cast<const Pair*>(from + static_cast<Count>(r) * K_);
          codes[h].w[2 * r] = two.w[0];
          codes[h].w[2 * r + 1] = two.w[1];
        }
      }
    }
  }

  __device__ void unpack_exponents(const Quad (&codes)[kHalves]) {
    constexpr int kStep = kMaximumOfSums ? 0 : P::kShift;
    constexpr Word kOffsetA = kMaximumOfSums ? P::kOffset / 2 : 63;
    constexpr Word kOffsetB = kMaximumOfSums ? P::kOffset / 2 : 64;
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      if (of_a()) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const Word e = FourCodes<A>(codes[h].w[q]).template exponents<kStep>(kOffsetA);
          Quad twice;
#pragma unroll
          for (int i = 0; i < 4; ++i) twice.w[i] = __byte_perm(e, 0, 0x0404U | static_cast<Word>(i) * 0x1010U) >> 1;
          shared_.exponent_a.store((4 * h + q) * kTile + row_a(), twice);
        }
      } else {
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const Word even = FourCodes<B>(codes[h].w[q]).template exponents<kStep>(kOffsetB);
          const Word odd = FourCodes<B>(codes[h].w[2 + q]).template exponents<kStep>(kOffsetB);
          Quad both;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            both.w[i] = (__byte_perm(even, odd, 0x4000U | static_cast<Word>(i) * 0x1010U) & 0xFF00FF00U) >> 1;
          shared_.exponent_b.store((4 * h + 2 * eight_b() + q) * (kTile / 2) + pair_b(), both);
        }
      }
    }
  }

  template <class F>
  __device__ static Four values_of(Word codes, float scale) {
    Four values;
#pragma unroll
    for (int i = 0; i < 4; ++i) values.v[i] = scaled_value<F>(codes, i, scale);
    return values;
  }

  // Values and signs of a stage.
  __device__ void unpack(const Quad& codes) {
    if (of_a()) {
      // The nudge of the products, 1 + 2^-17, is the operand's.
      const float scale = __uint_as_float(power_of_two(127 - kBias<A> + P::kScale) | 1U << 6);
      Quad negative, positive;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const FourCodes<A> four(codes.w[q]);
        negative.w[q] = four.negative;
        positive.w[q] = four.positive();
        shared_.value_a.store(q * kTile + row_a(), values_of<A>(codes.w[q], scale));
      }
      shared_.sign_a.store(row_a(), negative);
      shared_.sign_a.store(kTile + row_a(), positive);
    } else {
      const float scale = __uint_as_float(power_of_two(127 - kBias<B>));
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 2 * pair_b() + r;
        Pair negative, positive;
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const FourCodes<B> four(codes.w[2 * r + q]);
          negative.w[q] = four.negative;
          positive.w[q] = four.positive();
          shared_.value_b.store((2 * eight_b() + q) * kTile + row, values_of<B>(codes.w[2 * r + q], scale));
        }
        shared_.sign_b.store_half(row, eight_b(), positive);
        shared_.sign_b.store_half(kTile + row, eight_b(), negative);
      }
    }
  }

  // From the sums of the blocks before to the beginning of this one: E, the magic number and S.
  __device__ void start(const float (&sum)[8][8], float (&magic)[8][8], Word (&s)[8][8]) const {
    Word fields[8][4];
    exponents(sum, fields);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Word field = j % 2 == 0 ? fields[i][j / 2] << 16 : fields[i][j / 2] & 0xFFFF0000U;
        magic[i][j] = __uint_as_float(field);
        const Word begin = __float_as_uint(__fmaf_rz(sum[i][j], 1.0F + 0x1p-23F, magic[i][j]));
        s[i][j] = begin + (__float_as_uint(sum[i][j]) >> 31);
      }
    }
  }

  // The upper halves of the sums' magnitudes, times 2^10.
  __device__ static Word upper_halves(float even, float odd) {
    return __byte_perm(__float_as_uint(even), __float_as_uint(odd), 0x7632U) + 0x05000500U;
  }

  // The upper halves of the magic numbers of two outputs in a word.
  __device__ void exponents(const float (&sum)[8][8], Word (&fields)[8][4]) const {
    constexpr Word kMagic = 0x00400040U;  // 1.5 times a power of two
    if constexpr (kMaximumOfSums) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) fields[i][j] = upper_halves(sum[i][2 * j], sum[i][2 * j + 1]) & 0x7F807F80U;
      over_exponents<0, kBlock>(fields);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) fields[i][j] |= kMagic;
    } else {
      constexpr int kGroup = P::kNarrow ? kBlock : 8;
      over_exponents<0, kGroup>(fields);
      if constexpr (kGroup < kBlock) maximum_of_groups<kGroup, kGroup>(fields);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const Word products = (fields[i][j] >> P::kShift & P::kFields) | P::kOffset << 7 | P::kOffset << 23;
          const Word own = bf16x2_abs(upper_halves(sum[i][2 * j], sum[i][2 * j + 1]));
          fields[i][j] = (bf16x2_max(products, own) & 0x7F807F80U) | kMagic;
        }
      }
    }
  }

  template <int kFrom, int kGroup>
  __device__ void maximum_of_groups(Word (&fields)[8][4]) const {
    Word others[8][4];
    over_exponents<kFrom, kGroup>(others);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) fields[i][j] = bf16x2_max(fields[i][j], others[i][j]);
    if constexpr (kFrom + kGroup < kBlock) maximum_of_groups<kFrom + kGroup, kGroup>(fields);
  }

  // The sums of powers of elements kFrom.. of the block, or the maxima of sums with what is there.
  template <int kFrom, int kCount>
  __device__ void over_exponents(Word (&fields)[8][4]) const {
#pragma unroll
    for (int q = kFrom / 4; q < (kFrom + kCount) / 4; ++q) {
      Quad b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        b[j] = shared_.exponent_b.load(q * (kTile / 2) + (place_.column + 8 * j) / 2 + place_.t);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const Quad a = shared_.exponent_a.load(q * kTile + place_.row_of(i));
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if constexpr (kMaximumOfSums)
              fields[i][j] = __viaddmax_s16x2(a.w[k], b[j].w[k], fields[i][j]);
            else
              fields[i][j] = bf16x2_fma(a.w[k], b[j].w[k], q == kFrom / 4 && k == 0 ? 0U : fields[i][j]);
          }
        }
      }
    }
  }

  // A stage of products, and the count of those that were rounded away from zero.
  __device__ void chain(Word (&s)[8][8]) const {
#pragma unroll
    for (int q = 0; q < kStage / 4; ++q) {
      Four a[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = shared_.value_a.load(q * kTile + place_.row_of(i));
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Four b = shared_.value_b.load(q * kTile + place_.column_of(j));
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int i = 0; i < 8; ++i)
            s[i][j] = __float_as_uint(__fmaf_rz(a[i].v[k], b.v[k], __uint_as_float(s[i][j])));
      }
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Quad a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = shared_.sign_a.load_matrices(lane / 16 * kTile + place_.row + 16 * i + lane % 16);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const Quad b = shared_.sign_b.load_matrices(lane / 8 % 2 * kTile + place_.column + 8 * j + lane / 16 * 8 + lane % 8);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          Word(&low)[8] = s[2 * i];
          Word(&high)[8] = s[2 * i + 1];
          const int at = 2 * (j + n);
          Word d[4] = {low[at], low[at + 1], high[at], high[at + 1]};
          mma_s8(d, a[i], b.w[2 * n], b.w[2 * n + 1]);
          low[at] = d[0];
          low[at + 1] = d[1];
          high[at] = d[2];
          high[at + 1] = d[3];
        }
      }
    }
  }

  __device__ void store(const float (&sum)[8][8], float* c) const {
    const float unscale = __uint_as_float(power_of_two(-P::kScale));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = static_cast<int>(blockIdx.y) * kTile + place_.row_of(i);
      if (row >= M_) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = static_cast<int>(blockIdx.x) * kTile + place_.column_of(j);
        if (column >= N_) continue;
        const float kept = __uint_as_float(__float_as_uint(sum[i][j]) & 0xFFFFFC00U);
        c[static_cast<Count>(row) * N_ + column] = __fmul_rn(kept, unscale);
      }
    }
  }

  Shared& shared_;
  const Byte* a_;
  const Byte* b_;
  int M_, N_, K_;
  Place place_;
};

#define MMAEMU_FAST(name, A, B, block)                                                                           \
  extern "C" __global__ void __launch_bounds__(kTiledThreads, 1)                                                 \
      name(const Byte* a, const Byte* b, float* c, int M, int N, int K) {                                        \
    __shared__ FastTile<A, B, block>::Shared shared;                                                             \
    FastTile<A, B, block>(shared, a, b, M, N, K).run(c);                                                         \
  }

MMAEMU_FAST(mmaemu_v4_e4m3e4m3, E4m3, E4m3, 16)
MMAEMU_FAST(mmaemu_v4_e4m3e5m2, E4m3, E5m2, 16)
MMAEMU_FAST(mmaemu_v4_e5m2e4m3, E5m2, E4m3, 16)
MMAEMU_FAST(mmaemu_h4_e4m3e4m3, E4m3, E4m3, 32)
MMAEMU_FAST(mmaemu_h4_e4m3e5m2, E4m3, E5m2, 32)
MMAEMU_FAST(mmaemu_h4_e5m2e4m3, E5m2, E4m3, 32)
