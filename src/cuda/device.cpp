// Numbers of attributes and modes are those of cuda.h.
#include "cuda/device.h"

#include <array>
#include <map>
#include <mutex>
#include <utility>

namespace mmaemu::cuda {
namespace {

constexpr int kMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinor = 76;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kRelaxedCapture = 2;    // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr DriverStatus kOutOfMemory = 2;

// The first driver whose cuBLAS multiplies FP8, and so the first that has anything to emulate beside it.
constexpr int kLeastDriver = 11080;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string uuid_text(const CudaUuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[uuid.bytes[i] >> 4];
    text += "0123456789abcdef"[uuid.bytes[i] & 15];
  }
  return text;
}

// Retained once per device and kept: a context that comes and goes would take the modules with it.
Result<CudaContext> primary_context(const Driver& driver, CudaDevice device) {
  static std::mutex mutex;
  static std::map<std::pair<const Driver*, CudaDevice>, CudaContext> contexts;
  const std::lock_guard lock(mutex);
  CudaContext& context = contexts[{&driver, device}];
  if (context == nullptr) {
    if (const DriverStatus status = driver.primary_context_retain(&context, device);
        status != kDriverSuccess) {
      context = nullptr;
      return driver_error(driver, "no context on CUDA device " + std::to_string(device), status);
    }
  }
  return context;
}

}  // namespace

Error driver_error(const Driver& driver, const std::string& what, DriverStatus status) {
  const ErrorKind kind = status == kOutOfMemory ? ErrorKind::out_of_memory : ErrorKind::mmaemu_error;
  return {kind, what + ": " + driver.describe(status)};
}

Result<DeviceInfo> describe_device(std::optional<int> ordinal) {
  const auto no = [](std::string reason) { return Error{ErrorKind::backend_unavailable, std::move(reason)}; };
  const Driver& driver = cuda_driver();
  if (!driver.usable) return no(driver.problem);
  DeviceInfo info;
  const std::string which = ordinal ? " " + std::to_string(*ordinal) : "";
  const std::optional<CudaDevice> device = find_cuda_device(driver, ordinal);
  if (!device) return no("there is no CUDA device" + which);
  info.device = *device;
  if (!driver.launch_problem.empty()) return no(driver.launch_problem);
  std::array<char, 256> name{};
  CudaUuid uuid{};
  DriverStatus status = driver.driver_get_version(&info.driver);
  if (status == kDriverSuccess && info.driver < kLeastDriver)
    return no("the CUDA driver is too old: it supports CUDA " + version_text(info.driver) + ", and " +
              version_text(kLeastDriver) + " is needed");
  if (status == kDriverSuccess)
    status = driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, info.device);
  if (status == kDriverSuccess) status = driver.device_get_uuid(&uuid, info.device);
  for (const auto& [attribute, value] : {std::pair{kMajor, &info.major}, {kMinor, &info.minor}})
    if (status == kDriverSuccess) status = driver.device_get_attribute(value, attribute, info.device);
  if (status != kDriverSuccess)
    return no("CUDA device" + which + " does not describe itself: " + driver.describe(status));
  info.name = name.data();
  info.uuid = uuid_text(uuid);
  return info;
}

ContextScope::ContextScope(const Driver& driver, CudaDevice device) : driver_(driver) {
  CudaContext current = nullptr;
  CudaDevice current_device = 0;
  if (driver.context_get_current(&current) == kDriverSuccess && current != nullptr &&
      driver.context_get_device(&current_device) == kDriverSuccess && current_device == device) {
    context_ = current;
  } else {
    const Result<CudaContext> primary = primary_context(driver, device);
    if (!primary.ok()) {
      status_ = primary.error();
      return;
    }
    if (const DriverStatus status = driver.context_push(primary.value()); status != kDriverSuccess) {
      status_ =
          driver_error(driver, "cannot enter the context of CUDA device " + std::to_string(device), status);
      return;
    }
    context_ = primary.value();
    pushed_ = true;
  }
  capture_mode_ = kRelaxedCapture;
  exchanged_ = driver.capture_mode_exchange(&capture_mode_) == kDriverSuccess;
}

ContextScope::~ContextScope() {
  if (exchanged_) driver_.capture_mode_exchange(&capture_mode_);
  CudaContext popped = nullptr;
  if (pushed_) driver_.context_pop(&popped);
}

Result<DeviceMemory> DeviceMemory::allocate(const Driver& driver, std::size_t bytes) {
  DeviceMemory memory(driver);
  if (const DriverStatus status = driver.memory_allocate(&memory.address_, bytes); status != kDriverSuccess) {
    memory.address_ = 0;
    return driver_error(driver, "cannot allocate " + std::to_string(bytes) + " bytes of CUDA memory", status);
  }
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : driver_(other.driver_), address_(std::exchange(other.address_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) driver_->memory_free(address_);
}

Result<Stream> Stream::create(const Driver& driver) {
  Stream stream(driver);
  if (const DriverStatus status = driver.stream_create(&stream.stream_, kNonBlocking);
      status != kDriverSuccess) {
    stream.stream_ = nullptr;
    return driver_error(driver, "cannot create a CUDA stream", status);
  }
  return stream;
}

Stream::Stream(Stream&& other) noexcept
    : driver_(other.driver_), stream_(std::exchange(other.stream_, nullptr)) {}

Stream::~Stream() {
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
}

Status Stream::upload(DeviceAddress to, std::span<const std::byte> from) const {
  const DriverStatus status = driver_->copy_to_device(to, from.data(), from.size(), stream_);
  return status == kDriverSuccess ? Status()
                                  : driver_error(*driver_, "cannot copy to the CUDA device", status);
}

Status Stream::download(std::span<std::byte> to, DeviceAddress from) const {
  const DriverStatus status = driver_->copy_to_host(to.data(), from, to.size(), stream_);
  return status == kDriverSuccess ? wait()
                                  : driver_error(*driver_, "cannot copy from the CUDA device", status);
}

Status Stream::wait() const {
  const DriverStatus status = driver_->stream_synchronize(stream_);
  return status == kDriverSuccess ? Status() : driver_error(*driver_, "a CUDA kernel failed", status);
}

}  // namespace mmaemu::cuda
