// Each rule by which a split is decided, one test each. Shapes were picked from the recordings.
#include <climits>
#include <gtest/gtest.h>
#include <set>

#include "platform/embedded_tables.h"
#include "platform/resolve_splitk.h"
#include "unit/platform/scoped_environment.h"

namespace mmaemu {
namespace {

using testing::ScopedVariable;

constexpr const char* kAdaTable = "heur_rtx4060_lt12.8.3.14";
constexpr const char* kHopperTable = "heur_h100pcie_lt12.8.3.14";

// Answers what it is told to and counts the questions.
class ScriptedQuery final : public LiveQuery {
 public:
  Result<LiveAnswer> ask(const SplitQuery&, const Profile&) override {
    ++asked;
    return answer;
  }
  Result<LiveAnswer> answer = LiveAnswer{std::nullopt, "no device was asked"};
  int asked = 0;
};

class SplitKResolution : public ::testing::Test {
 protected:
  static SplitQuery query(std::int64_t M, std::int64_t N, std::int64_t K, std::string out = "float32") {
    SplitQuery q;
    q.M = M;
    q.N = N;
    q.K = K;
    q.a_format = "e4m3";
    q.b_format = "e4m3";
    q.out_dtype = std::move(out);
    return q;
  }

  static Profile profile(std::string_view name) { return find_profile(name).value(); }

  Result<SplitResolution> resolve(const SplitQuery& q, const Profile& p,
                                  const SplitRequest& request = SplitAuto{}) {
    return resolve_splitk(q, p, request, {embedded_table, &live_});
  }
  Result<SplitResolution> resolve(const SplitQuery& q, std::string_view p,
                                  const SplitRequest& request = SplitAuto{}) {
    return resolve(q, profile(p), request);
  }

  SplitResolution resolved(const SplitQuery& q, std::string_view p,
                           const SplitRequest& request = SplitAuto{}) {
    const Result<SplitResolution> result = resolve(q, p, request);
    if (result.ok()) return result.value();
    ADD_FAILURE() << result.error().message;
    return {};
  }

  Error refused(const SplitQuery& q, std::string_view p, const SplitRequest& request = SplitAuto{}) {
    const Result<SplitResolution> result = resolve(q, p, request);
    if (!result.ok()) return result.error();
    ADD_FAILURE() << "decided: " << result.value().decision.source << ", " << result.value().decision.note;
    return {};
  }

  static void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << '"' << part << "\" in: " << text;
  }

  ScopedVariable no_strict_{"MMAEMU_SPLITK_STRICT", std::nullopt};
  ScriptedQuery live_;
};

TEST_F(SplitKResolution, NegativeSizesAreValueErrors) {
  for (const auto& q : {query(-1, 16, 16), query(16, -1, 16), query(16, 16, INT64_MIN)}) {
    for (const SplitRequest& request : {SplitRequest(SplitAuto{}), SplitRequest(std::int64_t{1})})
      EXPECT_EQ(refused(q, "hopper", request).kind, ErrorKind::value_error);
  }
  EXPECT_EQ(refused(query(16, -3, 16), "hopper").message, "N must be at least 0, not -3");
}

TEST_F(SplitKResolution, UnknownFormatsAreValueErrors) {
  SplitQuery q = query(16, 64, 1024);
  q.b_format = "float16";
  Error error = refused(q, "hopper");
  EXPECT_EQ(error.kind, ErrorKind::value_error);
  EXPECT_EQ(error.message, "b_dtype must be e4m3 or e5m2, not \"float16\"");
  error = refused(query(16, 64, 1024, "float64"), "hopper");
  EXPECT_EQ(error.kind, ErrorKind::value_error);
  expect_contains(error.message, {"out_dtype", "bfloat16", "\"float64\""});
}

TEST_F(SplitKResolution, FormatsAreTakenInEitherSpelling) {
  SplitQuery q = query(16, 64, 8192, "e4m3");
  q.a_format = q.b_format = "float8_e4m3fn";
  EXPECT_EQ(resolved(q, "hopper").decision,
            resolved(query(16, 64, 8192, "float8_e4m3fn"), "hopper").decision);
}

// ---- explicit

TEST_F(SplitKResolution, ExplicitOneIsUnsplitAndVerifiedEverywhere) {
  for (const Profile& p : shipped_profiles()) {
    const SplitResolution r = resolved(query(16, 64, 1 << 22), p.name, std::int64_t{1});
    EXPECT_EQ(r.decision,
              (SplitDecision{1, SplitScheme::none, "explicit", true, std::nullopt, "given by the caller"}));
    EXPECT_TRUE(r.warnings.empty());
    EXPECT_EQ(resolved(query(16, 64, 1 << 22), p.name, SplitK{}).decision, r.decision);
  }
}

TEST_F(SplitKResolution, ExplicitAsksNobodyElse) {
  const ScopedVariable broken("MMAEMU_SPLITK_STRICT", "maybe");
  resolved(query(512, 128, 14336), "hopper", SplitK{2, SplitScheme::contiguous});
  EXPECT_EQ(live_.asked, 0);
}

TEST_F(SplitKResolution, BareIntegerAboveOneIsRefusedNamingTheScheme) {
  const std::pair<const char*, const char*> forms[] = {
      {"hopper", "splitk=(4, \"contiguous\")"},
      {"hopper-experimental", "splitk=(4, \"contiguous\")"},
      {"ada-ws0", "splitk=(4, \"serial\") or (4, \"pairwise\")"},
      {"b200-mma-sync-experimental", "only splitk=1"}};
  for (const auto& [p, form] : forms) {
    const Error error = refused(query(16, 64, 1024), p, std::int64_t{4});
    EXPECT_EQ(error.kind, ErrorKind::value_error);
    expect_contains(error.message, {"splitk=4", p, form});
  }
}

TEST_F(SplitKResolution, SplitsBelowOneAreValueErrors) {
  for (const std::int64_t S : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN})
    EXPECT_EQ(refused(query(16, 64, 1024), "hopper", S).kind, ErrorKind::value_error);
}

