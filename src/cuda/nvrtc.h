// NVRTC through dlopen: compiles the kernels' sources where no prebuilt binary serves. Needs no GPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mmaemu/status.h"

#include "platform/files.h"

namespace mmaemu::cuda {

// A file of the kernels' sources, by the name under which others include it.
struct SourceFile {
  std::string_view name;
  std::string_view text;
};

struct NvrtcFunctions;

// One NVRTC library. Thread safe: NVRTC serialises what it cannot do at once.
class Nvrtc {
 public:
  // $MMAEMU_NVRTC_PATH alone where it is set. Else the library that the process has loaded (torch brings
  // one), those of the pip packages beside this one (nvidia-cuda-nvrtc, nvidia-cuda-nvrtc-cu12), and the
  // system's; among them the driver's major version first, 13 and 12 known. BackendUnavailable, with what is
  // wrong with each.
  static Result<Nvrtc> load(int driver_major);

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 12060 for 12.6, as the driver counts
  const std::vector<int>& architectures() const { return architectures_; }  // 75, 80, ..., rising

  // The cubin (for "sm_89") or the PTX (for "compute_80") of a file, which is one of `files`.
  // BackendUnavailable with the compiler's log.
  Result<Bytes> compile(std::string_view file, std::span<const SourceFile> files,
                        const std::string& architecture, std::span<const std::string> options) const;

 private:
  Nvrtc() = default;
  std::string bind(void* library);  // empty, or why it is of no use

  std::string path_;
  int version_ = 0;
  std::vector<int> architectures_;
  std::shared_ptr<const NvrtcFunctions> functions_;
};

}  // namespace mmaemu::cuda
