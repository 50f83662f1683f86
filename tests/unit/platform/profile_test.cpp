// The shipped profiles, field by field, and how one is found.
#include <gtest/gtest.h>

#include "mmaemu/platform.h"

#include "platform/embedded_tables.h"
#include "unit/platform/scoped_environment.h"

namespace mmaemu {
namespace {

using testing::ScopedVariable;

Profile profile(std::string_view name) {
  return find_profile(name).value();
}

TEST(Profiles, AreListedInTheDocumentedOrder) {
  std::vector<std::string> names;
  for (const Profile& p : shipped_profiles()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"ada", "ada-te", "ada-ws0", "hopper", "hopper-te", "hopper-ws0",
                                             "hopper-experimental", "b200-mma-sync-experimental"}));
}

TEST(Profiles, AdaIsTheRtx4060UnderTorch) {
  const Profile p = profile("ada");
  EXPECT_EQ(p.preset.name, "ada");
  EXPECT_EQ(p.gpu_name, "NVIDIA GeForce RTX 4060");
  EXPECT_EQ(p.capability, std::pair(8, 9));
  EXPECT_EQ(p.sm_count, 24);
  EXPECT_EQ(p.cublaslt_version, "12.8.3.14");
  EXPECT_EQ(p.caller, "torch._scaled_mm");
  EXPECT_EQ(p.torch_version, "2.7.1+cu128");
  EXPECT_EQ(p.workspace_bytes, 1 << 20);
  EXPECT_EQ(p.align, std::nullopt);
  EXPECT_EQ(p.splitk_table, "heur_rtx4060_lt12.8.3.14");
  EXPECT_EQ(p.maturity, "validated");
  EXPECT_EQ(p.splitk_maturity, "validated");
}

TEST(Profiles, HopperIsTheH100PcieUnderTorch) {
  const Profile p = profile("hopper");
  EXPECT_EQ(p.preset.name, "hopper");
  EXPECT_EQ(p.gpu_name, "NVIDIA H100 PCIe");
  EXPECT_EQ(p.capability, std::pair(9, 0));
  EXPECT_EQ(p.sm_count, 114);
  EXPECT_EQ(p.cublaslt_version, "12.8.3.14");
  EXPECT_EQ(p.caller, "torch._scaled_mm");
  EXPECT_EQ(p.torch_version, "2.7.1+cu128");
  EXPECT_EQ(p.workspace_bytes, 1 << 20);
  EXPECT_EQ(p.align, std::nullopt);
  EXPECT_EQ(p.splitk_table, "heur_h100pcie_lt12.8.3.14");
  EXPECT_EQ(p.maturity, "validated");
  EXPECT_EQ(p.splitk_maturity, "validated");
}

TEST(Profiles, TransformerEngineDiffersInCallerWorkspaceAlignmentAndSplitMaturity) {
  for (const auto& [base, workspace] : {std::pair{"ada", 4 << 20}, std::pair{"hopper", 32 << 20}}) {
    Profile expected = profile(base);
    expected.name += "-te";
    expected.caller = "transformer_engine";
    expected.workspace_bytes = workspace;
    expected.align = 256;
    expected.splitk_maturity = "experimental";
    EXPECT_EQ(profile(expected.name), expected);
  }
}

TEST(Profiles, WithoutAWorkspaceDiffersInTheWorkspaceOnly) {
  for (const char* base : {"ada", "hopper"}) {
    Profile expected = profile(base);
    expected.name += "-ws0";
    expected.workspace_bytes = 0;
    EXPECT_EQ(profile(expected.name), expected);
  }
}

TEST(Profiles, ExperimentalOnesHaveNoReferencePlatform) {
  for (const auto& [name, preset, capability] :
       {std::tuple{"hopper-experimental", "hopper", std::pair{9, 0}},
        std::tuple{"b200-mma-sync-experimental", "b200_mma_sync", std::pair{10, 0}}}) {
    Profile expected;
    expected.name = name;
    expected.preset = find_preset(preset).value();
    expected.capability = capability;
    expected.caller = "torch._scaled_mm";
    expected.maturity = "experimental";
    EXPECT_EQ(profile(name), expected);
  }
}

TEST(Profiles, RejectOneCombinationWhereAPlatformStandsBehindThem) {
  for (const Profile& p : shipped_profiles()) {
    if (!p.gpu_name) {
      EXPECT_TRUE(p.rejects.empty()) << p.name;
      continue;
    }
    ASSERT_EQ(p.rejects.size(), 1U) << p.name;
    EXPECT_EQ(p.rejects[0].a_format, "e4m3");
    EXPECT_EQ(p.rejects[0].b_format, "e4m3");
    EXPECT_EQ(p.rejects[0].out_dtype, "float8_e5m2");
    EXPECT_NE(p.rejects[0].message.find("float8_e5m2"), std::string::npos);
  }
}

TEST(Profiles, AgreeWithTheTablesTheyName) {
  for (const Profile& p : shipped_profiles()) {
    if (!p.splitk_table) continue;
    const Result<SplitTable>* table = embedded_table(*p.splitk_table);
    ASSERT_NE(table, nullptr) << p.name;
    ASSERT_TRUE(table->ok()) << table->error().message;
    EXPECT_EQ(table->value().gpu_name(), p.gpu_name);
    EXPECT_EQ(table->value().cublaslt_version(), p.cublaslt_version);
  }
}

TEST(FindProfile, TakesHopperWithoutANameOrAVariable) {
  for (const std::optional<std::string>& value :
       {std::optional<std::string>(), std::optional<std::string>("")}) {
    const ScopedVariable variable("MMAEMU_PROFILE", value);
    EXPECT_EQ(find_profile("").value().name, "hopper");
  }
}

TEST(FindProfile, TakesTheVariableWithoutANameOnly) {
  const ScopedVariable variable("MMAEMU_PROFILE", "ada-te");
  EXPECT_EQ(find_profile("").value().name, "ada-te");
  EXPECT_EQ(find_profile("ada").value().name, "ada");
}

TEST(FindProfile, RefusesAnUnknownNameListingTheKnownOnes) {
  const Result<Profile> found = find_profile("h100");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::key_error);
  EXPECT_EQ(found.error().message,
            "unknown profile \"h100\"; known profiles: ada, ada-te, ada-ws0, hopper, hopper-te, hopper-ws0, "
            "hopper-experimental, b200-mma-sync-experimental");
}

TEST(FindProfile, NamesTheVariableThatHoldsAnUnknownName) {
  const ScopedVariable variable("MMAEMU_PROFILE", "Hopper");
  const Result<Profile> found = find_profile("");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::key_error);
  EXPECT_NE(found.error().message.find("\"Hopper\" in MMAEMU_PROFILE"), std::string::npos);
}

TEST(WarningKinds, AreNamedAsTheirPythonClasses) {
  EXPECT_EQ(class_name(WarningKind::user), "UserWarning");
  EXPECT_EQ(class_name(WarningKind::experimental_preset), "ExperimentalPresetWarning");
  EXPECT_EQ(class_name(WarningKind::unverified_split), "UnverifiedSplitWarning");
  EXPECT_EQ(class_name(WarningKind::unvalidated_envelope), "UnvalidatedEnvelopeWarning");
  EXPECT_EQ(class_name(WarningKind::backend_fallback), "BackendFallbackWarning");
}

}  // namespace
}  // namespace mmaemu
