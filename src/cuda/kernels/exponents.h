// Three ways to the magic numbers of a block, whose exponents are E + 10: `unpack` brings the operands'
// exponents to shared memory, `magic` gives the upper halves of two magic numbers in a word.
#pragma once

#include "tiled.h"

// In each word k / 4 of the thread's row, a stage of codes.
template <class A, class B, int kShift>
__device__ inline void exponent_bytes(const Quad& codes, bool of_a, Word offset_a, Word offset_b,
                                      Word (&e)[4]) {
  constexpr bool kOneFormat = A::kExponent == B::kExponent;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (kOneFormat || of_a)
      e[q] = FourCodes<A>(codes.w[q]).template exponents<kShift>(of_a ? offset_a : offset_b);
    else
      e[q] = FourCodes<B>(codes.w[q]).template exponents<kShift>(offset_b);
  }
}

// Two rows of an operand in a word, rows 8 apart of a, neighbours of b: [k / 4][pair], bf16 or 16-bit
// exponents. The two threads that have the rows each make half of the pair's words.
class RowPairs {
 public:
  __device__ RowPairs(bool of_a, int row) {
    distance_ = of_a ? 8 : 1;
    upper_ = (row & distance_) != 0;
    pair_ = of_a ? row / 16 * 8 + row % 8 : row / 2;
  }
  // What the other thread needs. Every lane of a warp calls it.
  __device__ void exchange_words(const Word (&e)[4], Word (&others)[2]) const {
#pragma unroll
    for (int q = 0; q < 2; ++q) others[q] = exchange(upper_ ? e[q] : e[2 + q], distance_);
  }
  template <class Array>
  __device__ void store(Array& array, int first, const Word (&e)[4], const Word (&others)[2]) const {
    // Bytes i of the lower row's word and of the upper row's, at 0 and 2; the others are cleared.
    const Word order = upper_ ? 0x0004U : 0x0400U;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      Quad both;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Word bytes =
            __byte_perm(upper_ ? e[2 + q] : e[q], others[q], order + static_cast<Word>(i) * 0x0101U);
        both.w[i] = (bytes & 0x00FF00FFU) << 7;
      }
      array.store((first + (upper_ ? 2 : 0) + q) * (kTile / 2) + pair_, both);
    }
  }

 private:
  int distance_;
  bool upper_;
  int pair_;
};

// From two sums of powers in a word.
template <class P>
__device__ inline Word magic_of_powers(Word sums, float even, float odd) {
  // LOP3 takes one constant, and an addition goes with a shift.
  const Word products =
      ((sums & P::kFields) >> P::kShift) + (P::kOffset << 7 | P::kOffset << 23) + kMagicFraction;
  return bf16x2_max(products, own_magic(even, odd));
}

// Sums of powers in bf16, to nearest: they never fall below the largest term, and rounding up is far from the
// next power.
template <class A, class B, int kBlock>
class SumsOfPowers {
  static constexpr int kPairs = kBlock / 4 * kTile / 2;

 public:
  struct Shared {
    SharedArray<Quad, 2 * kPairs> powers;  // [operand][k / 4][pair]
  };

  __device__ static void unpack(Shared& shared, const Quad (&codes)[kBlock / kStage], bool of_a, int row) {
    const RowPairs pairs(of_a, row);
#pragma unroll
    for (int h = 0; h < kBlock / kStage; ++h) {
      Word e[4];
      Word others[2];
      exponent_bytes<A, B, P::kShift>(codes[h], of_a, 63, 64, e);  // the sum of the fields of two ones is 127
      pairs.exchange_words(e, others);
      pairs.store(shared.powers, (of_a ? 0 : kBlock / 4) + 4 * h, e, others);
    }
  }

  __device__ static void magic(const Shared& shared, const Place& place, const float (&sum)[8][8],
                               Word (&fields)[8][4]) {
    constexpr int kGroup = P::kMostTerms < kBlock ? P::kMostTerms : kBlock;
    sums<0, kGroup>(shared, place, fields);
    if constexpr (kGroup < kBlock) other_groups<kGroup, kGroup>(shared, place, fields);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        fields[i][j] = magic_of_powers<P>(fields[i][j], sum[i][2 * j], sum[i][2 * j + 1]);
  }

 private:
  using P = Powers<A, B>;

  template <int kFrom, int kGroup>
  __device__ static void other_groups(const Shared& shared, const Place& place, Word (&fields)[8][4]) {
    Word others[8][4];
    sums<kFrom, kGroup>(shared, place, others);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) fields[i][j] = bf16x2_max(fields[i][j], others[i][j]);
    if constexpr (kFrom + kGroup < kBlock) other_groups<kFrom + kGroup, kGroup>(shared, place, fields);
  }

  template <int kFrom, int kCount>
  __device__ static void sums(const Shared& shared, const Place& place, Word (&fields)[8][4]) {
#pragma unroll
    for (int q = kFrom / 4; q < (kFrom + kCount) / 4; ++q) {
      Quad b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        b[j] = shared.powers.load(kPairs + q * (kTile / 2) + place.pair_of_columns(j));
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const Quad a = shared.powers.load(q * (kTile / 2) + place.pair_of_rows(i));
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const bool first = q == kFrom / 4 && k == 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            fields[i][j] = bf16x2_fma<0>(a.w[k], b[j].w[k], first ? 0U : fields[i][j]);
            fields[i + 1][j] = bf16x2_fma<1>(a.w[k], b[j].w[k], first ? 0U : fields[i + 1][j]);
          }
        }
      }
    }
  }
};