TEST_F(SplitKResolution, SchemesThatDoNotFitTheSplitAreValueErrors) {
  for (const SplitK& split :
       {SplitK{2, SplitScheme::none}, SplitK{1, SplitScheme::serial}, SplitK{0, SplitScheme::none}})
    EXPECT_EQ(refused(query(16, 64, 1024), "hopper", split).kind, ErrorKind::value_error);
}

TEST_F(SplitKResolution, ExplicitSplitIsVerifiedWhereItWasReplayed) {
  const SplitResolution r =
      resolved(query(512, 1024, 5760, "float16"), "hopper", SplitK{8, SplitScheme::contiguous});
  EXPECT_TRUE(r.decision.verified);
  EXPECT_EQ(r.decision.table_id, std::nullopt);
  EXPECT_TRUE(r.warnings.empty());
}

TEST_F(SplitKResolution, ExplicitSplitThatWasNotReplayedWarns) {
  SplitQuery q = query(16, 64, 5760, "bfloat16");
  q.a_format = q.b_format = "e5m2";
  const SplitResolution r = resolved(q, "hopper", SplitK{2, SplitScheme::contiguous});
  EXPECT_FALSE(r.decision.verified);
  ASSERT_EQ(r.warnings.size(), 1U);
  EXPECT_EQ(r.warnings[0].kind, WarningKind::unverified_split);
  expect_contains(r.warnings[0].message,
                  {"S = 2 (contiguous)", "M=16, N=64, K=5760", "e5m2 x e5m2", "hopper"});
}

TEST_F(SplitKResolution, SchemeOfAnotherPresetIsNotTheResolversMatter) {
  const SplitResolution r = resolved(query(16, 64, 5760), "hopper", SplitK{2, SplitScheme::serial});
  EXPECT_FALSE(r.decision.verified);
  EXPECT_EQ(r.decision.scheme, SplitScheme::serial);
}

TEST_F(SplitKResolution, ContiguousSplitWithAnEmptyPartIsNotVerified) {
  // 9 tiles in 8 parts: 2 tiles a part, used up by the first 5.
  const SplitResolution empty =
      resolved(query(64, 64, 9 * 128), "hopper", SplitK{8, SplitScheme::contiguous});
  EXPECT_FALSE(empty.decision.verified);
  ASSERT_EQ(empty.warnings.size(), 1U);
  expect_contains(empty.warnings[0].message, {"a part of the split is empty"});
  // 15 tiles in 8 parts: the last has one. A ragged last tile counts.
  EXPECT_TRUE(
      resolved(query(64, 64, 14 * 128 + 1), "hopper", SplitK{8, SplitScheme::contiguous}).decision.verified);
  EXPECT_FALSE(
      resolved(query(64, 64, 14 * 128), "hopper", SplitK{8, SplitScheme::contiguous}).decision.verified);
  EXPECT_FALSE(resolved(query(64, 64, 0), "hopper", SplitK{2, SplitScheme::contiguous}).decision.verified);
  EXPECT_FALSE(
      resolved(query(64, 64, 128), "hopper", SplitK{INT64_MAX, SplitScheme::contiguous}).decision.verified);
}

