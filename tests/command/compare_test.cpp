// How two results are told apart.
#include "compare.h"

#include <cstring>
#include <gtest/gtest.h>

namespace mmaemu::command {
namespace {

Matrix row(FormatId id, const std::vector<std::uint32_t>& codes) {
  const auto bytes = static_cast<std::size_t>(format(id).bytes());
  Matrix matrix{id, 1, static_cast<std::int64_t>(codes.size()),
                std::vector<std::uint8_t>(codes.size() * bytes)};
  for (std::size_t i = 0; i < codes.size(); ++i)
    std::memcpy(matrix.bytes.data() + i * bytes, &codes[i], bytes);
  return matrix;
}

TEST(Compare, CountsEachClass) {
  const Matrix a = row(FormatId::bfloat16, {0x3F80, 0x0000, 0x7FFF, 0x3F80, 0x7F80, 0x8001, 0x3F80});
  const Matrix b = row(FormatId::bfloat16, {0x3F80, 0x8000, 0x7FC0, 0x3F81, 0x3F80, 0x0001, 0x3F90});
  const Comparison found = compare(a, b);
  EXPECT_EQ(found.zero_sign, 1);
  EXPECT_EQ(found.nan_payload, 1);
  EXPECT_EQ(found.value, 4);
  EXPECT_EQ(found.different(), 6);
  // One ulp; -2^-133 to 2^-133 over both zeros, 2; 16 ulps; infinity against 1 has no distance.
  EXPECT_EQ(found.ulps, (std::map<int, std::int64_t>{{0, 1}, {1, 1}, {4, 1}}));
  ASSERT_EQ(found.first.size(), 6U);
  EXPECT_EQ(found.first[0].column, 1);
  EXPECT_FALSE(found.to_json()["equal"].get<bool>());
  EXPECT_NE(
      found.text().find("6 of 7 elements differ: 1 in the sign of zero, 1 in the payload of NaN, 4 in value"),
      std::string::npos);
}

TEST(Compare, TwoNaNsAreNotEqualBecauseTheyAreNaN) {
  const Matrix nan = row(FormatId::float32, {0x7FFFFFFF});
  EXPECT_EQ(compare(nan, nan).different(), 0);
  EXPECT_EQ(compare(nan, row(FormatId::float32, {0x7FC00000})).nan_payload, 1);
  EXPECT_EQ(compare(nan, row(FormatId::float32, {0x7F800000})).value, 1);
}

TEST(Compare, NamesTenPlaces) {
  const Comparison found = compare(row(FormatId::e4m3, std::vector<std::uint32_t>(20, 0x38)),
                                   row(FormatId::e4m3, std::vector<std::uint32_t>(20, 0x39)));
  EXPECT_EQ(found.first.size(), 10U);
  EXPECT_NE(found.text().find("[0, 9]  0x38 1  against  0x39 1.125\n  ...\n"), std::string::npos)
      << found.text();
}

TEST(Compare, ShowsValuesOfEveryFormat) {
  EXPECT_EQ(value_text(FormatId::e4m3, 0x7E), "448");
  EXPECT_EQ(value_text(FormatId::e4m3, 0xFF), "nan");
  EXPECT_EQ(value_text(FormatId::e5m2, 0xFC), "-inf");
  EXPECT_EQ(value_text(FormatId::e5m2, 0x80), "-0");
  EXPECT_EQ(value_text(FormatId::float32, 0x3DCCCCCD), "0.100000001");
}

}  // namespace
}  // namespace mmaemu::command
