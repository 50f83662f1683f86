// The CUDA kernels' sources, compiled for the host (simt/) once for each architecture that they make a
// difference for.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace mmaemu::testing {

struct HostLaunch {
  std::string kernel;
  std::array<unsigned, 2> grid;
  std::array<unsigned, 2> block;
  void** parameters;   // as cuLaunchKernel takes them
  bool spoil = false;  // flips a bit of the first result afterwards
};

// 80: compute capability 8.0.
inline constexpr std::array<int, 3> kHostArchitectures{80, 89, 90};

// What was wrong, if anything.
template <int kArchitecture>
std::optional<std::string> run_compiled_for(const HostLaunch& launch);
template <>
std::optional<std::string> run_compiled_for<80>(const HostLaunch& launch);
template <>
std::optional<std::string> run_compiled_for<89>(const HostLaunch& launch);
template <>
std::optional<std::string> run_compiled_for<90>(const HostLaunch& launch);

inline std::optional<std::string> run_on_host(int architecture, const HostLaunch& launch) {
  if (architecture == 90) return run_compiled_for<90>(launch);
  if (architecture == 89) return run_compiled_for<89>(launch);
  return run_compiled_for<80>(launch);
}

}  // namespace mmaemu::testing
