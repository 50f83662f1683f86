// What the fake CUDA driver (fake_gpu.cpp) is told to be and what it was asked to do. The library exports
// fake_gpu(), which returns its state, and fake_gpu_reset().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace mmaemu::testing {

struct FakeGpuDevice {
  std::string name = "Fake GPU";
  int major = 8;
  int minor = 9;
  int multiprocessors = 24;
  unsigned char serial = 1;  // every byte of the UUID
};

struct FakeLaunch {
  std::string function;
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  void* stream;
  int device;  // of the context it ran in
};

struct FakeGpu {
  std::vector<FakeGpuDevice> devices{FakeGpuDevice{}};
  int driver_version = 12080;
  std::map<std::string, int> failures;  // function -> the status it returns instead of doing anything
  // Statuses of module loads by a text that the image contains: {"fatbin", 209}.
  std::map<std::string, int> refused_images;
  int current = -1;            // device of the context that "torch" made current; -1: none
  std::string failing_launch;  // a launch of a function with this in its name fails
  std::string spoiled;         // a launch of a function with this in its name flips a bit of its results
  bool execute = true;         // run the kernels, on the CPU
  // Tiled chains as they are written, thread by thread. Otherwise the portable kernel of their arithmetic
  // computes what their grid covers, in a fraction of the time.
  bool tiles = false;

  std::map<std::string, int> calls;  // by function, cuInit apart
  std::vector<FakeLaunch> launches;
  std::vector<std::string> images;  // loaded, in order
  std::map<void*, std::size_t> memory;
  std::vector<int> pushed;  // devices of the pushed contexts
  std::set<void*> streams;

  int total_calls() const {
    int total = 0;
    for (const auto& [name, count] : calls) total += count;
    return total;
  }
};

}  // namespace mmaemu::testing