TEST_F(SplitKResolution, VerifiedSplitOfAnExperimentalProfileWarnsNevertheless) {
  const SplitResolution r =
      resolved(query(512, 1024, 5760, "float16"), "hopper-te", SplitK{8, SplitScheme::contiguous});
  EXPECT_TRUE(r.decision.verified);
  ASSERT_EQ(r.warnings.size(), 1U);
  EXPECT_EQ(r.warnings[0].kind, WarningKind::unverified_split);
  expect_contains(r.warnings[0].message, {"experimental"});
}

TEST_F(SplitKResolution, UnverifiedSplitsWarnOncePerProfileAndCombination) {
  const SplitK split{2, SplitScheme::serial};
  std::set<std::string> keys;
  const auto key = [&](const SplitQuery& q, std::string_view p, const SplitK& s) {
    return resolved(q, p, s).warnings.at(0).once_key;
  };
  const SplitQuery base = query(16, 64, 5760);
  SplitQuery fast = base;
  fast.fast = true;
  SplitQuery formats = base;
  formats.a_format = "e5m2";
  EXPECT_EQ(key(base, "hopper", split), key(query(32, 128, 1024), "hopper", split));
  for (const std::string& k :
       {key(base, "hopper", split), key(base, "hopper-ws0", split), key(fast, "hopper", split),
        key(formats, "hopper", split), key(query(16, 64, 5760, "bfloat16"), "hopper", split),
        key(base, "hopper", {3, SplitScheme::serial}), key(base, "hopper", {2, SplitScheme::pairwise}),
        key(query(16, 64, 128), "hopper", {2, SplitScheme::contiguous})})
    EXPECT_TRUE(keys.insert(k).second) << k;
}

// ---- workspace0

TEST_F(SplitKResolution, WithoutAWorkspaceNothingSplits) {
  SplitQuery q = query(1, 16, 1 << 20);
  q.layout_std = false;
  q.strict = true;
  for (const auto& [p, table, count] :
       {std::tuple{"ada-ws0", kAdaTable, "209712"}, std::tuple{"hopper-ws0", kHopperTable, "915980"}}) {
    const SplitResolution r = resolved(q, p);
    EXPECT_EQ(r.decision.S, 1);
    EXPECT_EQ(r.decision.source, "workspace0");
    EXPECT_EQ(r.decision.table_id, table);
    EXPECT_TRUE(r.decision.verified);
    expect_contains(r.decision.note, {count});
  }
  EXPECT_EQ(resolved(query(0, 16, 16), "ada-ws0").decision.source, "workspace0");
  EXPECT_EQ(live_.asked, 0);
}

TEST_F(SplitKResolution, WithoutAWorkspaceATableIsNotNeeded) {
  Profile p = profile("hopper-ws0");
  p.splitk_table.reset();
  const Result<SplitResolution> r = resolve(query(16, 64, 1024), p);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r.value().decision.source, "workspace0");
  EXPECT_EQ(r.value().decision.table_id, std::nullopt);
}

// ---- no table, zero size

TEST_F(SplitKResolution, ProfileWithoutATableKnowsNoSplit) {
  for (const char* p : {"hopper-experimental", "b200-mma-sync-experimental"}) {
    for (const SplitQuery& q : {query(16, 64, 1024), query(0, 64, 1024)}) {
      const Error error = refused(q, p);
      EXPECT_EQ(error.kind, ErrorKind::split_unknown);
      expect_contains(error.message, {p, "no reference platform", "splitk=1"});
    }
  }
  EXPECT_EQ(live_.asked, 0);
}

TEST_F(SplitKResolution, ProfileOfAnUnknownTableKnowsNoSplit) {
  Profile p = profile("hopper");
  p.splitk_table = "heur_other";
  const Result<SplitResolution> r = resolve(query(16, 64, 1024), p);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::split_unknown);
  expect_contains(r.error().message, {"no table \"heur_other\""});
}

