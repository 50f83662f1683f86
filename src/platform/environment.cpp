// Reads environment variables as text and as flags.
#include "platform/environment.h"

#include <cstdlib>

namespace mmaemu {

std::string environment_text(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

Result<bool> environment_flag(const char* variable) {
  const std::string value = environment_text(variable);
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  return Error{ErrorKind::value_error,
               std::string(variable) + " must be unset, empty, \"0\" or \"1\", not \"" + value + "\""};
}

std::vector<std::pair<std::string, std::string>> environment_settings() {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const char* variable :
       {"MMAEMU_PROFILE", "MMAEMU_BACKEND", "MMAEMU_SPLITK_STRICT", "MMAEMU_DISABLE_CUDA",
        "MMAEMU_CPU_TARGET", "MMAEMU_NUM_THREADS", "MMAEMU_ALLOW_GATED_KERNELS", "MMAEMU_CACHE_DIR",
        "MMAEMU_FATBIN_DIR", "MMAEMU_LIBCUDA_PATH", "MMAEMU_NVRTC_PATH"}) {
    if (const char* value = std::getenv(variable)) settings.emplace_back(variable, value);
  }
  return settings;
}

}  // namespace mmaemu
