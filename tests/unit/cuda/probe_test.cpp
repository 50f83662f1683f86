// The probes of the gated kernels find nothing where tensor cores sum as those of Ampere and Ada are known
// to, and notice ones that sum otherwise.
#include <gtest/gtest.h>

#include "host_kernels.h"
#include "simt/simt.h"

namespace mmaemu::testing {
namespace {

class Probe : public ::testing::Test {
 protected:
  void TearDown() override { simt::tensor_model() = {}; }

  // Of 4 warps that make 8 products of 128 results each.
  static unsigned violations(const std::string& name, int architecture = 80) {
    unsigned count = 0;
    unsigned* address = &count;
    unsigned seed = 1;
    int rounds = 8;
    std::array<void*, 3> parameters{&address, &seed, &rounds};
    const auto wrong =
        run_on_host(architecture, {"mmaemu_probe_" + name, {2, 1}, {64, 1}, parameters.data()});
    EXPECT_FALSE(wrong) << *wrong;
    return count;
  }
};

TEST_F(Probe, FindNothingWrongWithAmpereAndAda) {
  for (const int architecture : kHostArchitectures) {
    EXPECT_EQ(violations("window", architecture), 0U);
    EXPECT_EQ(violations("design_a", architecture), 0U);
  }
}

TEST_F(Probe, OfTheWindowNoticesSumsThatAreTooSmallOrTooLarge) {
  simt::tensor_model().factor = 0.5;
  EXPECT_GT(violations("window"), 1000U);
  simt::tensor_model().factor = 32.0;
  EXPECT_GT(violations("window"), 1000U);
}

TEST_F(Probe, OfTheWindowDoesNotDependOnTheLastBitsOfTheSums) {
  simt::tensor_model().fraction = 20;
  EXPECT_EQ(violations("window"), 0U);
}

TEST_F(Probe, OfDesignANoticesOtherAlignments) {
  for (const int fraction : {22, 23, 25, 26}) {
    simt::tensor_model().fraction = fraction;
    EXPECT_GT(violations("design_a"), 100U) << fraction;
  }
}

}  // namespace
}  // namespace mmaemu::testing
