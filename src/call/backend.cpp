// The table of backends. The library has no CUDA kernel: those rows say what a caller may name.
#include "call/backend.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "mmaemu/call.h"
#include "mmaemu/gemm.h"

#include "platform/environment.h"

namespace mmaemu {
namespace {

constexpr std::string_view kReference = "reference";
constexpr std::string_view kAuto = "auto";

// By falling priority within a preset; "cuda" is any of them.
constexpr std::array<std::string_view, 7> kCudaNames{"cuda",    "cuda:tc3", "cuda:v9", "cuda:v4",
                                                     "cuda:v1", "cuda:h4",  "cuda:h1"};

bool known(std::string_view name) {
  return name == kAuto || name == kReference || std::ranges::find(kCudaNames, name) != kCudaNames.end();
}

Error unknown_backend(const std::string& where, const std::string& name) {
  std::string names = std::string(kAuto) + ", " + std::string(kReference);
  for (const std::string_view n : kCudaNames) names += ", " + std::string(n);
  return {ErrorKind::value_error, where + "\"" + name + "\" is not a backend; the backends are " + names};
}

bool on_cuda(const std::string& device) {
  return device.starts_with("cuda");
}

// Why no CUDA kernel serves a device; ValueError for a bad environment.
Result<std::string> no_cuda_reason(const std::string& device) {
  if (!on_cuda(device)) return "tensors on " + device;
  const Result<bool> disabled = environment_flag("MMAEMU_DISABLE_CUDA");
  if (!disabled.ok()) return disabled.error();
  return std::string(disabled.value() ? "MMAEMU_DISABLE_CUDA=1" : "this build has no CUDA kernels");
}

}  // namespace

Result<BackendChoice> choose_backend(const std::string& name, const std::string& device) {
  if (!known(name)) return unknown_backend("backend=", name);
  std::string wanted = name;
  if (wanted == kAuto) {
    const std::string from_environment = environment_text("MMAEMU_BACKEND");
    if (!from_environment.empty()) {
      if (!known(from_environment)) return unknown_backend("MMAEMU_BACKEND=", from_environment);
      wanted = from_environment;
    }
  }
  if (wanted == kReference) return BackendChoice{wanted, {}, {}};
  const Result<std::string> reason = no_cuda_reason(device);
  if (!reason.ok()) return reason.error();
  if (wanted != kAuto)
    return Error{ErrorKind::backend_unavailable, "backend \"" + wanted +
                                                     "\" is unavailable: " + reason.value() +
                                                     "; backend=\"reference\" serves every call"};
  BackendChoice choice{std::string(kReference), {"cuda: " + reason.value()}, {}};
  if (on_cuda(device)) {
    choice.warnings.push_back(
        {WarningKind::backend_fallback,
         "tensors on " + device + " are computed by the reference on the CPU: " + reason.value(),
         "fallback|" + reason.value()});
  }
  return choice;
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
  const Result<std::string> reason = no_cuda_reason(device);
  for (const std::string_view name : kCudaNames) {
    if (name == "cuda") continue;
    all.push_back({.name = std::string(name),
                   .available = false,
                   .source = "",
                   .validated_here = false,
                   .gates = {},
                   .reason = reason.ok() ? reason.value() : reason.error().message});
  }
  return all;
}

}  // namespace mmaemu
