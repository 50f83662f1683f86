// CUDA kernels: products of operands that lie on a CUDA device, and the gates that a kernel passes before it
// is used there. Needs no CUDA to build; the driver is found when it is first asked for. docs/cuda.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mmaemu/export.h"
#include "mmaemu/formats.h"
#include "mmaemu/gemm.h"
#include "mmaemu/status.h"

namespace mmaemu {

// One check of a CUDA kernel on a device.
struct GateResult {
  std::string name;  // "load", "smoke", "window", "design_a"
  bool passed = false;
  std::string reason;                           // why it did not pass; else what was compared
  std::map<std::string, std::int64_t> details;  // counts
  double seconds = 0;
  bool cached = false;  // the verdict of an earlier run
  friend bool operator==(const GateResult&, const GateResult&) = default;
};

struct KernelVerdict {
  std::string kernel;  // "v4"
  // A failure is one of the library: the kernel serves this device and was asked for by name, or uses
  // instructions that are defined to the bit, or passed on this capability before.
  bool required = false;
  std::vector<GateResult> gates;  // "load" alone where the kernel did not load
};

// Runs the gates of kernels ("v4"; empty: all of them) on a device: "cuda:0", or "cuda" for the current one,
// else the first. `force`: whatever verdicts are cached. Empty where no CUDA kernel can run, and then
// backends_status says why. ValueError for an unknown kernel, with the known ones.
MMAEMU_API Result<std::vector<KernelVerdict>> selftest(const std::string& device,
                                                       const std::vector<std::string>& kernels, bool force);

// Where a product is computed: in a stream of the caller's, which is not waited for.
struct CudaQueue {
  int device = 0;
  void* stream = nullptr;           // CUstream; null: the default one
  void* workspace = nullptr;        // device memory, 256-byte aligned; may be freed in stream order at once
  std::size_t workspace_bytes = 0;  // at least cuda_workspace_bytes
};

// Addresses on the device of one fp32 number each; `result` may be null.
struct CudaScales {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* result = nullptr;
};

// The device memory that a product needs besides its operands and its result: at most kMostCudaWorkspace.
inline constexpr std::size_t kMostCudaWorkspace = std::size_t{256} << 20;
MMAEMU_API Result<std::size_t> cuda_workspace_bytes(const std::string& backend, const OperandView& a,
                                                    const OperandView& b, const Accumulation& how,
                                                    const ResultView& out);

// gemm.h's accumulate and scaled_mm by the kernel of a backend ("cuda:v4"), all addresses being the device's.
// Rows of the operands are contiguous, 16-byte aligned, and K is a multiple of 16; rows of the result are
// contiguous. Errors: ValueError for other views and for a chain that is too long for the kernel,
// BackendUnavailable where the kernel does not serve the call or its gates did not pass, MmaemuError where
// the driver refuses a launch; the result then holds nothing that may be used.
MMAEMU_API Status cuda_accumulate(const std::string& backend, const OperandView& a, const OperandView& b,
                                  const Accumulation& how, const ResultView& out, const CudaQueue& queue);
MMAEMU_API Status cuda_scaled_mm(const std::string& backend, const OperandView& a, const OperandView& b,
                                 const Accumulation& how, const CudaScales& scales, const ResultView& out,
                                 const CudaQueue& queue);

}  // namespace mmaemu
