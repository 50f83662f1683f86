// What the gates of a kernel said on a device, kept for the next process. Losing an entry costs time and
// nothing else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mmaemu/cuda.h"

namespace mmaemu::cuda {

// Everything a verdict depends on.
struct VerdictKey {
  std::string kernel;
  std::string uuid;          // of the GPU
  std::string capability;    // "8.9"
  int driver = 0;            // cuDriverGetVersion
  std::string driver_build;  // Driver::build: what compiles PTX
  std::string binary;        // sha256 of the image that was loaded

  std::string text() const;
};

// The gates of a key, marked as cached; none where there is no entry or it is damaged.
std::optional<std::vector<GateResult>> find_verdict(const VerdictKey& key);

// Keeps them for this process, and in the cache folder where that can be written.
void keep_verdict(const VerdictKey& key, const std::vector<GateResult>& gates);

}  // namespace mmaemu::cuda