TEST_F(SplitKResolution, ZeroSizesAreUnsplitWhateverElse) {
  for (SplitQuery q : {query(0, 64, 1024), query(16, 0, 1024), query(16, 64, 0)}) {
    q.layout_std = false;
    q.strict = true;
    const SplitResolution r = resolved(q, "hopper");
    EXPECT_EQ(r.decision.S, 1);
    EXPECT_EQ(r.decision.source, "envelope");
    EXPECT_EQ(r.decision.table_id, kHopperTable);
    EXPECT_TRUE(r.decision.verified);
    EXPECT_TRUE(r.warnings.empty());
  }
}

// ---- table

TEST_F(SplitKResolution, RecordedRowDecidesAndIsNoted) {
  const SplitResolution r = resolved(query(16, 64, 8192), "hopper");
  EXPECT_EQ(r.decision.source, "table");
  EXPECT_EQ(r.decision.scheme, SplitScheme::contiguous);
  EXPECT_EQ(r.decision.table_id, kHopperTable);
  EXPECT_TRUE(r.decision.note.starts_with("table row: algo 66, tile ")) << r.decision.note;
  expect_contains(r.decision.note,
                  {(", numSplitsK " + std::to_string(r.decision.S) + ", customOption ").c_str()});
  EXPECT_EQ(live_.asked, 0);
}

TEST_F(SplitKResolution, RecordedRowOfTheRtx4060TakesItsSchemeFromTheCustomOption) {
  const SplitTable& table = embedded_table(kAdaTable)->value();
  const WorkspaceSetting at{table.workspace(1 << 20).value(),
                            table.setting("float32", false, "e4m3", "e4m3").value()};
  std::set<std::uint32_t> seen;
  for (std::int64_t M = 1; M <= 512; ++M) {
    for (const std::int64_t N : {16, 64, 128, 256, 512}) {
      for (const std::int64_t K : {4096, 8192, 16384}) {
        const auto row = table.find(M, N, K, at);
        if (!row || row->splits == 1 || !seen.insert(row->custom).second) continue;
        const SplitDecision d = resolved(query(M, N, K), "ada").decision;
        EXPECT_EQ(d.S, row->splits);
        EXPECT_EQ(d.scheme, row->custom == 1 ? SplitScheme::pairwise : SplitScheme::serial);
        EXPECT_TRUE(d.verified);
      }
    }
  }
  EXPECT_GE(seen.size(), 2U);
}

TEST_F(SplitKResolution, RecordedRowDecidesInStrictModeToo) {
  SplitQuery q = query(16, 64, 8192);
  q.strict = true;
  EXPECT_EQ(resolved(q, "hopper").decision.source, "table");
}

TEST_F(SplitKResolution, RecordedRowsHoldForTheStandardLayoutOnly) {
  SplitQuery q = query(16, 64, 8192);
  q.layout_std = false;
  const Error error = refused(q, "hopper");
  EXPECT_EQ(error.kind, ErrorKind::split_unknown);
  expect_contains(error.message, {"not in the standard layout", "M*N = 16*64 is not above the bound"});
  EXPECT_EQ(live_.asked, 0);
}

TEST_F(SplitKResolution, RecordedRowIsOfTheProfilesWorkspace) {
  Profile p = profile("hopper");
  p.workspace_bytes = 2 << 20;
  const Result<SplitResolution> r = resolve(query(16, 64, 8192), p);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::split_unknown);
  expect_contains(r.error().message, {"no row", "no bound for the profile's workspace"});
}

// ---- live query

TEST_F(SplitKResolution, LiveQueryDecidesWhereNoRowDoes) {
  live_.answer = LiveAnswer{AlgoChoice{66, 20, 3, 1}, ""};
  const SplitResolution r = resolved(query(17, 80, 8192), "hopper");
  EXPECT_EQ(live_.asked, 1);
  EXPECT_EQ(r.decision, (SplitDecision{3, SplitScheme::contiguous, "live-query", true, std::nullopt,
                                       "live query: algo 66, tile 20, numSplitsK 3, customOption 1"}));
  EXPECT_TRUE(r.warnings.empty());
}

TEST_F(SplitKResolution, LiveQueryIsNotOverruledByTheEnvelope) {
  live_.answer = LiveAnswer{AlgoChoice{66, 20, 2, 0}, ""};
  EXPECT_EQ(resolved(query(4097, 4097, 8192), "hopper").decision.S, 2);
}

