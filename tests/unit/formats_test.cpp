// Formats: every code of the operand and 16-bit formats against the definition, and the names.
#include "mmaemu/formats.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "referee.h"

namespace mmaemu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The number that a decoded code stands for.
double value(const Format& f, const Decoded& d) {
  const double sign = d.negative ? -1.0 : 1.0;
  switch (d.kind) {
    case NumberClass::zero:
      return sign * 0.0;
    case NumberClass::infinity:
      return sign * kInfinity;
    case NumberClass::nan:
      return std::numeric_limits<double>::quiet_NaN();
    case NumberClass::finite:
      break;
  }
  return sign * std::ldexp(static_cast<double>(d.significand), d.exponent - f.fraction_bits);
}

TEST(Formats, DecodeEveryCodeToItsValue) {
  for (const Format& f : kFormats) {
    if (f.bits > 16) continue;
    for (std::uint32_t code = 0; code < 1U << f.bits; ++code) {
      const double want = testing::referee::value_of(f, code);
      const double got = value(f, decode(f, code));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << f.name << " " << code;
        continue;
      }
      ASSERT_EQ(got, want) << f.name << " " << code;
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << f.name << " " << code;
    }
  }
}

TEST(Formats, ExponentIsClampedAtTheLeastNormal) {
  for (const Format& f : kFormats) {
    if (f.bits > 16) continue;
    for (std::uint32_t code = 0; code < 1U << f.bits; ++code) {
      const Decoded d = decode(f, code);
      if (d.kind != NumberClass::finite) continue;
      const int want = std::max(std::ilogb(testing::referee::value_of(f, code)), f.min_exponent());
      ASSERT_EQ(d.exponent, want) << f.name << " " << code;
    }
  }
}

// The table of docs/semantics.md, section 1.
TEST(Formats, HaveTheDocumentedNumbers) {
  const Format& e4m3 = format(FormatId::e4m3);
  const Format& e5m2 = format(FormatId::e5m2);
  EXPECT_EQ(e4m3.bias, 7);
  EXPECT_EQ(e4m3.min_exponent(), -6);
  EXPECT_EQ(e4m3.max_exponent(), 8);
  EXPECT_EQ(testing::referee::value_of(e4m3, e4m3.max_finite()), 448.0);
  EXPECT_EQ(e5m2.bias, 15);
  EXPECT_EQ(e5m2.min_exponent(), -14);
  EXPECT_EQ(e5m2.max_exponent(), 15);
  EXPECT_EQ(testing::referee::value_of(e5m2, e5m2.max_finite()), 57344.0);
  for (const std::uint32_t sign : {0x00U, 0x80U}) {
    EXPECT_EQ(decode(e4m3, sign | 0x7F).kind, NumberClass::nan);
    EXPECT_EQ(decode(e4m3, sign | 0x7E).kind, NumberClass::finite);
    EXPECT_EQ(decode(e5m2, sign | 0x7C).kind, NumberClass::infinity);
    for (const std::uint32_t code : {0x7DU, 0x7EU, 0x7FU})
      EXPECT_EQ(decode(e5m2, sign | code).kind, NumberClass::nan);
  }
}

TEST(Formats, CanonicalNanIsANan) {
  for (const Format& f : kFormats) EXPECT_EQ(decode(f, f.canonical_nan).kind, NumberClass::nan) << f.name;
  EXPECT_EQ(format(FormatId::float32).canonical_nan, 0x7FFFFFFFU);
  EXPECT_EQ(format(FormatId::float16).canonical_nan, 0x7FFFU);
  EXPECT_EQ(format(FormatId::bfloat16).canonical_nan, 0x7FFFU);
  EXPECT_EQ(format(FormatId::e4m3).canonical_nan, 0x7FU);
  EXPECT_EQ(format(FormatId::e5m2).canonical_nan, 0x7FU);
}

TEST(Formats, LargestFiniteCodeIsBelowTheNonFiniteOnes) {
  for (const Format& f : kFormats) {
    EXPECT_EQ(decode(f, f.max_finite()).kind, NumberClass::finite) << f.name;
    EXPECT_EQ(decode(f, f.max_finite()).exponent, f.max_exponent()) << f.name;
    EXPECT_NE(decode(f, f.max_finite() + 1).kind, NumberClass::finite) << f.name;
  }
}

TEST(Formats, AreFoundByEitherName) {
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    EXPECT_EQ(kFormats[i].id, static_cast<FormatId>(i));
    EXPECT_EQ(find_format(kFormats[i].name), kFormats[i].id);
    EXPECT_EQ(find_format(kFormats[i].dtype), kFormats[i].id);
  }
  for (const char* other : {"", "e4m3fn", "float8_e4m3fnuz", "float8_e8m0fnu", "float64", "E4M3"})
    EXPECT_EQ(find_format(other), std::nullopt) << other;
}

}  // namespace
}  // namespace mmaemu
