// The two envelope rules on small hand-made data.
#include "platform/envelope.h"

#include <climits>
#include <gtest/gtest.h>

namespace mmaemu {
namespace {

constexpr WorkspaceSetting kSetting{1, {0, false, 0, 0}};

WorkspaceSetting with_out(std::uint8_t out) {
  WorkspaceSetting s = kSetting;
  s.setting.out = out;
  return s;
}

Envelope area_envelope() {
  return AreaEnvelope{2, {{with_out(0), 100}, {with_out(1), 0}, {with_out(2), 300}}};
}

Envelope grid_envelope(bool validated) {
  return GridEnvelope{{1024, 2048, 4096}, {{kSetting, {10, 20, 40}}}, {{1, {validated, 5, 1}}}};
}

TEST(AreaEnvelope, InfersStrictlyAboveTheMarginTimesTheLargestSplitArea) {
  EXPECT_FALSE(infer(area_envelope(), with_out(0), 10, 20, 1).unsplit);
  const EnvelopeVerdict above = infer(area_envelope(), with_out(0), 3, 67, 1);
  EXPECT_TRUE(above.unsplit);
  EXPECT_TRUE(above.validated);
}

TEST(AreaEnvelope, NamesItsBound) {
  EXPECT_NE(
      infer(area_envelope(), with_out(0), 10, 20, 1).text.find("M*N = 10*20 is not above the bound 200"),
      std::string::npos);
}

TEST(AreaEnvelope, InfersForAnyAreaWhereNothingSplits) {
  EXPECT_TRUE(infer(area_envelope(), with_out(1), 1, 1, 1).unsplit);
}

TEST(AreaEnvelope, TakesTheUnionOverOutputsForASettingWithoutRows) {
  EXPECT_FALSE(infer(area_envelope(), with_out(4), 1, 600, 1).unsplit);
  EXPECT_TRUE(infer(area_envelope(), with_out(4), 1, 601, 1).unsplit);
}

TEST(AreaEnvelope, InfersNothingForFormatsWithoutRows) {
  WorkspaceSetting other = kSetting;
  other.setting.b = 1;
  EXPECT_FALSE(infer(area_envelope(), other, INT32_MAX, INT32_MAX, 1).unsplit);
}

TEST(GridEnvelope, TakesTheBoundOfTheSmallestRecordedKThatIsNotBelow) {
  const Envelope envelope = grid_envelope(true);
  for (const auto& [K, bound] : {std::pair{1024, 10}, {1025, 20}, {2048, 20}, {2049, 40}, {4096, 40}}) {
    EXPECT_FALSE(infer(envelope, kSetting, 1, bound, K).unsplit) << K;
    EXPECT_TRUE(infer(envelope, kSetting, 1, bound + 1, K).unsplit) << K;
  }
}

TEST(GridEnvelope, InfersNothingOutsideItsRangeOfK) {
  for (const int K : {1, 1023, 4097, INT_MAX}) {
    const EnvelopeVerdict verdict = infer(grid_envelope(true), kSetting, 1000, 1000, K);
    EXPECT_FALSE(verdict.unsplit) << K;
    EXPECT_NE(verdict.text.find("1024 to 4096"), std::string::npos);
  }
}

TEST(GridEnvelope, IsOnlyAsGoodAsItsHeldOutTest) {
  EXPECT_TRUE(infer(grid_envelope(true), kSetting, 11, 1, 1024).validated);
  const EnvelopeVerdict failed = infer(grid_envelope(false), kSetting, 11, 1, 1024);
  EXPECT_TRUE(failed.unsplit);
  EXPECT_FALSE(failed.validated);
  EXPECT_NE(failed.text.find("1 of 5"), std::string::npos);
}

TEST(GridEnvelope, InfersNothingForAWorkspaceWithoutBounds) {
  WorkspaceSetting other = kSetting;
  other.workspace = 2;
  EXPECT_FALSE(infer(grid_envelope(true), other, 1000, 1000, 2048).unsplit);
}

TEST(Envelopes, CompareAreasThatDoNotFitSixtyFourBits) {
  EXPECT_TRUE(infer(area_envelope(), with_out(0), INT64_MAX, INT64_MAX, 1).unsplit);
  EXPECT_TRUE(infer(grid_envelope(true), kSetting, INT64_MAX, INT64_MAX, 2048).unsplit);
}

}  // namespace
}  // namespace mmaemu
