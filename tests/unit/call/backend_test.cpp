// Which backend a name means on a device. The library has no CUDA kernel: those names are known and
// unavailable.
#include "call/backend.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "mmaemu/call.h"

#include "../platform/scoped_environment.h"

namespace mmaemu {
namespace {

using testing::ScopedVariable;

const std::vector<std::string> kCudaNames{"cuda",     "cuda:v1", "cuda:v4", "cuda:v9",
                                          "cuda:tc3", "cuda:h1", "cuda:h4"};

Result<BackendChoice> choose(const std::string& name, const std::string& device) {
  return choose_backend({name, device, find_preset("ada").value(), "e4m3", "e4m3"});
}

// Without the variables that a test's environment may hold.
class Backends : public ::testing::Test {
 private:
  ScopedVariable backend_{"MMAEMU_BACKEND", std::nullopt};
  ScopedVariable disable_{"MMAEMU_DISABLE_CUDA", std::nullopt};
};

TEST_F(Backends, AutoIsTheReferenceWithTheReason) {
  const BackendChoice on_cpu = choose("auto", "cpu").value();
  EXPECT_EQ(on_cpu.name, "reference");
  EXPECT_EQ(on_cpu.fallbacks, (std::vector<std::string>{"cuda: tensors on cpu"}));
  EXPECT_TRUE(on_cpu.warnings.empty());
  const BackendChoice on_cuda = choose("auto", "cuda:0").value();
  EXPECT_EQ(on_cuda.name, "reference");
  EXPECT_EQ(on_cuda.fallbacks.size(), 1U);
  ASSERT_EQ(on_cuda.warnings.size(), 1U);
  EXPECT_EQ(on_cuda.warnings[0].kind, WarningKind::backend_fallback);
  EXPECT_NE(on_cuda.warnings[0].message.find("cuda:0"), std::string::npos);
}

TEST_F(Backends, ReferenceIsChosenWithoutAFallback) {
  for (const char* device : {"cpu", "cuda:0"}) {
    const BackendChoice choice = choose("reference", device).value();
    EXPECT_EQ(choice.name, "reference");
    EXPECT_TRUE(choice.fallbacks.empty());
    EXPECT_TRUE(choice.warnings.empty());
  }
}

TEST_F(Backends, NamedKernelsAreUnavailable) {
  for (const std::string& name : kCudaNames) {
    for (const char* device : {"cpu", "cuda:0"}) {
      const Result<BackendChoice> choice = choose(name, device);
      ASSERT_FALSE(choice.ok()) << name << " on " << device;
      EXPECT_EQ(choice.error().kind, ErrorKind::backend_unavailable);
      EXPECT_NE(choice.error().message.find("\"" + name + "\""), std::string::npos) << choice.error().message;
    }
  }
}

TEST_F(Backends, DisabledCudaIsTheReason) {
  const ScopedVariable disable("MMAEMU_DISABLE_CUDA", "1");
  const Result<BackendChoice> choice = choose("cuda:v4", "cuda:0");
  ASSERT_FALSE(choice.ok());
  EXPECT_NE(choice.error().message.find("MMAEMU_DISABLE_CUDA=1"), std::string::npos)
      << choice.error().message;
}

TEST_F(Backends, UnknownNamesAreValueErrorsWithTheKnownOnes) {
  for (const char* name : {"", "Auto", "cuda:v2", "cpu"}) {
    const Result<BackendChoice> choice = choose(name, "cpu");
    ASSERT_FALSE(choice.ok()) << name;
    EXPECT_EQ(choice.error().kind, ErrorKind::value_error);
    EXPECT_EQ(choice.error().message.find("backend="), 0U) << choice.error().message;
    for (const std::string& known : kCudaNames)
      EXPECT_NE(choice.error().message.find(known), std::string::npos) << choice.error().message;
  }
}

TEST_F(Backends, VariableReplacesAutoAlone) {
  {
    const ScopedVariable variable("MMAEMU_BACKEND", "reference");
    EXPECT_TRUE(choose("auto", "cpu").value().fallbacks.empty());
  }
  {
    const ScopedVariable variable("MMAEMU_BACKEND", "cuda:h4");
    EXPECT_EQ(choose("auto", "cpu").error().kind, ErrorKind::backend_unavailable);
    EXPECT_EQ(choose("reference", "cpu").value().name, "reference");
  }
  {
    const ScopedVariable variable("MMAEMU_BACKEND", "fast");
    const Result<BackendChoice> choice = choose("auto", "cpu");
    ASSERT_FALSE(choice.ok());
    EXPECT_EQ(choice.error().kind, ErrorKind::value_error);
    EXPECT_EQ(choice.error().message.find("MMAEMU_BACKEND="), 0U) << choice.error().message;
    EXPECT_TRUE(choose("reference", "cpu").ok());
  }
}

TEST_F(Backends, StatusListsTheReferenceFirstAndEveryKernel) {
  for (const char* device : {"cpu", "cuda:0"}) {
    const std::vector<BackendStatus> all = backends_status(device);
    ASSERT_EQ(all.size(), kCudaNames.size());  // "cuda" is none of them, the reference is one
    EXPECT_EQ(all[0].name, "reference");
    EXPECT_TRUE(all[0].available);
    EXPECT_EQ(all[0].source, "native");
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_NE(std::ranges::find(kCudaNames, all[i].name), kCudaNames.end()) << all[i].name;
      EXPECT_FALSE(all[i].available);
      EXPECT_FALSE(all[i].validated_here);
      EXPECT_FALSE(all[i].reason.empty());
    }
  }
}

}  // namespace
}  // namespace mmaemu
