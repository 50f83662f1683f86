// Finds the functions of libcuda. Which entry point a plain name of cuda.h means is written there in macros.
#include "platform/driver.h"

#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <mutex>

#include "platform/environment.h"
#include "platform/files.h"

namespace mmaemu {
namespace {

// Finds symbols and remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

// Drivers of one CUDA version differ in the name of their file (libcuda.so.580.65.06) or, where that is the
// same, in its size.
std::string build_of(const std::string& file) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  return error ? file : file + " of " + std::to_string(size) + " bytes";
}

void load(Driver& driver) {
  void* library = dlopen(driver.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    driver.problem = "no CUDA driver: " + std::string(reason == nullptr ? driver.path : reason);
    return;
  }
  Symbols identity(library);
  identity.find("cuInit", driver.init);
  identity.find("cuDeviceGet", driver.device_get);
  identity.find("cuDeviceGetName", driver.device_get_name);
  identity.find("cuDeviceGetAttribute", driver.device_get_attribute);
  identity.find("cuCtxGetCurrent", driver.context_get_current);
  identity.find("cuCtxGetDevice", driver.context_get_device);

  Symbols work(library);
  work.find("cuDriverGetVersion", driver.driver_get_version);
  work.find("cuDeviceGetUuid_v2", driver.device_get_uuid);
  work.find("cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  work.find("cuCtxPushCurrent_v2", driver.context_push);
  work.find("cuCtxPopCurrent_v2", driver.context_pop);
  work.find("cuThreadExchangeStreamCaptureMode", driver.capture_mode_exchange);
  work.find("cuModuleLoadData", driver.module_load);
  work.find("cuModuleUnload", driver.module_unload);
  work.find("cuModuleGetFunction", driver.module_get_function);
  work.find("cuLaunchKernel", driver.launch);
  work.find("cuMemAlloc_v2", driver.memory_allocate);
  work.find("cuMemFree_v2", driver.memory_free);
  work.find("cuMemcpyHtoDAsync_v2", driver.copy_to_device);
  work.find("cuMemcpyDtoHAsync_v2", driver.copy_to_host);
  work.find("cuStreamCreate", driver.stream_create);
  work.find("cuStreamDestroy_v2", driver.stream_destroy);
  work.find("cuStreamSynchronize", driver.stream_synchronize);
  work.find("cuGetErrorName", driver.error_name);
  if (!work.missing().empty())
    driver.launch_problem = "the CUDA driver " + driver.path + " is too old: it has no " + work.missing();

  if (!identity.missing().empty()) {
    driver.problem = driver.path + " is no CUDA driver: it has no " + identity.missing();
    return;
  }
  if (const DriverStatus status = driver.init(0); status != kDriverSuccess) {
    driver.problem = "cuInit fails with " + driver.describe(status);
    return;
  }
  driver.build = build_of(file_of(reinterpret_cast<const void*>(driver.init)));
  driver.usable = true;
}

}  // namespace

std::string Driver::describe(DriverStatus status) const {
  const char* name = nullptr;
  if (error_name == nullptr || error_name(status, &name) != kDriverSuccess || name == nullptr)
    return "CUDA error " + std::to_string(status);
  return std::string(name) + " (" + std::to_string(status) + ")";
}

const Driver& cuda_driver() {
  static std::mutex mutex;
  static std::map<std::string, Driver> drivers;
  std::string path = environment_text("MMAEMU_LIBCUDA_PATH");
  if (path.empty()) path = "libcuda.so.1";
  const std::lock_guard lock(mutex);
  const auto [slot, added] = drivers.try_emplace(path);
  if (added) {
    slot->second.path = path;
    load(slot->second);
  }
  return slot->second;
}

std::optional<CudaDevice> find_cuda_device(const Driver& driver, std::optional<int> ordinal) {
  CudaDevice device = 0;
  if (!ordinal) {
    CudaContext context = nullptr;
    if (driver.context_get_current(&context) == kDriverSuccess && context != nullptr) {
      if (driver.context_get_device(&device) != kDriverSuccess) return std::nullopt;
      return device;
    }
  }
  if (driver.device_get(&device, ordinal.value_or(0)) != kDriverSuccess) return std::nullopt;
  return device;
}

}  // namespace mmaemu
