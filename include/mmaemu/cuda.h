// CUDA kernels: products of operands that lie on a CUDA device, and the gates that a kernel passes before it
// is used there. Needs no CUDA to build; the driver is found when it is first asked for. docs/validation.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

// Runs the gates of kernels on a CUDA device (none: the current one, else device 0); empty `kernels`: all of
// them. `force`: whatever verdicts are cached. Empty where no CUDA kernel can run, and then backends_status
// says why. ValueError for an unknown kernel, with the known ones.
MMAEMU_API Result<std::vector<KernelVerdict>> selftest(std::optional<int> device,
                                                       const std::vector<std::string>& kernels, bool force);

}  // namespace mmaemu
