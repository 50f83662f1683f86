// By falling priority: a CUDA kernel of the call's preset that serves its formats on its device, else the
// reference.
#include "call/backend.h"

#include <charconv>
#include <string_view>

#include "mmaemu/call.h"
#include "mmaemu/gemm.h"

#include "cuda/registry.h"
#include "cuda/runtime.h"
#include "platform/environment.h"

namespace mmaemu {
namespace {

using cuda::DeviceRuntime;
using cuda::Kernel;
using cuda::KernelState;

constexpr std::string_view kReference = "reference";
constexpr std::string_view kAuto = "auto";
constexpr std::string_view kAnyCuda = "cuda";  // the CUDA kernel of highest priority that serves

bool known(std::string_view name) {
  return name == kAuto || name == kReference || name == kAnyCuda ||
         (name.starts_with("cuda:") && cuda::find_kernel(name) != nullptr);
}

Error unknown_backend(const std::string& where, const std::string& name) {
  std::string names = std::string(kAuto) + ", " + std::string(kReference) + ", " + std::string(kAnyCuda);
  for (const Kernel& kernel : cuda::kernels()) names += ", " + kernel.backend();
  return {ErrorKind::value_error, where + "\"" + name + "\" is not a backend; the backends are " + names};
}

Error unavailable(const std::string& name, const std::string& reason) {
  return {ErrorKind::backend_unavailable,
          "backend \"" + name + "\" is unavailable: " + reason + "; backend=\"reference\" serves every call"};
}

bool on_cuda(const std::string& device) {
  return device.starts_with("cuda");
}

// None for "cuda".
std::optional<int> ordinal_of(const std::string& device) {
  const std::size_t colon = device.find(':');
  if (colon == std::string::npos) return std::nullopt;
  int ordinal = 0;
  std::from_chars(device.data() + colon + 1, device.data() + device.size(), ordinal);
  return ordinal;
}

// Why a kernel cannot serve a call, by what is known without loading it; empty where it can.
std::string unserved(const Kernel& kernel, const BackendQuery& query, const DeviceRuntime& device) {
  if (!kernel.has_arithmetic_of(query.preset))
    return "serves preset " + std::string(kernel.preset) + ", not " + query.preset.name;
  const std::optional<FormatId> a = find_format(query.a_format);
  const std::optional<FormatId> b = find_format(query.b_format);
  if (a && b && !kernel.serves(*a, *b)) {
    std::string pairs;
    for (const cuda::FormatPair& pair : kernel.pairs) {
      if (!pairs.empty()) pairs += ", ";
      pairs += std::string(format(pair.a).name) + " x " + std::string(format(pair.b).name);
    }
    return "serves " + pairs + ", not " + std::string(format(*a).name) + " x " + std::string(format(*b).name);
  }
  return unsupported_on(kernel, device.info());
}

void warn(BackendChoice& choice, const std::string& message) {
  choice.warnings.push_back({WarningKind::backend_fallback, message, "fallback|" + message});
}

// Says why no prebuilt binary serves, where that is so.
void warn_of_detour(BackendChoice& choice, const KernelState& state) {
  if (!state.detour.empty()) warn(choice, choice.name + " runs as NVRTC compiled it: " + state.detour);
}

// Chooses among the CUDA kernels for "auto" and "cuda".
class Search {
 public:
  Search(const BackendQuery& query, DeviceRuntime& device, bool allow_gated)
      : query_(query), device_(device), allow_gated_(allow_gated) {}

  BackendChoice run() {
    BackendChoice choice;
    std::string problem;  // of a faster kernel than the one that runs: the user is told
    bool any = false;
    for (const Kernel& kernel : cuda::kernels()) {
      if (!kernel.has_arithmetic_of(query_.preset)) continue;
      any = true;
      std::string reason = unserved(kernel, query_, device_);
      if (reason.empty() && kernel.gated() && !allow_gated_ &&
          !kernel.validated_on(device_.info().architecture()))
        reason = "not validated on compute capability " + device_.info().capability() +
                 "; MMAEMU_ALLOW_GATED_KERNELS=1 lets its gates decide";
      if (reason.empty()) {
        const std::shared_ptr<const KernelState> state = device_.state(kernel);
        if (state->available) {
          choice.name = kernel.backend();
          if (!problem.empty())
            warn(choice, problem + "; " + choice.name + " runs instead");
          else
            warn_of_detour(choice, *state);
          return choice;
        }
        reason = state->reason;
        if (problem.empty()) problem = kernel.backend() + " is unavailable: " + reason;
      }
      choice.fallbacks.push_back(kernel.backend() + ": " + reason);
    }
    if (!any)
      choice.fallbacks.push_back("cuda: no kernel has the arithmetic of preset " + query_.preset.name);
    return choice;
  }

