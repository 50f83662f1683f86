// The whole host path on a fake driver whose launches run the kernels' sources on the host.
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "mmaemu/call.h"
#include "mmaemu/cuda.h"

#include "../platform/fake_cuda.h"
#include "../platform/scoped_environment.h"
#include "base/sha256.h"
#include "call/backend.h"
#include "cuda/device.h"
#include "cuda/images.h"
#include "cuda/launcher.h"
#include "cuda/smoke.h"
#include "fake_gpu.h"
#include "temporary_folder.h"

namespace mmaemu {
namespace {

using testing::contents;
using testing::FakeGpu;
using testing::files_below;
using testing::fill;
using testing::ScopedVariable;
using testing::TemporaryFolder;

template <class Function>
Function* fake(const char* name, const char* library = MMAEMU_FAKE_GPU) {
  return reinterpret_cast<Function*>(dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), name));
}

BackendQuery query(const std::string& name, const std::string& preset = "ada") {
  return {name, "cuda:0", find_preset(preset).value(), "e4m3", "e4m3"};
}

// A fatbin of the fake driver's, with its manifest.
class CudaHost : public ::testing::Test {
 protected:
  void SetUp() override {
    fake<void()>("fake_gpu_reset")();
    std::string image = "fake fatbin sm_75 sm_89 sm_90";
    for (const cuda::Kernel& kernel : cuda::kernels())
      for (const std::string& name : cuda::function_names(kernel)) image += " " + name;
    prepare(image, cuda::source_hash(), sha256(bytes_of(image)));
  }
  void TearDown() override {
    EXPECT_TRUE(gpu_.pushed.empty());
    EXPECT_TRUE(gpu_.memory.empty());
    EXPECT_TRUE(gpu_.streams.empty());
  }
  void prepare(const std::string& image, const std::string& source, const std::string& hash) {
    fill(fatbins_ / "kernels.fatbin", image);
    std::string text = R"({"source_sha256": ")" + source + R"(", "images": [)";
    for (const char* kernel : {"tc3", "v9", "v4", "v1", "h4", "h1"})
      text += std::string(text.back() == '[' ? "" : ", ") + R"({"kernel": ")" + kernel +
              R"(", "file": "kernels.fatbin", "sha256": ")" + hash + R"("})";
    fill(fatbins_ / "manifest.json", text + "]}");
  }
  std::string reason(const std::string& name = "cuda:v1") {
    const Result<BackendChoice> choice = choose_backend(query(name));
    EXPECT_FALSE(choice.ok());
    if (choice.ok()) return "";
    EXPECT_EQ(choice.error().kind, ErrorKind::backend_unavailable);
    return choice.error().message;
  }
  static BackendStatus status_of(const std::string& name) {
    const std::vector<BackendStatus> all = backends_status("cuda:0");
    return *std::ranges::find(all, name, &BackendStatus::name);
  }
  static void expect_mentions(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  TemporaryFolder cache_;
  TemporaryFolder fatbins_;
  ScopedVariable driver_{"MMAEMU_LIBCUDA_PATH", MMAEMU_FAKE_GPU};
  ScopedVariable cache_variable_{"MMAEMU_CACHE_DIR", cache_.path()};
  ScopedVariable fatbin_variable_{"MMAEMU_FATBIN_DIR", fatbins_.path()};
  ScopedVariable nvrtc_variable_{"MMAEMU_NVRTC_PATH", "/no/libnvrtc.so"};
  ScopedVariable backend_{"MMAEMU_BACKEND", std::nullopt};
  ScopedVariable disable_{"MMAEMU_DISABLE_CUDA", std::nullopt};
  ScopedVariable gated_{"MMAEMU_ALLOW_GATED_KERNELS", std::nullopt};
  FakeGpu& gpu_ = *fake<FakeGpu*()>("fake_gpu")();
};

TEST_F(CudaHost, KernelsPassTheirGatesAndAreChosen) {
  const BackendChoice ada = choose_backend(query("auto")).value();
  EXPECT_EQ(ada.name, "cuda:v4");
  ASSERT_EQ(ada.fallbacks.size(), 2U);
  EXPECT_EQ(ada.fallbacks[0],
            "cuda:tc3: not validated on compute capability 8.9; MMAEMU_ALLOW_GATED_KERNELS=1 lets its gates "
            "decide");
  EXPECT_TRUE(ada.warnings.empty());
  EXPECT_EQ(choose_backend(query("cuda", "hopper")).value().name, "cuda:h4");
  EXPECT_EQ(choose_backend(query("cuda:h1", "hopper")).value().name, "cuda:h1");
  EXPECT_EQ(status_of("cuda:v1"), (BackendStatus{"cuda:v1", true, "fatbin", false, {"load", "smoke"}, ""}));
}

