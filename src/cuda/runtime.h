// The kernels on one device: which binary serves, whether it passed its gates, and its functions. Loading and
// gating happen when a kernel is first asked for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mmaemu/cuda.h"
#include "mmaemu/status.h"

#include "cuda/device.h"
#include "cuda/registry.h"

namespace mmaemu::cuda {

// Where a kernel stands on a device.
struct KernelState {
  bool available = false;  // loaded, and every gate passed
  std::string source;      // "fatbin" or "nvrtc"; empty where it did not load
  std::string reason;      // why it is not available
  bool decided = true;     // false where memory ran out or its gates could not run: the next call tries again
  std::string detour;      // why no prebuilt binary serves, where NVRTC's does
  std::vector<GateResult> gates;
  std::map<std::string, CudaFunction, std::less<>> functions;

  CudaFunction function(std::string_view name) const;  // null where the binary has none of that name
};

class DeviceRuntime {
 public:
  // That of the calling thread's context on a device, made when it is first asked for. BackendUnavailable
  // where the device cannot run kernels at all.
  static Result<std::shared_ptr<DeviceRuntime>> get(std::optional<int> ordinal);

  const Driver& driver() const { return driver_; }
  const DeviceInfo& info() const { return info_; }

  // `again`: run the gates whatever is known.
  std::shared_ptr<const KernelState> state(const Kernel& kernel, bool again = false);

 private:
  DeviceRuntime(const Driver& driver, DeviceInfo info) : driver_(driver), info_(std::move(info)) {}
  void load_kernel(const Kernel& kernel, KernelState& state);
  void gate(const Kernel& kernel, KernelState& state, bool again);

  const Driver& driver_;
  DeviceInfo info_;
  std::mutex mutex_;
  std::map<std::string_view, std::shared_ptr<const KernelState>> states_;
  std::map<std::string_view, std::string> binaries_;  // sha256 of what was loaded
};

}  // namespace mmaemu::cuda
