// The binaries of the kernels: prebuilt fatbins checked against their manifest, and what NVRTC compiles from
// the sources that the library carries, kept on disk. Loading them is runtime.cpp's matter.
#pragma once

#include <span>
#include <string>

#include "mmaemu/status.h"

#include "cuda/device.h"
#include "cuda/nvrtc.h"
#include "cuda/registry.h"

namespace mmaemu::cuda {

struct Image {
  Bytes bytes;  // a fatbin, a cubin or PTX, with a zero after it
  std::string sha256;
};

// The sources of the kernels, which the library carries, by name; and the hash of a line "name sha256" a
// file.
std::span<const SourceFile> kernel_sources();
const std::string& source_hash();

// $MMAEMU_FATBIN_DIR, else the folder that the library is installed with; empty where there is none.
std::string fatbin_folder();

// The fatbin of a kernel. BackendUnavailable where there is none, or where it is not what the manifest says,
// or where the manifest is of other sources than the library's.
Result<Image> prebuilt_image(const Kernel& kernel);

// A binary for the device from the cache, else by NVRTC. BackendUnavailable where NVRTC is missing or fails.
Result<Image> compiled_image(const Kernel& kernel, const DeviceInfo& device);

}  // namespace mmaemu::cuda
