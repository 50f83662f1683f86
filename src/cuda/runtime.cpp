// The order of binaries: the prebuilt one, then NVRTC's. Verdicts are those of the binary that was loaded.
#include "cuda/runtime.h"

#include <chrono>
#include <tuple>
#include <utility>

#include "cuda/gates.h"
#include "cuda/images.h"
#include "cuda/launcher.h"
#include "cuda/verdicts.h"
#include "platform/environment.h"

namespace mmaemu::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Everything that decides what a runtime finds: a change of a variable takes effect at once.
using RuntimeKey = std::tuple<const Driver*, CudaContext, std::string, std::string, std::string>;

// Loads an image and finds the functions that a kernel needs; empty, or why that fails.
std::string load(const Driver& driver, const Kernel& kernel, const Image& image, KernelState& state) {
  CudaModule module = nullptr;
  DriverStatus status = driver.module_load(&module, image.bytes.data());
  if (status != kDriverSuccess) {
    const Error error = driver_error(driver, "the driver does not load it", status);
    if (error.kind == ErrorKind::out_of_memory) state.decided = false;
    return error.message;
  }
  std::map<std::string, CudaFunction, std::less<>> functions;
  for (const std::string& name : function_names(kernel)) {
    status = driver.module_get_function(&functions[name], module, name.c_str());
    if (status != kDriverSuccess) {
      driver.module_unload(module);
      return "it has no function " + name + ": " + driver.describe(status);
    }
  }
  state.functions = std::move(functions);
  return {};
}

}  // namespace

CudaFunction KernelState::function(std::string_view name) const {
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

Result<std::shared_ptr<DeviceRuntime>> DeviceRuntime::get(std::optional<int> ordinal) {
  static std::mutex mutex;
  static std::map<RuntimeKey, std::shared_ptr<DeviceRuntime>> runtimes;
  const Driver& driver = cuda_driver();
  Result<DeviceInfo> info = describe_device(ordinal);
  if (!info.ok()) return info.error();
  const ContextScope scope(driver, info.value().device);
  if (!scope.status().ok()) return scope.status().error();
  RuntimeKey key(&driver, scope.context(), environment_text("MMAEMU_FATBIN_DIR"),
                 environment_text("MMAEMU_NVRTC_PATH"), cache_folder());
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceRuntime>& runtime = runtimes[std::move(key)];
  if (runtime == nullptr)
    runtime = std::shared_ptr<DeviceRuntime>(new DeviceRuntime(driver, std::move(info).value()));
  return runtime;
}

std::shared_ptr<const KernelState> DeviceRuntime::state(const Kernel& kernel, bool again) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const KernelState>& known = states_[kernel.name];
  if (known != nullptr && known->decided && !again) return known;
  const ContextScope scope(driver_, info_.device);
  if (!scope.status().ok()) {
    KernelState lost;
    lost.reason = scope.status().error().message;
    return std::make_shared<const KernelState>(std::move(lost));
  }
  KernelState state;
  if (known != nullptr && !known->source.empty()) {
    state = *known;
    state.decided = true;
    state.gates.resize(1);  // that it loads is known
  } else {
    load_kernel(kernel, state);
  }
  if (!state.source.empty()) gate(kernel, state, again);
  const auto fresh = std::make_shared<const KernelState>(state);
  for (GateResult& result : state.gates) result.cached = true;  // for whoever asks next
  known = std::make_shared<const KernelState>(std::move(state));
  return fresh;
}

void DeviceRuntime::load_kernel(const Kernel& kernel, KernelState& state) {
  const Clock::time_point begin = Clock::now();
  std::string problems;
  for (const char* source : {"fatbin", "nvrtc"}) {
    const bool prebuilt = std::string_view(source) == "fatbin";
    const Result<Image> image = prebuilt ? prebuilt_image(kernel) : compiled_image(kernel, info_);
    std::string problem = image.ok() ? load(driver_, kernel, image.value(), state) : image.error().message;
    if (problem.empty()) {
      state.source = source;
      state.decided = true;
      state.detour = std::move(problems);
      binaries_[kernel.name] = image.value().sha256;
      break;
    }
    if (image.ok())
      problem = (prebuilt ? "the prebuilt kernel: " : "the kernel that NVRTC compiled: ") + problem;
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  const bool loaded = !state.source.empty();
  if (!loaded) state.reason = problems;
  state.gates = {{"load", loaded, loaded ? state.source : problems, {}, seconds_since(begin), false}};
}

void DeviceRuntime::gate(const Kernel& kernel, KernelState& state, bool again) {
  const VerdictKey key{std::string(kernel.name), info_.uuid, info_.capability(), info_.driver, driver_.build,
                       binaries_[kernel.name]};
  std::optional<std::vector<GateResult>> verdict;
  if (!again) verdict = find_verdict(key);
  if (!verdict) {
    Result<std::vector<GateResult>> run = run_gates(*this, kernel, state);
    if (!run.ok()) {
      state.available = false;
      state.decided = false;
      state.reason = "its gates cannot run: " + run.error().message;
      state.gates.push_back({"smoke", false, state.reason, {}, 0, false});
      return;
    }
    verdict = std::move(run).value();
    keep_verdict(key, *verdict);
  }
  state.available = true;
  state.reason.clear();
  for (GateResult& result : *verdict) {
    if (!result.passed) {
      state.reason = "gate " + result.name + " failed on " + info_.name + ": " + result.reason;
      state.available = false;
    }
    state.gates.push_back(std::move(result));
    if (!state.available) break;
  }
}

}  // namespace mmaemu::cuda
