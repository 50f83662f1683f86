// Presets: the shipped numbers, the ranges of custom ones, the names.
#include "mmaemu/preset.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

#include "mmaemu/platform.h"

namespace mmaemu {
namespace {

TEST(ShippedPresets, AreSortedAndValid) {
  std::vector<std::string> names;
  for (const Preset& p : shipped_presets()) {
    names.push_back(p.name);
    EXPECT_TRUE(validate(p).ok()) << p.name;
    EXPECT_FALSE(p.validated_scope.empty()) << p.name;
    EXPECT_FALSE(p.evidence.empty()) << p.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"ada", "b200_mma_sync", "hopper"}));
}

// The table of docs/semantics.md, section 2.
TEST(ShippedPresets, HaveTheDocumentedNumbers) {
  const auto expect = [](std::string_view name, std::int64_t nfma, int frac, int frac_out, int min_exp,
                         bool late_c, std::optional<std::int64_t> slow_chunk, std::string_view maturity) {
    const Preset p = find_preset(name).value();
    EXPECT_EQ(p.name, name);
    EXPECT_EQ(p.nfma, nfma);
    EXPECT_EQ(p.frac, frac);
    EXPECT_EQ(p.frac_out, frac_out);
    EXPECT_EQ(p.min_exp, min_exp);
    EXPECT_EQ(p.late_c, late_c);
    EXPECT_EQ(p.slow_chunk, slow_chunk);
    EXPECT_EQ(p.maturity, maturity);
  };
  expect("ada", 16, 13, 13, -132, false, 128, "validated");
  expect("hopper", 32, 13, 13, -132, false, 128, "validated");
  expect("b200_mma_sync", 32, 25, 23, -133, true, std::nullopt, "experimental");
}

TEST(FindPreset, TakesTheAliasForTheExperimentalPreset) {
  EXPECT_EQ(find_preset("blackwell").value(), find_preset("b200_mma_sync").value());
}

TEST(FindPreset, RefusesUnknownNamesListingTheKnownOnes) {
  for (const char* name : {"", "Ada", "ampere", "ada ", "BLACKWELL"}) {
    const Result<Preset> found = find_preset(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::key_error);
    for (const char* known : {"ada", "b200_mma_sync", "hopper", "blackwell"})
      EXPECT_NE(found.error().message.find(known), std::string::npos) << found.error().message;
  }
}

TEST(FindPreset, RefusesNamesThatNoRecordingDescribesWithTheReason) {
  for (const char* name :
       {"sm_120", "sm120", "SM_120", "rtx_blackwell", "RTX-Blackwell", "rtx5070ti", "rtx_5070_TI"}) {
    const Result<Preset> found = find_preset(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::key_error);
    EXPECT_NE(found.error().message.find("no recording"), std::string::npos) << found.error().message;
  }
}

struct Bound {
  const char* field;
  std::function<void(Preset&, std::int64_t)> set;
  std::vector<std::int64_t> inside;
  std::vector<std::int64_t> outside;
};

TEST(ValidatePreset, ChecksTheRangeOfEveryField) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<Bound> bounds{
      {"nfma", [](Preset& p, auto v) { p.nfma = v; }, {1, 16, kMost}, {0, -1}},
      {"frac", [](Preset& p, auto v) { p.frac = static_cast<int>(v); }, {1, 40}, {0, 41, -13}},
      {"frac_out", [](Preset& p, auto v) { p.frac_out = static_cast<int>(v); }, {1, 23}, {0, 24}},
      {"slow_chunk", [](Preset& p, auto v) { p.slow_chunk = v; }, {1, kMost}, {0, -128}},
      {"min_exp",
       [](Preset& p, auto v) { p.min_exp = static_cast<int>(v); },
       {-2'000'000'000, 0, 2'000'000'000},
       {}},
  };
  for (const Bound& bound : bounds) {
    for (const std::int64_t value : bound.inside) {
      Preset p;
      bound.set(p, value);
      EXPECT_TRUE(validate(p).ok()) << bound.field << " " << value;
    }
    for (const std::int64_t value : bound.outside) {
      Preset p;
      bound.set(p, value);
      const Status status = validate(p);
      ASSERT_FALSE(status.ok()) << bound.field << " " << value;
      EXPECT_EQ(status.error().kind, ErrorKind::value_error);
      for (const std::string& part : {std::string(bound.field), std::to_string(value)})
        EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
    }
  }
  Preset without_gemm_level;
  without_gemm_level.slow_chunk.reset();
  EXPECT_TRUE(validate(without_gemm_level).ok());
}

TEST(MaturityWarning, IsOfPresetsThatAreNotValidated) {
  EXPECT_EQ(maturity_warning(find_preset("ada").value()), std::nullopt);
  EXPECT_EQ(maturity_warning(find_preset("hopper").value()), std::nullopt);
  const auto experimental = maturity_warning(find_preset("b200_mma_sync").value());
  ASSERT_TRUE(experimental);
  EXPECT_EQ(experimental->kind, WarningKind::experimental_preset);
  EXPECT_NE(experimental->message.find("experimental"), std::string::npos);
  Preset mine;
  mine.name = "mine";
  const auto custom = maturity_warning(mine);
  ASSERT_TRUE(custom);
  EXPECT_NE(custom->message.find("\"mine\" is custom"), std::string::npos) << custom->message;
  EXPECT_NE(custom->once_key, experimental->once_key);
}

}  // namespace
}  // namespace mmaemu
