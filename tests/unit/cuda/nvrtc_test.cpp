// NVRTC for real: it compiles without a GPU. Without one on the machine (MMAEMU_NVRTC in CMake) these tests
// skip.
#include "cuda/nvrtc.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>

#include "../platform/scoped_environment.h"

namespace mmaemu::cuda {
namespace {

using mmaemu::testing::ScopedVariable;

constexpr std::array<SourceFile, 2> kFiles{
    {{"twice.h", "static __device__ float twice(float x) { return __fmul_rz(x, FACTOR); }\n"},
     {"kernel.cu", "#include \"twice.h\"\nextern \"C\" __global__ void k(float* x) { *x = twice(*x); }\n"}}};
const std::array<std::string, 1> kOptions{"-DFACTOR=2.0f"};

class NvrtcCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(MMAEMU_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  }
  ScopedVariable path_{"MMAEMU_NVRTC_PATH", MMAEMU_NVRTC};
};

TEST_F(NvrtcCompiler, SaysWhatItIs) {
  const Nvrtc nvrtc = Nvrtc::load(12).value();
  EXPECT_EQ(nvrtc.path(), MMAEMU_NVRTC);
  EXPECT_GE(nvrtc.version(), 12000);
  EXPECT_TRUE(std::ranges::is_sorted(nvrtc.architectures()));
  EXPECT_TRUE(std::ranges::binary_search(nvrtc.architectures(), 89));
}

TEST_F(NvrtcCompiler, CompilesAFileWithItsHeadersForAnArchitecture) {
  const Nvrtc nvrtc = Nvrtc::load(12).value();
  const Result<Bytes> cubin = nvrtc.compile("kernel.cu", kFiles, "sm_89", kOptions);
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  EXPECT_TRUE(text_of(cubin.value()).starts_with("\177ELF"));
  const Result<Bytes> ptx = nvrtc.compile("kernel.cu", kFiles, "compute_80", kOptions);
  ASSERT_TRUE(ptx.ok()) << ptx.error().message;
  EXPECT_NE(text_of(ptx.value()).find(".target sm_80"), std::string_view::npos);
  EXPECT_NE(text_of(ptx.value()).find("mul.rz.f32"), std::string_view::npos);
}

TEST_F(NvrtcCompiler, WhatItCannotCompileIsAnErrorWithItsLog) {
  const Nvrtc nvrtc = Nvrtc::load(12).value();
  const Result<Bytes> no_factor = nvrtc.compile("kernel.cu", kFiles, "sm_89", {});
  ASSERT_FALSE(no_factor.ok());
  EXPECT_EQ(no_factor.error().kind, ErrorKind::backend_unavailable);
  EXPECT_NE(no_factor.error().message.find("FACTOR"), std::string::npos) << no_factor.error().message;
  const Result<Bytes> no_such_gpu = nvrtc.compile("kernel.cu", kFiles, "sm_12345", kOptions);
  ASSERT_FALSE(no_such_gpu.ok());
  EXPECT_NE(no_such_gpu.error().message.find("sm_12345"), std::string::npos) << no_such_gpu.error().message;
}

TEST_F(NvrtcCompiler, ThatTheProcessHasLoadedServesWithoutThePath) {
  ASSERT_NE(dlopen(MMAEMU_NVRTC, RTLD_NOW | RTLD_LOCAL), nullptr);
  const int version = Nvrtc::load(12).value().version();
  const ScopedVariable none("MMAEMU_NVRTC_PATH", std::nullopt);
  const Result<Nvrtc> nvrtc = Nvrtc::load(12);
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
  EXPECT_EQ(nvrtc.value().version(), version);
  EXPECT_TRUE(nvrtc.value().path().starts_with("libnvrtc.so.1")) << nvrtc.value().path();
}

TEST(NvrtcSearch, MissingLibraryIsAnErrorWithTheWayOut) {
  const ScopedVariable path("MMAEMU_NVRTC_PATH", "/no/such/libnvrtc.so");
  const Result<Nvrtc> nvrtc = Nvrtc::load(12);
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_EQ(nvrtc.error().kind, ErrorKind::backend_unavailable);
  EXPECT_NE(nvrtc.error().message.find("/no/such/libnvrtc.so"), std::string::npos) << nvrtc.error().message;
  EXPECT_NE(nvrtc.error().message.find("MMAEMU_NVRTC_PATH"), std::string::npos) << nvrtc.error().message;
}

TEST(NvrtcSearch, LibraryThatIsNotNvrtcIsAnError) {
  const ScopedVariable path("MMAEMU_NVRTC_PATH", MMAEMU_FAKE_GPU);
  const Result<Nvrtc> nvrtc = Nvrtc::load(12);
  ASSERT_FALSE(nvrtc.ok());
  EXPECT_NE(nvrtc.error().message.find("nvrtcVersion"), std::string::npos) << nvrtc.error().message;
}

// In a process of its own, which no other test has opened a library in.
TEST(NvrtcSearch, GoesOnBehindALibraryThatIsNotNvrtc) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ScopedVariable none("MMAEMU_NVRTC_PATH", std::nullopt);
  const auto search = [] {
    for (const char* loaded :
         {MMAEMU_FAKE_CUDA_DIR "/libnvrtc-12.so", MMAEMU_FAKE_CUDA_DIR "/libnvrtc-13.so"})
      if (dlopen(loaded, RTLD_NOW | RTLD_LOCAL) == nullptr) std::fputs(dlerror(), stderr);
    const Result<Nvrtc> nvrtc = Nvrtc::load(12);
    std::fputs((nvrtc.ok() ? nvrtc.value().path() : nvrtc.error().message).c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(search(), ::testing::ExitedWithCode(0), "^libnvrtc.so.13$");
}

}  // namespace
}  // namespace mmaemu::cuda
