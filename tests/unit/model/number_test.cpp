// The model's integers against the processor's floating point (add, multiply, fma) and against rounding in
// long double.
#include "model/number.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "referee.h"

namespace mmaemu::model {
namespace {

using testing::referee::nearest_code;
using testing::referee::value_of;

float number(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// The bits of a result of the processor, any NaN being the canonical one.
std::uint32_t canonical(float x) {
  return std::isnan(x) ? kNaN32 : std::bit_cast<std::uint32_t>(x);
}

// Bit patterns of every class: each exponent with the fractions that lie at a boundary, both signs.
std::vector<std::uint32_t> corner_patterns(std::uint32_t exponent_step) {
  std::vector<std::uint32_t> patterns;
  for (std::uint32_t exponent = 0; exponent < 256;
       exponent += exponent < 2 || exponent > 252 ? 1 : exponent_step) {
    for (const std::uint32_t fraction : {0x000000U, 0x000001U, 0x3FFFFFU, 0x400000U, 0x400001U, 0x7FFFFFU})
      for (const std::uint32_t sign : {0U, kSign32}) patterns.push_back(sign | exponent << 23 | fraction);
  }
  return patterns;
}

class RandomPatterns {
 public:
  std::uint32_t any() { return static_cast<std::uint32_t>(random_()); }
  // With an exponent near that of `other`, so that sums cancel and alignments are short.
  std::uint32_t near(std::uint32_t other) {
    const std::uint32_t exponent = ((other >> 23) + any() % 56 - 28) & 0xFF;
    return (any() & 0x807FFFFF) | exponent << 23;
  }

 private:
  std::mt19937_64 random_{20};
};

// Calls check(a, b) for pairs of every class.
template <class Check>
void for_each_pair(Check check) {
  const std::vector<std::uint32_t> corners = corner_patterns(9);
  for (const std::uint32_t a : corners)
    for (const std::uint32_t b : corners) check(a, b);
  RandomPatterns random;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::uint32_t a = random.any();
    check(a, i % 2 == 0 ? random.any() : random.near(a));
  }
}

TEST(AddF32, IsTheProcessorsAddition) {
  std::int64_t wrong = 0;
  for_each_pair([&](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t want = canonical(number(a) + number(b));
    if (add_f32(a, b) != want && ++wrong < 10)
      ADD_FAILURE() << std::hex << a << " + " << b << " is " << want << ", not " << add_f32(a, b);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(MultiplyF32, IsTheProcessorsMultiplication) {
  std::int64_t wrong = 0;
  for_each_pair([&](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t want = canonical(number(a) * number(b));
    if (multiply_f32(a, b) != want && ++wrong < 10)
      ADD_FAILURE() << std::hex << a << " * " << b << " is " << want << ", not " << multiply_f32(a, b);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(MultiplyAddZeroF32, IsOneFusedOperation) {
  std::int64_t wrong = 0;
  for_each_pair([&](std::uint32_t a, std::uint32_t b) {
    // std::fma rounds once, in hardware or in the C library.
    const std::uint32_t want = canonical(std::fma(number(a), number(b), 0.0F));
    if (multiply_add_zero_f32(a, b) != want && ++wrong < 10)
      ADD_FAILURE() << std::hex << a << " * " << b << " + 0 is " << want;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(MultiplyAddZeroF32, KeepsTheSignOfUnderflowButNotOfZero) {
  const std::uint32_t tiny = 0x00000001;
  EXPECT_EQ(multiply_add_zero_f32(tiny, tiny | kSign32), kSign32);  // a multiply followed by an add gives +0
  EXPECT_EQ(multiply_add_zero_f32(0, tiny | kSign32), 0U);          // a multiply alone gives -0
  EXPECT_EQ(multiply_add_zero_f32(kSign32, tiny), 0U);
  EXPECT_EQ(multiply_add_zero_f32(kInfinity32, kSign32), kNaN32);
}

TEST(RoundNearestEven, AgreesWithLongDoubleForAnySignificand) {
  // 64 bits of significand and the exponents of every format fit a long double: ldexp is exact.
  static_assert(std::numeric_limits<long double>::digits >= 64);
  std::mt19937_64 random(21);
  for (const Format& f : kFormats) {
    for (int i = 0; i < 300'000; ++i) {
      // Few bits, ties included, up to all of them.
      const int width = 1 + static_cast<int>(random() % 64);
      std::uint64_t significand = random() >> (64 - width);
      if (i % 4 == 0) significand &= ~std::uint64_t{0} << (random() % 64);
      const int reach = f.max_exponent() - f.min_exponent() + 2 * f.fraction_bits;
      const int exponent = f.min_exponent() - f.fraction_bits - width +
                           static_cast<int>(random() % static_cast<unsigned>(reach));
      const bool negative = i % 2 == 0;
      const long double exact = std::ldexp(static_cast<long double>(significand), exponent);
      ASSERT_EQ(round_nearest_even(f, negative, significand, exponent),
                nearest_code(f, negative ? -exact : exact))
          << f.name << ": " << significand << " * 2^" << exponent;
    }
  }
}

TEST(RoundNearestEven, FarBelowTheFormatIsAZeroOfTheSign) {
  for (const Format& f : kFormats) {
    EXPECT_EQ(round_nearest_even(f, false, ~std::uint64_t{0}, -100'000), 0U);
    EXPECT_EQ(round_nearest_even(f, true, ~std::uint64_t{0}, -100'000), f.sign_bit());
    EXPECT_EQ(round_nearest_even(f, true, 0, 0), f.sign_bit());
  }
}

TEST(RoundNearestEven, FarAboveTheFormatIsInfinityOrTheLargestFinite) {
  for (const Format& f : kFormats) {
    const std::uint32_t beyond = f.saturates ? f.max_finite() : f.max_finite() + 1;
    EXPECT_EQ(round_nearest_even(f, false, 1, 1000), beyond) << f.name;
    EXPECT_EQ(round_nearest_even(f, true, ~std::uint64_t{0}, 1000), beyond | f.sign_bit()) << f.name;
  }
}

// Every rounding boundary of the narrower formats: each finite code's value, the midpoint to the next code,
// and their fp32 neighbours.
TEST(ConvertFromF32, RoundsEveryBoundaryToNearestEven) {
  for (const Format& f : kFormats) {
    if (f.bits > 16) continue;
    for (std::uint32_t code = 0; code <= f.max_finite(); ++code) {
      const double here = value_of(f, code);
      // Past the largest finite code the next one would be as far again.
      const double step = code < f.max_finite() ? value_of(f, code + 1) - here : here - value_of(f, code - 1);
      for (const double boundary : {here, here + step / 2}) {
        const auto at = static_cast<float>(boundary);  // below 2^-149 a bfloat16 midpoint is no fp32 number
        for (const float x : {std::nextafter(at, 0.0F), at, std::nextafter(at, INFINITY)}) {
          for (const float y : {x, -x}) {
            ASSERT_EQ(convert_from_f32(f, std::bit_cast<std::uint32_t>(y)),
                      nearest_code(f, static_cast<long double>(y)))
                << f.name << ": " << std::hexfloat << y;
          }
        }
      }
    }
  }
}

TEST(ConvertFromF32, OverflowsFromHalfAStepBeyondTheLargestFinite) {
  for (const Format& f : kFormats) {
    if (f.bits > 16) continue;
    const double largest = value_of(f, f.max_finite());
    const double half_step = (largest - value_of(f, f.max_finite() - 1)) / 2;
    const auto tie = static_cast<float>(largest + half_step);
    const std::uint32_t beyond = f.saturates ? f.max_finite() : f.max_finite() + 1;
    const auto convert = [&](float x) { return convert_from_f32(f, std::bit_cast<std::uint32_t>(x)); };
    EXPECT_EQ(convert(std::nextafter(tie, 0.0F)), f.max_finite()) << f.name;
    EXPECT_EQ(convert(tie), beyond) << f.name;
    EXPECT_EQ(convert(-tie), beyond | f.sign_bit()) << f.name;
    EXPECT_EQ(convert(INFINITY), beyond) << f.name;
    EXPECT_EQ(convert(-INFINITY), beyond | f.sign_bit()) << f.name;
  }
}

TEST(ConvertFromF32, ReturnsCanonicalNansOnly) {
  for (const Format& f : kFormats)
    for (const std::uint32_t nan : {0x7F800001U, 0x7FC00000U, 0xFF800001U, 0xFFFFFFFFU, kNaN32})
      EXPECT_EQ(convert_from_f32(f, nan), f.canonical_nan) << f.name;
}

TEST(ConvertFromF32, KeepsEveryNumberOfFp32) {
  RandomPatterns random;
  std::vector<std::uint32_t> patterns = corner_patterns(1);
  for (int i = 0; i < 100'000; ++i) patterns.push_back(random.any());
  for (const std::uint32_t pattern : patterns)
    ASSERT_EQ(convert_from_f32(format(FormatId::float32), pattern), canonical(number(pattern)));
}

}  // namespace
}  // namespace mmaemu::model
