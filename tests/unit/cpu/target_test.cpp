// Names of CPU targets: which there are, which runs, and what becomes of a name that isn't one.
#include "cpu/target.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

#include "mmaemu/gemm.h"

namespace mmaemu::testing {
namespace {

class CpuTarget : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("MMAEMU_CPU_TARGET"); }
  void TearDown() override { unsetenv("MMAEMU_CPU_TARGET"); }
};

Execution on(std::string_view target) {
  Execution execution;
  execution.target = target;
  return execution;
}

TEST_F(CpuTarget, ListsTheAvailableOnesBestFirstAndTheModelLast) {
  const auto names = cpu_targets();
  ASSERT_GE(names.size(), 2U);
  EXPECT_EQ(names.back(), "model");
  EXPECT_EQ(names[names.size() - 2], "portable");
#if defined(__aarch64__)
  EXPECT_EQ(names.front(), "neon");
#endif
}

TEST_F(CpuTarget, IsTheBestOneUnlessAnotherIsAskedFor) {
  EXPECT_EQ(cpu_target().value(), cpu_targets().front());
  for (const std::string_view name : cpu_targets()) EXPECT_EQ(cpu_target(on(name)).value(), name);
}

TEST_F(CpuTarget, IsTheEnvironmentsUnlessTheCallNamesOne) {
  setenv("MMAEMU_CPU_TARGET", "portable", 1);
  EXPECT_EQ(cpu_target().value(), "portable");
  EXPECT_EQ(cpu_target(on("model")).value(), "model");
}

TEST_F(CpuTarget, ThatIsUnknownIsAnErrorWithTheNamesThereAre) {
  const auto refused = cpu_target(on("avx1024"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::value_error);
  EXPECT_NE(refused.error().message.find("target=\"avx1024\" is not a CPU target; the targets here are "),
            std::string::npos)
      << refused.error().message;
  for (const std::string_view name : cpu_targets())
    EXPECT_NE(refused.error().message.find(name), std::string::npos);
  setenv("MMAEMU_CPU_TARGET", "avx1024", 1);
  EXPECT_NE(cpu_target().error().message.find("MMAEMU_CPU_TARGET=\"avx1024\""), std::string::npos);
}

TEST_F(CpuTarget, ThatThisProcessorLacksIsAnErrorOfEveryCall) {
  const auto here = cpu_targets();
  const std::uint8_t code = 0x38;
  const OperandView one{&code, FormatId::e4m3, 1, 1, 1, 1};
  const Accumulation how{find_preset("hopper").value(), true, {}};
  int absent = 0;
  for (const std::string_view name : cpu::kTargetNames) {
    if (std::ranges::find(here, name) != here.end()) continue;
    ++absent;
    float out = 5.0F;
    const ResultView result{&out, FormatId::float32, 1, 1, 1, 1};
    for (const Status& status :
         {accumulate(one, one, how, result, on(name)), scaled_mm(one, one, how, {}, result, on(name)),
          dot(one, one, nullptr, how.preset, &out, on(name))}) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::value_error);
      EXPECT_NE(status.error().message.find("is not available on this processor"), std::string::npos);
    }
    EXPECT_EQ(out, 5.0F);
  }
  EXPECT_GE(absent, 1);  // no processor has both NEON and AVX
}

}  // namespace
}  // namespace mmaemu::testing