TEST_F(SplitKResolution, LiveQueryHoldsInStrictMode) {
  SplitQuery q = query(17, 80, 8192);
  q.strict = true;
  live_.answer = LiveAnswer{AlgoChoice{66, 20, 1, 0}, ""};
  const SplitDecision d = resolved(q, "hopper").decision;
  EXPECT_EQ(d.source, "live-query");
  EXPECT_TRUE(d.verified);
}

TEST_F(SplitKResolution, CustomOptionThatIsNotListedIsContiguousWithACaveatOnTheH100) {
  live_.answer = LiveAnswer{AlgoChoice{66, 20, 2, 9}, ""};
  const SplitResolution r = resolved(query(17, 80, 8192), "hopper");
  EXPECT_EQ(r.decision.scheme, SplitScheme::contiguous);
  EXPECT_FALSE(r.decision.verified);
  expect_contains(r.decision.note, {"customOption 9 is not one"});
  ASSERT_EQ(r.warnings.size(), 1U);
  expect_contains(r.warnings[0].once_key, {"customOption 9"});
}

TEST_F(SplitKResolution, CustomOptionThatIsNotListedIsUnknownOnTheRtx4060) {
  live_.answer = LiveAnswer{AlgoChoice{60, 20, 2, 9}, ""};
  const Error error = refused(query(17, 80, 8192), "ada");
  EXPECT_EQ(error.kind, ErrorKind::split_unknown);
  expect_contains(error.message, {"customOption 9"});
  live_.answer = LiveAnswer{AlgoChoice{60, 20, 1, 9}, ""};
  EXPECT_EQ(resolved(query(17, 80, 8192), "ada").decision.S, 1);
}

TEST_F(SplitKResolution, LiveQueryThatFailsLeavesItsReasonInTheError) {
  live_.answer = LiveAnswer{std::nullopt, "the CUDA device is a toaster"};
  expect_contains(refused(query(17, 80, 8192), "hopper").message, {"the CUDA device is a toaster"});
}

TEST_F(SplitKResolution, LiveQueryErrorsArePassedOn) {
  live_.answer = Error{ErrorKind::value_error, "MMAEMU_DISABLE_CUDA must be"};
  EXPECT_EQ(refused(query(17, 80, 8192), "hopper").kind, ErrorKind::value_error);
}

// ---- envelope

TEST_F(SplitKResolution, EnvelopeOfTheRtx4060InfersAboveTwiceTheLargestSplitArea) {
  const auto& envelope = std::get<AreaEnvelope>(embedded_table(kAdaTable)->value().envelope());
  const std::uint64_t bound = 2 * envelope.largest_split.at({1, {0, false, 0, 0}});
  SplitQuery q = query(static_cast<std::int64_t>(bound), 1, 17);
  expect_contains(refused(q, "ada").message, {"is not above the bound", std::to_string(bound).c_str()});
  ++q.M;
  const SplitResolution r = resolved(q, "ada");
  EXPECT_EQ(r.decision.source, "envelope");
  EXPECT_EQ(r.decision.table_id, kAdaTable);
  EXPECT_TRUE(r.decision.verified);
  EXPECT_TRUE(r.warnings.empty());
}

TEST_F(SplitKResolution, EnvelopeOfTheH100InfersWithinItsRangeOfK) {
  for (const std::int64_t K : {1024, 4194304}) {
    const SplitResolution r = resolved(query(3001, 4096, K), "hopper");
    EXPECT_EQ(r.decision.source, "envelope");
    EXPECT_TRUE(r.decision.verified);
    EXPECT_TRUE(r.warnings.empty());
  }
  for (const std::int64_t K : {1023, 4194305})
    expect_contains(refused(query(3001, 4096, K), "hopper").message, {"K = ", "1024 to 4194304"});
}

TEST_F(SplitKResolution, EnvelopeOfTheH100AtThirtyTwoMebibytesIsNotValidated) {
  const SplitResolution r = resolved(query(30001, 4096, 8192), "hopper-te");
  EXPECT_EQ(r.decision.S, 1);
  EXPECT_FALSE(r.decision.verified);
  ASSERT_EQ(r.warnings.size(), 1U);
  EXPECT_EQ(r.warnings[0].kind, WarningKind::unvalidated_envelope);
  expect_contains(r.warnings[0].message, {"1 of 77518", "M=30001, N=4096, K=8192"});
  EXPECT_EQ(resolved(query(30003, 4096, 1024), "hopper-te").warnings.at(0).once_key, r.warnings[0].once_key);
  SplitQuery fast = query(30001, 4096, 8192);
  fast.fast = true;
  EXPECT_NE(resolved(fast, "hopper-te").warnings.at(0).once_key, r.warnings[0].once_key);
}