 private:
  const BackendQuery& query_;
  DeviceRuntime& device_;
  bool allow_gated_;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

BackendChoice reference_instead(const std::string& device, std::vector<std::string> fallbacks) {
  BackendChoice choice{std::string(kReference), std::move(fallbacks), {}};
  if (on_cuda(device)) {
    const std::string reason = joined(choice.fallbacks);
    choice.warnings.push_back(
        {WarningKind::backend_fallback,
         "tensors on " + device + " are computed by the reference on the CPU: " + reason,
         "fallback|" + reason});
  }
  return choice;
}

// A kernel that was asked for by name, or why it cannot serve a call.
Result<BackendChoice> named(const Kernel& kernel, const BackendQuery& query, DeviceRuntime& device) {
  BackendChoice choice{kernel.backend(), {}, {}};
  if (const std::string reason = unserved(kernel, query, device); !reason.empty())
    return unavailable(choice.name, reason);
  const std::shared_ptr<const KernelState> state = device.state(kernel);
  if (!state->available) return unavailable(choice.name, state->reason);
  warn_of_detour(choice, *state);
  return choice;
}

}  // namespace

std::string unsupported_on(const Kernel& kernel, const cuda::DeviceInfo& device) {
  if (device.architecture() >= kernel.least_architecture) return {};
  return "needs compute capability " + std::to_string(kernel.least_architecture / 10) + "." +
         std::to_string(kernel.least_architecture % 10) + ", and " + device.name + " has " +
         device.capability();
}

Result<CudaRuntime> cuda_runtime(const std::string& device) {
  if (!on_cuda(device)) return CudaRuntime{nullptr, "tensors on " + device};
  const Result<bool> disabled = environment_flag("MMAEMU_DISABLE_CUDA");
  if (!disabled.ok()) return disabled.error();
  if (disabled.value()) return CudaRuntime{nullptr, "MMAEMU_DISABLE_CUDA=1"};
  Result<std::shared_ptr<DeviceRuntime>> runtime = DeviceRuntime::get(ordinal_of(device));
  if (runtime.ok()) return CudaRuntime{std::move(runtime).value(), ""};
  if (runtime.error().kind == ErrorKind::out_of_memory) return runtime.error();
  return CudaRuntime{nullptr, runtime.error().message};
}

Result<BackendChoice> choose_backend(const BackendQuery& query) {
  if (!known(query.name)) return unknown_backend("backend=", query.name);
  std::string wanted = query.name;
  if (wanted == kAuto) {
    const std::string from_environment = environment_text("MMAEMU_BACKEND");
    if (!from_environment.empty()) {
      if (!known(from_environment)) return unknown_backend("MMAEMU_BACKEND=", from_environment);
      wanted = from_environment;
    }
  }
  if (wanted == kReference) return BackendChoice{wanted, {}, {}};
  const Result<CudaRuntime> runtime = cuda_runtime(query.device);
  if (!runtime.ok()) return runtime.error();
  if (runtime.value().device == nullptr) {
    if (wanted != kAuto) return unavailable(wanted, runtime.value().reason);
    return reference_instead(query.device, {"cuda: " + runtime.value().reason});
  }
  DeviceRuntime& device = *runtime.value().device;
  if (wanted != kAuto && wanted != kAnyCuda) return named(*cuda::find_kernel(wanted), query, device);
  const Result<bool> allow_gated = environment_flag("MMAEMU_ALLOW_GATED_KERNELS");
  if (!allow_gated.ok()) return allow_gated.error();
  BackendChoice choice = Search(query, device, allow_gated.value()).run();
  if (!choice.name.empty()) return choice;
  if (wanted == kAnyCuda) return unavailable(wanted, joined(choice.fallbacks));
  return reference_instead(query.device, std::move(choice.fallbacks));
}

std::vector<BackendStatus> backends_status(const std::string& device) {
  const Result<std::string_view> target = cpu_target();
  std::vector<BackendStatus> all{
      {.name = std::string(kReference),
       .available = target.ok(),
       .source = "native",
       .validated_here = target.ok(),
       .gates = {},
       .reason = target.ok() ? "CPU target " + std::string(target.value()) : target.error().message}};
  const Result<CudaRuntime> runtime = cuda_runtime(device);
  for (const Kernel& kernel : cuda::kernels()) {
    BackendStatus status{.name = kernel.backend(),
                         .available = false,
                         .source = "",
                         .validated_here = false,
                         .gates = {},
                         .reason = runtime.ok() ? runtime.value().reason : runtime.error().message};
    if (runtime.ok() && runtime.value().device != nullptr) {
      DeviceRuntime& found = *runtime.value().device;
      const BackendQuery own{status.name, device, find_preset(kernel.preset).value(), "", ""};
      status.validated_here = kernel.validated_on(found.info().architecture());
      status.reason = unserved(kernel, own, found);
      if (status.reason.empty()) {
        const std::shared_ptr<const KernelState> state = found.state(kernel);
        status.available = state->available;
        status.source = state->source;
        status.reason = state->available ? state->detour : state->reason;
        for (const GateResult& gate : state->gates)
          if (gate.passed) status.gates.push_back(gate.name);
      }
    }
    all.push_back(std::move(status));
  }
  return all;
}

}  // namespace mmaemu
