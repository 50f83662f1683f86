// The kernels' functions and how each is launched: names, parameters, grids. The counterpart of kernels/*.cu.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mmaemu/plan.h"
#include "mmaemu/status.h"

#include "cuda/runtime.h"

namespace mmaemu::cuda {

// Every function that a kernel's binary must have: its chains, one a pair of formats, what is around them,
// and the probes of a gated one.
std::vector<std::string> function_names(const Kernel& kernel);

// A matrix of codes on the device, rows contiguous.
struct DeviceRows {
  DeviceAddress address = 0;
  FormatId format = FormatId::e4m3;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
};

// Where the end of a product writes and what it needs.
struct Finish {
  DeviceAddress sums = 0;
  DeviceRows a;
  DeviceRows b;
  DeviceAddress flags_a = 0;
  DeviceAddress flags_b = 0;
  DeviceAddress out = 0;
  FormatId format = FormatId::float32;
  std::int64_t stride = 0;
  std::array<DeviceAddress, 3> scales{};  // 0: none
};

// Launches in one stream of the current context. After an error nothing else is launched.
class Launcher {
 public:
  Launcher(const DeviceRuntime& runtime, const Kernel& kernel, const KernelState& loaded, CudaStream stream)
      : runtime_(runtime), kernel_(kernel), loaded_(loaded), stream_(stream) {}

  void chain(const DeviceRows& a, const DeviceRows& b, DeviceAddress result);  // [a.rows, b.rows] fp32
  void gather(const DeviceRows& from, const Chain& chain, DeviceAddress to);
  void add(DeviceAddress sum, DeviceAddress part, std::int64_t elements);
  void flag(const DeviceRows& codes, DeviceAddress flags);  // one word a row
  void finish(const Finish& f);
  // A gate's own function, `rounds` times in each warp; it adds what it counts to a word at `violations`.
  void probe(std::string_view gate, DeviceAddress violations, std::uint32_t seed, int rounds);
  static constexpr std::int64_t kProbeWarps = 256;

  const Status& status() const { return status_; }

 private:
  void launch(std::string_view function, std::array<unsigned, 2> grid, std::array<unsigned, 2> block,
              void** parameters);
  void launch_linear(std::string_view function, std::int64_t threads, void** parameters);

  const DeviceRuntime& runtime_;
  const Kernel& kernel_;
  const KernelState& loaded_;
  CudaStream stream_;
  Status status_;
};

}  // namespace mmaemu::cuda
