// Names the bytes that embedded_sources.S brings in.
#include <array>

#include "base/sha256.h"
#include "cuda/images.h"

#define MMAEMU_SOURCE(symbol)                             \
  extern "C" const char mmaemu_source_##symbol##_begin[]; \
  extern "C" const char mmaemu_source_##symbol##_end[];
MMAEMU_SOURCE(compose)
MMAEMU_SOURCE(device)
MMAEMU_SOURCE(exponents)
MMAEMU_SOURCE(fast)
MMAEMU_SOURCE(fast_tile)
MMAEMU_SOURCE(gated)
MMAEMU_SOURCE(instructions)
MMAEMU_SOURCE(portable)
MMAEMU_SOURCE(tiled)
#undef MMAEMU_SOURCE

namespace mmaemu::cuda {

std::span<const SourceFile> kernel_sources() {
  static const std::array<SourceFile, 9> files{{
      {"compose.cu", {mmaemu_source_compose_begin, mmaemu_source_compose_end}},
      {"device.h", {mmaemu_source_device_begin, mmaemu_source_device_end}},
      {"exponents.h", {mmaemu_source_exponents_begin, mmaemu_source_exponents_end}},
      {"fast.cu", {mmaemu_source_fast_begin, mmaemu_source_fast_end}},
      {"fast_tile.h", {mmaemu_source_fast_tile_begin, mmaemu_source_fast_tile_end}},
      {"gated.cu", {mmaemu_source_gated_begin, mmaemu_source_gated_end}},
      {"instructions.h", {mmaemu_source_instructions_begin, mmaemu_source_instructions_end}},
      {"portable.cu", {mmaemu_source_portable_begin, mmaemu_source_portable_end}},
      {"tiled.h", {mmaemu_source_tiled_begin, mmaemu_source_tiled_end}},
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