// Maxima of sums of 16-bit exponents: one instruction for two outputs on Hopper and sm_100, two on sm_120,
// thirteen on sm_89. Zero has exponent 0, so its sum with any other stays below that of two numbers.
template <class A, class B, int kBlock>
class MaximaOfSums {
 public:
  struct Shared {
    SharedArray<Quad, kBlock / 4 * kTile> a;  // [k / 4][row], an element twice in a word
    SharedArray<Quad, kBlock / 4 * kTile / 2> b;
  };

  __device__ static void unpack(Shared& shared, const Quad (&codes)[kBlock / kStage], bool of_a, int row) {
    const RowPairs pairs(of_a, row);
#pragma unroll
    for (int h = 0; h < kBlock / kStage; ++h) {
      Word e[4];
      Word others[2];
      constexpr Word kOffset = Powers<A, B>::kOffset;
      exponent_bytes<A, B, 0>(codes[h], of_a, kOffset / 2, kOffset - kOffset / 2, e);
      pairs.exchange_words(e, others);
      if (of_a)
        store_twice(shared, 4 * h, row, e);
      else
        pairs.store(shared.b, 4 * h, e, others);
    }
  }

  __device__ static void magic(const Shared& shared, const Place& place, const float (&sum)[8][8],
                               Word (&fields)[8][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) fields[i][j] = own_magic(sum[i][2 * j], sum[i][2 * j + 1]);
#pragma unroll
    for (int q = 0; q < kBlock / 4; ++q) {
      Quad b[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = shared.b.load(q * (kTile / 2) + place.pair_of_columns(j));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const Quad a = shared.a.load(q * kTile + place.row_of(i));
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int j = 0; j < 4; ++j) fields[i][j] = __viaddmax_s16x2(a.w[k], b[j].w[k], fields[i][j]);
      }
    }
  }

 private:
  __device__ static void store_twice(Shared& shared, int first, int row, const Word (&e)[4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      Quad twice;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        twice.w[i] = (__byte_perm(e[q], 0, 0x0404U | static_cast<Word>(i) * 0x1010U) >> 1) + kMagicFraction;
      shared.a.store((first + q) * kTile + row, twice);
    }
  }
};

// Sums of powers by the tensor cores' bf16, 16 terms at once. PTX says nothing of their rounding: the
// "window" gate asks whether such a sum lies between its largest term and 17 times it.
class TensorSumsOfPowers {
 public:
  static_assert(Powers<E4m3, E4m3>::kMostTerms >= 17, "");
  struct Shared {
    SharedArray<Quad, 2 * 2 * kTile> powers;  // [operand][k / 8][row]
  };

  __device__ static void unpack(Shared& shared, const Quad (&codes)[1], bool of_a, int row) {
    Word e[4];
    exponent_bytes<E4m3, E4m3, P::kShift>(codes[0], of_a, 63, 64, e);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      Quad powers;
#pragma unroll
      for (int q = 0; q < 4; ++q)
        powers.w[q] = __byte_perm(e[2 * h + q / 2], 0, q % 2 == 0 ? 0x1404U : 0x3424U) >> 1;
      shared.powers.store(((of_a ? 0 : 2) + h) * kTile + row, powers);
    }
  }

  // The operands of a warp's 4 x 4 results.
  __device__ static void load_a(const Shared& shared, const Place& place, Quad (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = shared.powers.load_matrices(place.matrices_of_a(0, i));
  }
  __device__ static Quad load_b(const Shared& shared, const Place& place, int j) {
    return shared.powers.load_matrices(place.matrices_of_b(2, j));
  }

  // The magic numbers of one result: two of the first row, two of the other.
  __device__ static void magic_of(const Quad& a, Word b0, Word b1, const float (&low)[8],
                                  const float (&high)[8], int j, Word& first, Word& second) {
    float d[4];
    mma_bf16(d, a.w, b0, b1);
    first = of_two(d[0], d[1], low[2 * j], low[2 * j + 1]);
    second = of_two(d[2], d[3], high[2 * j], high[2 * j + 1]);
  }

  __device__ static void magic(const Shared& shared, const Place& place, const float (&sum)[8][8],
                               Word (&fields)[8][4]) {
    Quad a[4];
    load_a(shared, place, a);
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const Quad b = load_b(shared, place, j);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          magic_of(a[i], b.w[2 * n], b.w[2 * n + 1], sum[2 * i], sum[2 * i + 1], j + n, fields[2 * i][j + n],
                   fields[2 * i + 1][j + n]);
        }
      }
    }
  }

 private:
  using P = Powers<E4m3, E4m3>;
  __device__ static Word of_two(float even_sum, float odd_sum, float even, float odd) {
    const Word sums = __byte_perm(__float_as_uint(even_sum), __float_as_uint(odd_sum), 0x7632U);
    return magic_of_powers<P>(sums, even, odd);
  }
};
