// The CUDA kernels' sources, compiled for the host (simt/).
#pragma once

#include <array>
#include <optional>
#include <string>

namespace mmaemu::testing {

// Runs a kernel with cuLaunchKernel's parameters; returns what was wrong, if anything. spoil: flips a bit of
// its first result afterwards.
std::optional<std::string> run_on_host(const std::string& name, std::array<unsigned, 2> grid,
                                       std::array<unsigned, 2> block, void** parameters, bool spoil);

}  // namespace mmaemu::testing