TEST_F(SplitKResolution, EnvelopeInfersNothingForAWorkspaceWithoutBounds) {
  Profile p = profile("hopper");
  p.workspace_bytes = 4 << 20;
  const Result<SplitResolution> r = resolve(query(30001, 4096, 8192), p);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::split_unknown);
}

TEST_F(SplitKResolution, EnvelopeHoldsForEveryLayout) {
  SplitQuery q = query(3001, 4096, 8192);
  q.layout_std = false;
  EXPECT_EQ(resolved(q, "hopper").decision.source, "envelope");
}

TEST_F(SplitKResolution, SizesOfTwoToTheTwentyOneAreInferredNotLookedUp) {
  EXPECT_EQ(resolved(query(std::int64_t{1} << 40, std::int64_t{1} << 40, 8192), "hopper").decision.source,
            "envelope");
}

// ---- strict mode

TEST_F(SplitKResolution, StrictModeDoesNotInfer) {
  SplitQuery q = query(3001, 4096, 8192);
  q.strict = true;
  const Error error = refused(q, "hopper");
  EXPECT_EQ(error.kind, ErrorKind::split_unknown);
  expect_contains(error.message, {"strict mode", "the bound"});
}

TEST_F(SplitKResolution, StrictModeIsTheVariablesWithoutAnArgument) {
  SplitQuery q = query(3001, 4096, 8192);
  for (const auto& [value, strict] : {std::pair{"1", true}, std::pair{"0", false}, std::pair{"", false}}) {
    const ScopedVariable variable("MMAEMU_SPLITK_STRICT", value);
    EXPECT_EQ(resolve(q, "hopper").ok(), !strict) << value;
  }
  const ScopedVariable variable("MMAEMU_SPLITK_STRICT", "1");
  q.strict = false;
  EXPECT_TRUE(resolve(q, "hopper").ok());
}

TEST_F(SplitKResolution, StrictVariableOutOfRangeIsAValueError) {
  const ScopedVariable variable("MMAEMU_SPLITK_STRICT", "maybe");
  SplitQuery q = query(16, 64, 8192);
  const Error error = refused(q, "hopper");
  EXPECT_EQ(error.kind, ErrorKind::value_error);
  EXPECT_EQ(error.message, "MMAEMU_SPLITK_STRICT must be unset, empty, \"0\" or \"1\", not \"maybe\"");
  q.strict = true;
  EXPECT_TRUE(resolve(q, "hopper").ok());
}

// ---- errors

TEST_F(SplitKResolution, UnknownSplitNamesTheCallAndTheWaysOut) {
  SplitQuery q = query(17, 80, 8192, "bfloat16");
  q.fast = true;
  const Error error = refused(q, "hopper");
  EXPECT_EQ(error.kind, ErrorKind::split_unknown);
  expect_contains(error.message,
                  {"M=17, N=80, K=8192", "e4m3 x e4m3 to bfloat16, fast accumulation", "profile hopper",
                   "has no row for it", "M*N = 17*80 is not above the bound", "splitk=1",
                   "splitk=(S, \"contiguous\")", "NVIDIA H100 PCIe with cuBLASLt 12.8.3.14"});
  expect_contains(refused(query(17, 80, 8192), "ada").message,
                  {"splitk=(S, \"serial\") or (S, \"pairwise\")", "NVIDIA GeForce RTX 4060"});
}

TEST_F(SplitKResolution, CorruptTableIsAnErrorNotADecision) {
  const Result<SplitTable> corrupt = Error{ErrorKind::mmaemu_error, "split-K table x is corrupt"};
  const SplitEvidence evidence{[&](std::string_view) { return &corrupt; }, &live_};
  for (const SplitRequest& request :
       {SplitRequest(SplitAuto{}), SplitRequest(SplitK{2, SplitScheme::contiguous})}) {
    const auto r = resolve_splitk(query(16, 64, 8192), profile("hopper"), request, evidence);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error(), corrupt.error());
  }
  EXPECT_EQ(live_.asked, 0);
}

}  // namespace
}  // namespace mmaemu
