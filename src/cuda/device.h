// One CUDA device through the driver: what it is, its context for the time of a call, memory and modules in
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mmaemu/status.h"

#include "platform/driver.h"
#include "platform/files.h"

namespace mmaemu::cuda {

struct DeviceInfo {
  CudaDevice device = 0;
  std::string name;
  std::string uuid;  // "GPU-01020304-..."
  int major = 0;     // compute capability
  int minor = 0;
  int driver = 0;  // 12080: the driver supports CUDA 12.8

  int architecture() const { return major * 10 + minor; }
  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

// What a device is; BackendUnavailable where there is no such device, or where its driver runs no kernels of
// ours.
Result<DeviceInfo> describe_device(std::optional<int> ordinal);

Error driver_error(const Driver& driver, const std::string& what, DriverStatus status);

// For its lifetime the calling thread's context is one of the device: the current one where it already is (a
// tensor of torch lies in the primary one), else the primary one, which is pushed and popped. Graph captures
// of other streams are not disturbed by what is done meanwhile.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CudaDevice device);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  const Status& status() const { return status_; }
  CudaContext context() const { return context_; }

 private:
  const Driver& driver_;
  Status status_;
  CudaContext context_ = nullptr;
  bool pushed_ = false;
  bool exchanged_ = false;
  int capture_mode_ = 0;
};

// Memory of the current context.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const Driver& driver, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();
  DeviceAddress address() const { return address_; }

 private:
  explicit DeviceMemory(const Driver& driver) : driver_(&driver) {}
  const Driver* driver_;
  DeviceAddress address_ = 0;
};

// A stream of the current context that waits for no other.
class Stream {
 public:
  static Result<Stream> create(const Driver& driver);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  ~Stream();
  CudaStream get() const { return stream_; }

  Status upload(DeviceAddress to, std::span<const std::byte> from) const;
  Status download(std::span<std::byte> to, DeviceAddress from) const;  // and waits for it
  Status wait() const;

 private:
  explicit Stream(const Driver& driver) : driver_(&driver) {}
  const Driver* driver_;
  CudaStream stream_ = nullptr;
};

}  // namespace mmaemu::cuda
