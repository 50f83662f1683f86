// A product by one kernel: its checks, the memory it needs, and its launches in the caller's stream.
#pragma once

#include <cstddef>

#include "mmaemu/cuda.h"
#include "mmaemu/gemm.h"
#include "mmaemu/status.h"

#include "cuda/registry.h"
#include "cuda/runtime.h"

namespace mmaemu::cuda {

struct Product {
  const Kernel& kernel;
  OperandView a;  // addresses are the device's
  OperandView b;
  Accumulation how;
  const CudaScales* scales = nullptr;  // null: the accumulator
  ResultView out;
};

// ValueError for views that the kernels do not take and for a chain that is too long for this one;
// BackendUnavailable for formats and presets that it does not serve; else what AccumulationPlan::make
// returns.
Status check(const Product& product);

// Of a product that check() passed: at most kMostCudaWorkspace.
std::size_t workspace_bytes(const Product& product);

// Launches everything that a product needs; waits for nothing. The calling thread is in the device's context,
// and the product passed check().
Status launch(const DeviceRuntime& runtime, const KernelState& loaded, const Product& product,
              const CudaQueue& queue);

}  // namespace mmaemu::cuda
