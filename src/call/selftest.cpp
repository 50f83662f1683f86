// The gates of the kernels on request: which kernels, and which failures count.
#include <algorithm>
#include <memory>

#include "mmaemu/cuda.h"

#include "base/memory.h"
#include "call/backend.h"
#include "cuda/registry.h"
#include "cuda/runtime.h"

namespace mmaemu {

Result<std::vector<KernelVerdict>> selftest(const std::string& device, const std::vector<std::string>& names,
                                            bool force) try {
  for (const std::string& name : names) {
    const auto same = [&](const cuda::Kernel& kernel) { return kernel.name == name; };
    if (std::ranges::any_of(cuda::kernels(), same)) continue;
    std::string known;
    for (const cuda::Kernel& kernel : cuda::kernels())
      known += (known.empty() ? "" : ", ") + std::string(kernel.name);
    return Error{ErrorKind::value_error,
                 "selftest(): \"" + name + "\" is not a kernel; the kernels are " + known};
  }
  const Result<CudaRuntime> runtime = cuda_runtime(device);
  if (!runtime.ok()) return runtime.error();
  std::vector<KernelVerdict> verdicts;
  if (runtime.value().device == nullptr) return verdicts;
  cuda::DeviceRuntime& found = *runtime.value().device;
  const int architecture = found.info().architecture();
  for (const cuda::Kernel& kernel : cuda::kernels()) {
    const bool named = std::ranges::find(names, kernel.name) != names.end();
    if (!names.empty() && !named) continue;
    KernelVerdict verdict{std::string(kernel.name),
                          named || (architecture >= kernel.least_architecture &&
                                    (!kernel.gated() || kernel.validated_on(architecture))),
                          {}};
    if (std::string reason = unsupported_on(kernel, found.info()); !reason.empty())
      verdict.gates.push_back({"load", false, std::move(reason), {}, 0, false});
    else
      verdict.gates = found.state(kernel, force)->gates;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
} catch (...) {
  return out_of_memory();
}

}  // namespace mmaemu
