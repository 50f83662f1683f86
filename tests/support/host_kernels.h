// The CUDA kernels' sources, compiled for the host and run thread by thread: they share no memory and wait
// for nothing.
#pragma once

#include <array>
#include <string>

namespace mmaemu::testing {

// Runs a kernel with cuLaunchKernel's parameters; false where there is none of that name. spoil: flips a bit
// of its first result afterwards.
bool run_on_host(const std::string& name, std::array<unsigned, 2> grid, std::array<unsigned, 2> block,
                 void** parameters, bool spoil);

}  // namespace mmaemu::testing