TEST_F(CudaHost, GatedKernelIsChosenWhereTheUserLetsItsGatesDecide) {
  const ScopedVariable allowed("MMAEMU_ALLOW_GATED_KERNELS", "1");
  EXPECT_EQ(choose_backend(query("auto")).value().name, "cuda:tc3");
  EXPECT_EQ(status_of("cuda:tc3"),
            (BackendStatus{"cuda:tc3", true, "fatbin", false, {"load", "window", "design_a", "smoke"}, ""}));
}

TEST_F(CudaHost, GatedKernelIsNotUsedWhereItsOwnGateFails) {
  const ScopedVariable allowed("MMAEMU_ALLOW_GATED_KERNELS", "1");
  fake<void(int)>("fake_gpu_tensor_fraction")(25);
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "cuda:v9");  // whose window does not depend on that
  ASSERT_EQ(choice.fallbacks.size(), 1U);
  expect_mentions(choice.fallbacks[0], "design_a");
  expect_mentions(choice.fallbacks[0], "break the property");
  ASSERT_EQ(choice.warnings.size(), 1U);
}

TEST_F(CudaHost, NoGatedKernelIsUsedWhereTheGateOfBothFails) {
  const ScopedVariable allowed("MMAEMU_ALLOW_GATED_KERNELS", "1");
  gpu_.spoiled = "mmaemu_probe_window";
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "cuda:v4");
  ASSERT_EQ(choice.fallbacks.size(), 2U);
  expect_mentions(choice.fallbacks[0], "cuda:tc3: gate window failed");
  expect_mentions(choice.fallbacks[1], "cuda:v9: gate window failed");
  ASSERT_EQ(choice.warnings.size(), 1U);
  expect_mentions(choice.warnings[0].message, "cuda:tc3 is unavailable: gate window failed");
  expect_mentions(choice.warnings[0].message, "cuda:v4 runs instead");
  expect_mentions(reason("cuda:v9"), "gate window failed");
}

TEST_F(CudaHost, AnotherValueOfAllowGatedIsAnErrorWhereKernelsAreChosen) {
  const ScopedVariable odd("MMAEMU_ALLOW_GATED_KERNELS", "yes");
  const Result<BackendChoice> choice = choose_backend(query("auto"));
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().kind, ErrorKind::value_error);
  expect_mentions(choice.error().message, "MMAEMU_ALLOW_GATED_KERNELS must be");
  BackendQuery cpu = query("auto");
  cpu.device = "cpu";
  EXPECT_TRUE(choose_backend(cpu).ok());
}

TEST_F(CudaHost, KernelServesItsPresetAlone) {
  expect_mentions(reason("cuda:h1"), "serves preset hopper, not ada");
  Preset own = find_preset("ada").value();
  own.frac = 14;
  const BackendChoice choice = choose_backend({"auto", "cuda:0", own, "e4m3", "e4m3"}).value();
  EXPECT_EQ(choice.name, "reference");
  EXPECT_EQ(choice.fallbacks, (std::vector<std::string>{"cuda: no kernel has the arithmetic of preset ada"}));
  ASSERT_EQ(choice.warnings.size(), 1U);
}

TEST_F(CudaHost, KernelsThatNeedANewerDeviceArePassedOver) {
  gpu_.devices[0].major = 7;
  gpu_.devices[0].minor = 5;
  const std::string needs = "needs compute capability 8.0, and Fake GPU has 7.5";
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "cuda:v1");
  EXPECT_EQ(choice.fallbacks,
            (std::vector<std::string>{"cuda:tc3: " + needs, "cuda:v9: " + needs, "cuda:v4: " + needs}));
  EXPECT_TRUE(choice.warnings.empty());  // nothing is wrong with them
  expect_mentions(reason("cuda:v4"), needs);
  EXPECT_EQ(status_of("cuda:v4"), (BackendStatus{"cuda:v4", false, "", false, {}, needs}));
  const std::vector<KernelVerdict> verdicts = selftest("cuda:0", {}, false).value();
  for (const KernelVerdict& verdict : verdicts) {
    const bool runs = verdict.kernel == "v1" || verdict.kernel == "h1";
    EXPECT_EQ(verdict.required, runs) << verdict.kernel;
    EXPECT_EQ(verdict.gates.back().passed, runs) << verdict.kernel;
  }
  const KernelVerdict named = selftest("cuda:0", {"v4"}, false).value()[0];
  EXPECT_TRUE(named.required);
  EXPECT_EQ(named.gates, (std::vector<GateResult>{{"load", false, needs, {}, 0, false}}));
}

TEST_F(CudaHost, OtherFormatsAreServedByTheReference) {
  BackendQuery both = query("auto");
  both.a_format = both.b_format = "float8_e5m2";
  EXPECT_EQ(choose_backend(both).value().name, "reference");
  both.name = "cuda:v1";
  expect_mentions(choose_backend(both).error().message, "serves e4m3 x e4m3");
  both.a_format = "float8_e4m3fn";
  EXPECT_TRUE(choose_backend(both).ok());
}

