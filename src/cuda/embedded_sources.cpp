// Names the bytes that embedded_sources.S brings in.
#include <array>

#include "base/sha256.h"
#include "cuda/images.h"

#define MMAEMU_SOURCE(symbol)                             \
  extern "C" const char mmaemu_source_##symbol##_begin[]; \
  extern "C" const char mmaemu_source_##symbol##_end[];
MMAEMU_SOURCE(compose)
MMAEMU_SOURCE(device)
MMAEMU_SOURCE(kernels)
MMAEMU_SOURCE(portable)
#undef MMAEMU_SOURCE

namespace mmaemu::cuda {

std::span<const SourceFile> kernel_sources() {
  static const std::array<SourceFile, 4> files{{
      {"compose.cu", {mmaemu_source_compose_begin, mmaemu_source_compose_end}},
      {"device.h", {mmaemu_source_device_begin, mmaemu_source_device_end}},
      {"kernels.cu", {mmaemu_source_kernels_begin, mmaemu_source_kernels_end}},
      {"portable.cu", {mmaemu_source_portable_begin, mmaemu_source_portable_end}},
  }};
  return files;
}

const std::string& source_hash() {
  static const std::string hash = [] {
    std::string lines;
    for (const SourceFile& file : kernel_sources())
      lines.append(file.name).append(" ").append(sha256(bytes_of(file.text))).append("\n");
    return sha256(bytes_of(lines));
  }();
  return hash;
}

}  // namespace mmaemu::cuda
