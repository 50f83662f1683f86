// The backends that a call can name, and which of them serves it on a device.
#pragma once

#include <string>
#include <vector>

#include "mmaemu/platform.h"
#include "mmaemu/status.h"

namespace mmaemu {

struct BackendChoice {
  std::string name;
  std::vector<std::string> fallbacks;  // why each backend tried before it does not serve the call
  std::vector<Warning> warnings;
};

// The backend that `name` means on a device; "auto" is $MMAEMU_BACKEND where it is set.
// BackendUnavailableError where an explicitly named one cannot serve; ValueError for an unknown name, with
// the known ones.
Result<BackendChoice> choose_backend(const std::string& name, const std::string& device);

}  // namespace mmaemu