TEST_F(CudaHost, TensorsOnTheCpuTouchNoDriver) {
  BackendQuery cpu = query("auto");
  cpu.device = "cpu";
  EXPECT_EQ(choose_backend(cpu).value().name, "reference");
  cpu.name = "cuda:v1";
  EXPECT_FALSE(choose_backend(cpu).ok());
  backends_status("cpu");
  EXPECT_EQ(gpu_.total_calls(), 0);
}

TEST_F(CudaHost, DisabledDriverIsNotTouched) {
  const ScopedVariable disabled("MMAEMU_DISABLE_CUDA", "1");
  expect_mentions(reason(), "MMAEMU_DISABLE_CUDA=1");
  EXPECT_TRUE(selftest("cuda:0", {}, true).value().empty());
  EXPECT_EQ(gpu_.total_calls(), 0);
}

TEST_F(CudaHost, DriverProblemsAreReasons) {
  {
    const ScopedVariable none("MMAEMU_LIBCUDA_PATH", "/no/libcuda.so");
    expect_mentions(reason(), "no CUDA driver");
  }
  {
    const ScopedVariable other("MMAEMU_LIBCUDA_PATH", MMAEMU_FAKE_NVRTC);
    expect_mentions(reason(), "libnvrtc-fake.so is no CUDA driver: it has no cuInit");
  }
  {
    const std::string name = cache_ / "libcuda.so";  // by another name a driver is begun anew
    std::filesystem::create_symlink(MMAEMU_FAKE_GPU, name);
    const ScopedVariable again("MMAEMU_LIBCUDA_PATH", name);
    gpu_.failures["cuInit"] = 999;
    expect_mentions(reason(), "cuInit fails with CUDA error 999");
    gpu_.failures.clear();
  }
  {
    // It serves the live query and has none of the functions that launch kernels.
    const ScopedVariable old("MMAEMU_LIBCUDA_PATH", MMAEMU_OLD_DRIVER);
    expect_mentions(reason(), "there is no CUDA device 0");
    testing::FakeDriver& state = *fake<testing::FakeDriver*()>("fake_libcuda", MMAEMU_OLD_DRIVER)();
    state.devices = {{"old", 24}};
    expect_mentions(reason(), "is too old: it has no cuDriverGetVersion");
    state.devices.clear();
  }
  gpu_.driver_version = 11040;
  expect_mentions(reason(), "too old: it supports CUDA 11.4");
  gpu_.driver_version = 12080;
  gpu_.devices.clear();
  expect_mentions(reason(), "there is no CUDA device 0");
}

TEST_F(CudaHost, BinaryThatIsNotTheManifestsIsNotLoaded) {
  fill(fatbins_ / "kernels.fatbin", contents(fatbins_ / "kernels.fatbin") + " ");
  expect_mentions(reason(), "its SHA-256 differs");
  EXPECT_TRUE(gpu_.images.empty());
}

TEST_F(CudaHost, BinaryOfOtherSourcesIsNotLoaded) {
  const std::string image = contents(fatbins_ / "kernels.fatbin");
  prepare(image, std::string(64, '0'), sha256(bytes_of(image)));
  expect_mentions(reason(), "other sources");
  EXPECT_TRUE(gpu_.images.empty());
}

TEST_F(CudaHost, BinaryWithoutAFunctionIsUnloaded) {
  std::string image = contents(fatbins_ / "kernels.fatbin");
  for (std::size_t at = 0; (at = image.find("mmaemu_add")) != std::string::npos;)
    image.replace(at, 10, "mmaemu_odd");
  prepare(image, cuda::source_hash(), sha256(bytes_of(image)));
  expect_mentions(reason(), "the prebuilt kernel: it has no function mmaemu_add: CUDA_ERROR_NOT_FOUND (500)");
  EXPECT_EQ(gpu_.calls["cuModuleUnload"], gpu_.calls["cuModuleLoadData"]);
}

TEST_F(CudaHost, BuiltBinariesAreOfTheseSources) {
  if (std::string(MMAEMU_BUILT_FATBINS).empty()) GTEST_SKIP() << "no nvcc on this machine";
  const ScopedVariable built("MMAEMU_FATBIN_DIR", MMAEMU_BUILT_FATBINS);
  for (const cuda::Kernel& kernel : cuda::kernels()) {
    const Result<cuda::Image> image = cuda::prebuilt_image(kernel);
    EXPECT_TRUE(image.ok()) << kernel.name << (image.ok() ? "" : ": " + image.error().message);
  }
}

TEST_F(CudaHost, DamagedManifestIsAReason) {
  for (const char* text : {"", "{", "[]", "{\"images\": 3}"}) {
    fill(fatbins_ / "manifest.json", text);
    const TemporaryFolder fresh;
    const ScopedVariable cache("MMAEMU_CACHE_DIR", fresh.path());
    EXPECT_FALSE(choose_backend(query("cuda:v1")).ok()) << text;
  }
  EXPECT_TRUE(gpu_.images.empty());
}

