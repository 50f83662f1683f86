// Asks the cuBLASLt of this process what it would choose, where the device is the profile's own. Needs no
// CUDA to build; what is done with the answer is resolve_splitk.cpp's matter.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mmaemu/platform.h"

#include "platform/split_table.h"

namespace mmaemu {

struct LiveAnswer {
  std::optional<AlgoChoice> choice;
  std::string reason;  // why there is no choice
};

class LiveQuery {
 public:
  virtual ~LiveQuery() = default;
  // ValueError for an environment variable out of range. Every other obstacle is an answer without a choice.
  virtual Result<LiveAnswer> ask(const SplitQuery& query, const Profile& profile) = 0;
};

// Through dlopen: libcuda ($MMAEMU_LIBCUDA_PATH, else libcuda.so.1) and the libcublasLt of the profile's
// major version, the one already loaded first. $MMAEMU_DISABLE_CUDA=1: no library is touched.
LiveQuery& cublaslt_query();

}  // namespace mmaemu
