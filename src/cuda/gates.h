// What a kernel must return on a device before it is used there: the bits of the CPU engine.
#pragma once

#include <vector>

#include "mmaemu/cuda.h"
#include "mmaemu/status.h"

#include "cuda/runtime.h"

namespace mmaemu::cuda {

// Runs the gates of a kernel that has loaded; the calling thread is in the device's context. An error is no
// verdict: the device could not be asked.
Result<std::vector<GateResult>> run_gates(const DeviceRuntime& runtime, const Kernel& kernel,
                                          const KernelState& loaded);

}  // namespace mmaemu::cuda