TEST_F(CudaHost, ArchitectureWithoutABinaryIsAReason) {
  gpu_.devices[0].major = 12;
  gpu_.devices[0].minor = 1;
  expect_mentions(reason(), "CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
  expect_mentions(reason(), "no NVRTC found");
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "reference");
  ASSERT_EQ(choice.warnings.size(), 1U);
  expect_mentions(choice.warnings[0].message, "CUDA_ERROR_NO_BINARY_FOR_GPU");
}

TEST_F(CudaHost, NvrtcServesWhereNoBinaryDoes) {
  if (std::string(MMAEMU_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  const ScopedVariable nvrtc("MMAEMU_NVRTC_PATH", MMAEMU_NVRTC);
  std::filesystem::remove(fatbins_ / "manifest.json");
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "cuda:v4");
  ASSERT_EQ(choice.warnings.size(), 1U);
  expect_mentions(choice.warnings[0].message,
                  "cuda:v4 runs as NVRTC compiled it: no manifest of prebuilt kernels");
  EXPECT_EQ(selftest("cuda:0", {"v4"}, false).value()[0].gates[0].reason, "nvrtc");
  const std::vector<std::string> kept = files_below(cache_ / "cubins");
  ASSERT_EQ(kept.size(), 1U);
  ASSERT_EQ(gpu_.images.size(), 1U);
  EXPECT_TRUE(gpu_.images[0].starts_with("\177ELF"));

  // A damaged entry is compiled anew. h4 is not loaded yet, and its binary is the same.
  const std::string whole = contents(kept[0]);
  fill(kept[0], whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(choose_backend(query("cuda:h4", "hopper")).ok());
  EXPECT_EQ(contents(kept[0]).size(), whole.size());
}

TEST_F(CudaHost, FailureOfNvrtcIsAReason) {
  const ScopedVariable nvrtc("MMAEMU_NVRTC_PATH", MMAEMU_FAKE_NVRTC);
  std::filesystem::remove(fatbins_ / "manifest.json");
  const auto fail = fake<void(const char*, int)>("fake_nvrtc_fail", MMAEMU_FAKE_NVRTC);
  const auto problem = [&](const char* function) {
    fail(function, 11);
    return selftest("cuda:0", {"v1"}, true).value()[0].gates.back().reason;
  };
  const std::string fails =
      "no NVRTC found (" + std::string(MMAEMU_FAKE_NVRTC) + " fails: NVRTC_ERROR_INTERNAL_ERROR)";
  for (const char* function : {"nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"})
    expect_mentions(problem(function), "/manifest.json; " + fails);
  for (const char* function : {"nvrtcCreateProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"})
    expect_mentions(problem(function), "cannot compile program.cu for sm_89: NVRTC_ERROR_INTERNAL_ERROR");
  EXPECT_TRUE(files_below(cache_.path()).empty());
  fail("nvrtcCompileProgram", 6);
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "reference");
  ASSERT_EQ(choice.warnings.size(), 1U);
  expect_mentions(
      choice.warnings[0].message,
      "NVRTC cannot compile program.cu for sm_89: NVRTC_ERROR_COMPILATION\nportable.cu(7): error");
  expect_mentions(problem("none"), "the driver does not load it: CUDA_ERROR_INVALID_IMAGE (200)");
}

TEST_F(CudaHost, NvrtcsKernelRunsInPlaceOfABadBinaryWithOneWarning) {
  if (std::string(MMAEMU_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  const ScopedVariable nvrtc("MMAEMU_NVRTC_PATH", MMAEMU_NVRTC);
  const std::string image = contents(fatbins_ / "kernels.fatbin");
  const std::string hash = sha256(bytes_of(image));
  const auto warning = [&] {
    const TemporaryFolder elsewhere;  // another folder: another runtime; the cache stays
    std::filesystem::copy(fatbins_.path(), elsewhere.path());
    const ScopedVariable fatbins("MMAEMU_FATBIN_DIR", elsewhere.path());
    const Result<BackendChoice> choice = choose_backend(query("cuda:v1"));
    if (!choice.ok()) return choice.error().message;
    EXPECT_EQ(choice.value().warnings.size(), 1U);
    return choice.value().warnings.empty() ? "" : choice.value().warnings[0].message;
  };
  const std::string runs = "cuda:v1 runs as NVRTC compiled it: ";
  prepare(image, std::string(64, '0'), hash);
  expect_mentions(warning(), runs + "the prebuilt kernels of ");
  prepare(image + " ", cuda::source_hash(), hash);
  expect_mentions(warning(), "its SHA-256 differs");
  prepare(image, cuda::source_hash(), hash);
  gpu_.refused_images["fake fatbin"] = 209;
  expect_mentions(warning(), runs + "the prebuilt kernel: the driver does not load it: CUDA_ERROR_NO_BINARY");
  EXPECT_EQ(files_below(cache_ / "cubins").size(), 1U);
  gpu_.refused_images["ELF"] = 222;
  const std::string both = warning();
  expect_mentions(both,
                  "the prebuilt kernel: the driver does not load it: CUDA_ERROR_NO_BINARY_FOR_GPU (209); ");
  expect_mentions(both,
                  "the kernel that NVRTC compiled: the driver does not load it: "
                  "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
}

TEST_F(CudaHost, StatusTellsOfTheBinaryThatNvrtcCompiled) {
  if (std::string(MMAEMU_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  const ScopedVariable nvrtc("MMAEMU_NVRTC_PATH", MMAEMU_NVRTC);
  const TemporaryFolder folder;
  const std::string file = folder / "file";
  fill(file, "");
  const ScopedVariable unwritable("MMAEMU_CACHE_DIR", file + "/cache");
  std::string manifest = contents(fatbins_ / "manifest.json");
  manifest.replace(manifest.find("\"v1\""), 4, "\"none\"");
  fill(fatbins_ / "manifest.json", manifest);
  ASSERT_TRUE(selftest("cuda:0", {"v1"}, false).ok());
  gpu_.failing_launch = "mmaemu_";  // the others' gates take their time
  const BackendStatus v1 = status_of("cuda:v1");
  EXPECT_EQ(v1, (BackendStatus{"cuda:v1", true, "nvrtc", false, {"load", "smoke"}, v1.reason}));
  expect_mentions(v1.reason, "names no binary of v1");
  const BackendStatus h1 = status_of("cuda:h1");
  EXPECT_EQ(h1, (BackendStatus{"cuda:h1", false, "fatbin", false, {"load"}, h1.reason}));
  expect_mentions(h1.reason, "its gates cannot run");
}

TEST_F(CudaHost, NvrtcCompilesEveryKernel) {
  if (std::string(MMAEMU_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  const ScopedVariable nvrtc("MMAEMU_NVRTC_PATH", MMAEMU_NVRTC);
  cuda::DeviceInfo device = cuda::describe_device(0).value();
  for (const char* name : {"tc3", "v4", "v1"}) {  // one of each file
    const cuda::Kernel& kernel = *cuda::find_kernel(name);
    const Result<cuda::Image> cubin = cuda::compiled_image(kernel, device);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    const std::string text(text_of(cubin.value().bytes));
    EXPECT_TRUE(text.starts_with("\177ELF"));
    for (const std::string& function : cuda::function_names(kernel)) expect_mentions(text, function);
  }
  // An architecture that no NVRTC knows gets PTX, but for kernels that lean on the hardware.
  device.major = 99;
  const Result<cuda::Image> ptx = cuda::compiled_image(*cuda::find_kernel("v1"), device);
  ASSERT_TRUE(ptx.ok()) << ptx.error().message;
  expect_mentions(std::string(text_of(ptx.value().bytes)), ".target sm_75");
  const Result<cuda::Image> none = cuda::compiled_image(*cuda::find_kernel("tc3"), device);
  ASSERT_FALSE(none.ok());
  expect_mentions(none.error().message, "99");
}

TEST_F(CudaHost, FailedGateMakesAKernelUnavailable) {
  gpu_.spoiled = "_e4m3e4m3";
  const BackendChoice choice = choose_backend(query("auto")).value();
  EXPECT_EQ(choice.name, "reference");
  ASSERT_EQ(choice.warnings.size(), 1U);
  expect_mentions(choice.warnings[0].message, "gate smoke failed");
  expect_mentions(reason(), "elements differ in random codes (e4m3 x e4m3)");
  const std::vector<KernelVerdict> verdicts = selftest("cuda:0", {"v1"}, false).value();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_TRUE(verdicts[0].required);
  EXPECT_FALSE(verdicts[0].gates.back().passed);
  gpu_.spoiled.clear();
  EXPECT_TRUE(selftest("cuda:0", {"v1"}, true).value()[0].gates.back().passed);
  EXPECT_TRUE(choose_backend(query("cuda:v1")).ok());
}

TEST_F(CudaHost, GatesThatCannotRunAreNoVerdict) {
  gpu_.failing_launch = "mmaemu_v1";
  expect_mentions(reason(), "CUDA_ERROR_LAUNCH_FAILED (719)");
  EXPECT_TRUE(files_below(cache_ / "verdicts").empty());
  gpu_.failing_launch.clear();
  EXPECT_TRUE(choose_backend(query("cuda:v1")).ok());
}

TEST_F(CudaHost, MemoryThatRanOutIsNoVerdict) {
  for (const char* function : {"cuModuleLoadData", "cuMemAlloc"}) {
    gpu_.failures = {{function, 2}};  // CUDA_ERROR_OUT_OF_MEMORY
    expect_mentions(reason(), "CUDA_ERROR_OUT_OF_MEMORY (2)");
  }
  gpu_.failures.clear();
  EXPECT_TRUE(choose_backend(query("cuda:v1")).ok());
}

TEST_F(CudaHost, DriverFailureIsAReasonAndNoVerdict) {
  const std::vector<std::pair<std::string, std::string>> failing{
      {"cuDeviceGetName", "CUDA device 0 does not describe itself"},
      {"cuCtxPushCurrent", "cannot enter the context of CUDA device 0"},
      {"cuStreamCreate", "cannot create a CUDA stream"},
      {"cuMemAlloc", "bytes of CUDA memory"},
      {"cuMemcpyHtoDAsync", "cannot copy to the CUDA device"},
      {"cuMemcpyDtoHAsync", "cannot copy from the CUDA device"},
      {"cuStreamSynchronize", "a CUDA kernel failed"}};
  for (const auto& [function, what] : failing) {
    gpu_.failures = {{function, 999}};
    expect_mentions(reason(), what + ": CUDA error 999");
  }
  EXPECT_TRUE(files_below(cache_ / "verdicts").empty());
  gpu_.failures = {{"cuDevicePrimaryCtxRetain", 999}};
  gpu_.devices.resize(8, gpu_.devices[0]);
  BackendQuery last = query("cuda:v1");
  last.device = "cuda:7";
  expect_mentions(choose_backend(last).error().message, "no context on CUDA device 7: CUDA error 999");
  gpu_.failures.clear();
  EXPECT_TRUE(choose_backend(query("cuda:v1")).ok());
  EXPECT_TRUE(choose_backend(last).ok());
}

TEST_F(CudaHost, VerdictsAreOfADeviceADriverAndABinary) {
  gpu_.execute = false;  // a verdict that says no is one as well
  gpu_.devices.push_back(gpu_.devices[0]);
  gpu_.devices[1].serial = 2;
  const auto cached = [](const std::string& device = "cuda:0") {
    return selftest(device, {"v1"}, false).value()[0].gates.back().cached;
  };
  EXPECT_FALSE(cached());
  EXPECT_TRUE(cached());
  EXPECT_EQ(gpu_.images.size(), 1U);

  gpu_.current = 1;
  EXPECT_FALSE(cached("cuda"));  // the current device's
  EXPECT_EQ(gpu_.launches.back().device, 1);
  EXPECT_EQ(gpu_.images.size(), 2U);
  EXPECT_TRUE(cached("cuda:1"));
  gpu_.current = -1;
  EXPECT_TRUE(cached("cuda"));

  const TemporaryFolder copy;  // another folder: another runtime
  std::filesystem::copy(fatbins_.path(), copy.path());
  {
    const ScopedVariable fatbins("MMAEMU_FATBIN_DIR", copy / ".");
    EXPECT_TRUE(cached());
  }
  {
    const ScopedVariable fatbins("MMAEMU_FATBIN_DIR", copy.path());
    gpu_.driver_version = 12090;
    EXPECT_FALSE(cached());
  }
  const std::string image = contents(fatbins_ / "kernels.fatbin") + " ";
  prepare(image, cuda::source_hash(), sha256(bytes_of(image)));
  const ScopedVariable fatbins("MMAEMU_FATBIN_DIR", fatbins_ / ".");
  gpu_.driver_version = 12080;
  EXPECT_FALSE(cached());
  EXPECT_EQ(files_below(cache_ / "verdicts").size(), 4U);
}

TEST_F(CudaHost, DriversBuildIsTheFileOfItsLibrary) {
  const std::string link = cache_ / "libcuda.so.1";
  std::filesystem::create_symlink(MMAEMU_FAKE_GPU, link);
  const ScopedVariable driver("MMAEMU_LIBCUDA_PATH", link);
  EXPECT_EQ(cuda_driver().build, std::filesystem::canonical(MMAEMU_FAKE_GPU).string() + " of " +
                                     std::to_string(std::filesystem::file_size(MMAEMU_FAKE_GPU)) + " bytes");
}

TEST_F(CudaHost, SelftestNamesItsKernels) {
  const Result<std::vector<KernelVerdict>> unknown = selftest("cuda:0", {"v2"}, false);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::value_error);
  expect_mentions(unknown.error().message, "tc3, v9, v4, v1, h4, h1");
  gpu_.execute = false;  // what they compute is not asked
  EXPECT_EQ(selftest("cuda", {}, false).value().size(), 6U);
}

TEST_F(CudaHost, ContextOfAnotherDeviceIsLeftAsItWas) {
  gpu_.devices.push_back(gpu_.devices[0]);
  gpu_.current = 1;
  EXPECT_TRUE(choose_backend(query("cuda:v1")).ok());
  ASSERT_FALSE(gpu_.launches.empty());
  for (const testing::FakeLaunch& launch : gpu_.launches) EXPECT_EQ(launch.device, 0);
  EXPECT_TRUE(gpu_.pushed.empty());
}

// A product in the caller's memory and stream.
struct Call {
  cuda::SmokeProduct p;
  std::vector<std::uint8_t> out, wanted, workspace;
  std::vector<std::uint8_t> a, b;  // 16-byte aligned by the allocator
  CudaQueue queue;

  explicit Call(cuda::SmokeProduct product) : p(std::move(product)), a(p.a), b(p.b) {
    out.assign(static_cast<std::size_t>(p.M * p.N * format(p.out).bytes()), 0xEE);
    wanted = out;
  }
  OperandView view_a() const { return {a.data(), p.formats.a, p.M, p.K, p.K, 1}; }
  OperandView view_b() const { return {b.data(), p.formats.b, p.N, p.K, p.K, 1}; }
  ResultView view() { return {out.data(), p.out, p.M, p.N, p.N, 1}; }
  Status run(const std::string& backend) {
    const Result<std::size_t> bytes = cuda_workspace_bytes(backend, view_a(), view_b(), p.how, view());
    if (!bytes.ok()) return bytes.error();
    workspace.resize(bytes.value());
    queue = {0, reinterpret_cast<void*>(0x57), workspace.data(), workspace.size()};
    const float* result = p.epilogue.scale_result ? &*p.epilogue.scale_result : nullptr;
    return cuda_scaled_mm(backend, view_a(), view_b(), p.how,
                          {&p.epilogue.scale_a, &p.epilogue.scale_b, result}, view(), queue);
  }
  void expect_the_models_bits() {
    ASSERT_TRUE(scaled_mm(view_a(), view_b(), p.how, p.epilogue, {wanted.data(), p.out, p.M, p.N, p.N, 1},
                          {.target = "model"})
                    .ok());
    EXPECT_EQ(out, wanted) << p.name;
  }
};

TEST_F(CudaHost, ProductsAreTheModelsBitForBitInTheCallersStream) {
  for (const char* name : {"tc3", "v9", "v4", "v1", "h4", "h1"}) {
    const cuda::Kernel& kernel = *cuda::find_kernel(name);
    ASSERT_TRUE(choose_backend(query(kernel.backend(), std::string(kernel.preset))).ok());
    gpu_.tiles = true;
    gpu_.calls.clear();
    gpu_.launches.clear();
    for (cuda::SmokeProduct& product : cuda::smoke_products(kernel)) {
      Call call(std::move(product));
      const Status status = call.run(kernel.backend());
      ASSERT_TRUE(status.ok()) << status.error().message;
      call.expect_the_models_bits();
    }
    for (const testing::FakeLaunch& launch : gpu_.launches)
      EXPECT_EQ(launch.stream, reinterpret_cast<void*>(0x57));
    for (const char* waits : {"cuStreamSynchronize", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemAlloc"})
      EXPECT_EQ(gpu_.calls.count(waits), 0U) << waits;
    gpu_.tiles = false;
  }
}

Call small_call() {
  return Call(std::move(cuda::smoke_products(*cuda::find_kernel("v1"))[2]));
}

TEST_F(CudaHost, FailedLaunchIsAnErrorAndNothingIsWritten) {
  ASSERT_TRUE(choose_backend(query("cuda:v1")).ok());
  for (const char* function : {"mmaemu_flag", "mmaemu_v1", "mmaemu_finish"}) {
    gpu_.failing_launch = function;
    Call call = small_call();
    const Status status = call.run("cuda:v1");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::mmaemu_error);
    expect_mentions(status.error().message, "CUDA_ERROR_LAUNCH_FAILED (719)");
    EXPECT_EQ(call.out, call.wanted);
  }
}

TEST_F(CudaHost, KernelThatIsUnavailableComputesNothing) {
  gpu_.devices[0].major = 7;
  gpu_.devices[0].minor = 5;
  Call call = small_call();
  const auto refused = [&](const std::string& backend, const std::string& part) {
    const Status status = call.run(backend);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::backend_unavailable);
    expect_mentions(status.error().message, part);
    EXPECT_EQ(call.out, call.wanted);
  };
  refused("cuda:h1", "does not serve preset ada");
  refused("cuda:v4", "needs compute capability 8.0");
  gpu_.failing_launch = "mmaemu_v1";
  refused("cuda:v1", "its gates cannot run");
  const ScopedVariable disabled("MMAEMU_DISABLE_CUDA", "1");
  refused("cuda:v1", "MMAEMU_DISABLE_CUDA=1");
}

TEST_F(CudaHost, MemoryThatAProductNeedsIsChecked) {
  Call call = small_call();
  ASSERT_TRUE(call.run("cuda:v1").ok());
  const float scale = 1;
  const auto refused = [&](const CudaScales& scales, const CudaQueue& queue) {
    const Status status =
        cuda_scaled_mm("cuda:v1", call.view_a(), call.view_b(), call.p.how, scales, call.view(), queue);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::value_error);
  };
  refused({&scale, nullptr, nullptr}, call.queue);
  CudaQueue queue = call.queue;
  --queue.workspace_bytes;
  refused({&scale, &scale, nullptr}, queue);
  queue = call.queue;
  queue.workspace = nullptr;
  refused({&scale, &scale, nullptr}, queue);
}

TEST_F(CudaHost, ChainsThatAreTooLongAreValueErrors) {
  alignas(16) static const std::uint8_t some[16]{};
  float out = 0;
  const ResultView result{&out, FormatId::float32, 1, 1, 1, 1};
  for (const auto& [name, bits] :
       {std::pair{"v1", 30}, {"h1", 30}, {"v4", 24}, {"h4", 24}, {"v9", 24}, {"tc3", 24}}) {
    const Preset preset = find_preset(cuda::find_kernel(name)->preset).value();
    const SplitK two{2, preset.name == "ada" ? SplitScheme::serial : SplitScheme::contiguous};
    const std::string backend = "cuda:" + std::string(name);
    const std::int64_t limit = std::int64_t{1} << bits;
    const auto bytes = [&](std::int64_t K, bool fast, SplitK split) {
      const OperandView view{some, FormatId::e4m3, 1, K, K, 1};
      return cuda_workspace_bytes(backend, view, view, {preset, fast, split}, result);
    };
    EXPECT_TRUE(bytes(limit - 16, true, {}).ok()) << name;
    EXPECT_TRUE(bytes(limit, false, {}).ok()) << name;
    EXPECT_TRUE(bytes(limit, true, two).ok()) << name;
    const Result<std::size_t> refused = bytes(limit, true, {});
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::value_error);
    EXPECT_EQ(refused.error().message.find("K: "), 0U) << refused.error().message;
    expect_mentions(refused.error().message,
                    "\"" + backend + "\", which takes fewer than " + std::to_string(limit));
  }
}

TEST_F(CudaHost, WorkspaceIsBounded) {
  alignas(16) static const std::uint8_t some[16]{};
  const OperandView view{some, FormatId::e4m3, 1 << 20, 4096, 4096, 1};
  float out = 0;
  const ResultView result{&out, FormatId::float32, 1 << 20, 1 << 20, 1 << 20, 1};
  for (const bool fast : {true, false}) {
    const Accumulation how{find_preset("ada").value(), fast, {4, SplitScheme::pairwise}};
    const std::size_t bytes = cuda_workspace_bytes("cuda:v1", view, view, how, result).value();
    EXPECT_GT(bytes, 0U);
    EXPECT_LE(bytes, kMostCudaWorkspace);
  }
}

TEST_F(CudaHost, RowsBeyondAGridAreLaunchedInChunks) {
  ASSERT_TRUE(choose_backend(query("cuda:v1")).ok());
  cuda::SmokeProduct p = cuda::smoke_products(*cuda::find_kernel("v1"))[2];
  p.M = 65535 * 16 + 3;
  p.N = 1;
  p.K = 16;
  p.how.fast = true;
  const std::vector<std::uint8_t> pattern = p.a;
  p.a.resize(static_cast<std::size_t>(p.M * p.K));
  for (std::size_t i = 0; i < p.a.size(); ++i) p.a[i] = pattern[i % pattern.size()];
  p.b.resize(static_cast<std::size_t>(p.N * p.K));
  gpu_.launches.clear();
  Call call(std::move(p));
  ASSERT_TRUE(call.run("cuda:v1").ok());
  EXPECT_GE(std::ranges::count(gpu_.launches, "mmaemu_v1_e4m3e4m3", &testing::FakeLaunch::function), 2);
  ASSERT_TRUE(scaled_mm(call.view_a(), call.view_b(), call.p.how, call.p.epilogue,
                        {call.wanted.data(), call.p.out, call.p.M, call.p.N, call.p.N, 1})
                  .ok());
  EXPECT_TRUE(call.out == call.wanted);
}

TEST_F(CudaHost, ViewsThatTheKernelsDoNotTakeAreValueErrors) {
  Call call = small_call();
  OperandView odd = call.view_a();
  const auto refused = [&](const OperandView& a, const OperandView& b, const ResultView& out) {
    const Result<std::size_t> bytes = cuda_workspace_bytes("cuda:v1", a, b, call.p.how, out);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().kind, ErrorKind::value_error);
  };
  odd.row_stride += 16;
  refused(odd, call.view_b(), call.view());
  odd = call.view_a();
  odd.data = call.a.data() + 1;
  refused(odd, call.view_b(), call.view());
  odd = call.view_a();
  odd.depth = odd.row_stride = 24;
  refused(odd, odd, call.view());
  ResultView out = call.view();
  out.column_stride = 2;
  refused(call.view_a(), call.view_b(), out);
  odd = call.view_a();
  odd.rows = std::int64_t{1} << 31;
  out = call.view();
  out.rows = odd.rows;
  refused(odd, call.view_b(), out);
  out = call.view();
  --out.rows;
  refused(call.view_a(), call.view_b(), out);
  out = call.view();
  out.format = FormatId::bfloat16;
  const Status status = cuda_accumulate("cuda:v1", call.view_a(), call.view_b(), call.p.how, out, call.queue);
  ASSERT_FALSE(status.ok());
  expect_mentions(status.error().message, "an accumulator is float32, not bfloat16");
  ASSERT_FALSE(cuda_workspace_bytes("cuda", call.view_a(), call.view_b(), call.p.how, call.view()).ok());
}

}  // namespace
}  // namespace mmaemu
