// The backends that a call can name, and which of them serves it. What a CUDA kernel is and whether it passed
// its gates is src/cuda's matter; the rules of choosing are here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mmaemu/platform.h"
#include "mmaemu/status.h"

#include "cuda/registry.h"
#include "cuda/runtime.h"

namespace mmaemu {

// What the choice of a backend depends on.
struct BackendQuery {
  std::string name;    // as the caller gave it; "auto" is $MMAEMU_BACKEND where that is set
  std::string device;  // "cpu", "cuda:0"
  Preset preset;
  std::string a_format;  // "e4m3", in PTX's or torch's spelling
  std::string b_format;
};

struct BackendChoice {
  std::string name;
  std::vector<std::string> fallbacks;  // why each backend tried before it does not serve the call
  std::vector<Warning> warnings;
};

// BackendUnavailableError where an explicitly named one cannot serve; ValueError for an unknown name, with
// the known ones. For tensors on a CUDA device this loads kernels and runs their gates, once.
Result<BackendChoice> choose_backend(const BackendQuery& query);

// The kernels' runtime on a device ("cuda" is the current one, else the first), or why there is none.
struct CudaRuntime {
  std::shared_ptr<cuda::DeviceRuntime> device;
  std::string reason;
};

// ValueError for a bad environment.
Result<CudaRuntime> cuda_runtime(const std::string& device);

// Why a kernel cannot exist on a device: this version lacks it, or the device lacks its instructions; else
// empty.
std::string unsupported_on(const cuda::Kernel& kernel, const cuda::DeviceInfo& device);

}  // namespace mmaemu
