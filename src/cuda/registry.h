// The CUDA kernels as data: what each serves and what it rests on. A new kernel is one more row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mmaemu/formats.h"
#include "mmaemu/preset.h"

namespace mmaemu::cuda {

struct FormatPair {
  FormatId a;
  FormatId b;
};

// What one block of threads computes of a result, and how many threads that takes.
struct Tile {
  int rows;
  int columns;
  int threads_x;
  int threads_y;
};

struct Kernel {
  std::string_view name;     // "v4"; its backend is "cuda:v4"
  std::string_view preset;   // the shipped preset whose arithmetic it has
  int priority;              // the highest that can serve is chosen
  int least_architecture;    // 80: compute capability 8.0
  std::int64_t depth_limit;  // a chain must be shorter
  // The gates of the hardware properties that PTX does not specify and that the kernel leans on; empty: it
  // has only instructions that IEEE 754 or PTX define to the bit.
  std::span<const std::string_view> own_gates;
  std::string_view ptx;   // "compute_80": what serves architectures without a binary; empty: nothing may
  std::string_view file;  // the source of its chains
  Tile tile;
  std::span<const FormatPair> pairs;
  // Architectures on which this project's own kernel passed its gates and the recordings, on hardware.
  std::span<const int> validated;

  std::string backend() const { return "cuda:" + std::string(name); }
  bool gated() const { return !own_gates.empty(); }
  bool validated_on(int architecture) const;
  bool has_arithmetic_of(const Preset& preset) const;
  bool serves(FormatId a, FormatId b) const;
};

// Ada's first; by falling priority within a preset.
std::span<const Kernel> kernels();

// By name ("v4") or by backend ("cuda:v4"); null for another one.
const Kernel* find_kernel(std::string_view name);

}  // namespace mmaemu::cuda
