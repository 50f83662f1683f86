// The CUDA driver through dlopen: its functions, declared here so that building needs no CUDA. What is done
// with them is src/cuda's matter and, for telling devices apart, live_query.cpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mmaemu {

// cuda.h: CUresult and the numbers of those that are told apart.
using DriverStatus = int;
inline constexpr DriverStatus kDriverSuccess = 0;

using CudaDevice = int;                // CUdevice
using CudaContext = void*;             // CUcontext
using CudaModule = void*;              // CUmodule
using CudaFunction = void*;            // CUfunction
using CudaStream = void*;              // CUstream
using DeviceAddress = std::uintptr_t;  // CUdeviceptr

struct CudaUuid {
  unsigned char bytes[16];
};

// The functions of one driver library. Those of the first group tell devices apart, and every driver has
// them; the second group runs kernels. `v2` and `v3` entry points are the ones that cuda.h maps the plain
// names to.
struct Driver {
  DriverStatus (*init)(unsigned) = nullptr;
  DriverStatus (*device_get)(CudaDevice*, int) = nullptr;
  DriverStatus (*device_get_name)(char*, int, CudaDevice) = nullptr;
  DriverStatus (*device_get_attribute)(int*, int, CudaDevice) = nullptr;
  DriverStatus (*context_get_current)(CudaContext*) = nullptr;
  DriverStatus (*context_get_device)(CudaDevice*) = nullptr;

  DriverStatus (*driver_get_version)(int*) = nullptr;
  DriverStatus (*device_get_uuid)(CudaUuid*, CudaDevice) = nullptr;
  DriverStatus (*primary_context_retain)(CudaContext*, CudaDevice) = nullptr;
  DriverStatus (*context_push)(CudaContext) = nullptr;
  DriverStatus (*context_pop)(CudaContext*) = nullptr;
  DriverStatus (*capture_mode_exchange)(int*) = nullptr;
  DriverStatus (*module_load)(CudaModule*, const void*) = nullptr;
  DriverStatus (*module_unload)(CudaModule) = nullptr;
  DriverStatus (*module_get_function)(CudaFunction*, CudaModule, const char*) = nullptr;
  DriverStatus (*launch)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         CudaStream, void**, void**) = nullptr;
  DriverStatus (*memory_allocate)(DeviceAddress*, std::size_t) = nullptr;
  DriverStatus (*memory_free)(DeviceAddress) = nullptr;
  DriverStatus (*copy_to_device)(DeviceAddress, const void*, std::size_t, CudaStream) = nullptr;
  DriverStatus (*copy_to_host)(void*, DeviceAddress, std::size_t, CudaStream) = nullptr;
  DriverStatus (*stream_create)(CudaStream*, unsigned) = nullptr;
  DriverStatus (*stream_destroy)(CudaStream) = nullptr;
  DriverStatus (*stream_synchronize)(CudaStream) = nullptr;
  DriverStatus (*error_name)(DriverStatus, const char**) = nullptr;

  std::string path;            // as it was asked for
  std::string build;           // the library's file and size: tells drivers of one CUDA version apart
  std::string problem;         // why no device can be asked; empty where `usable`
  std::string launch_problem;  // why no kernel can run; empty where all functions are there
  bool usable = false;         // the first group is complete and the driver initialized

  // "CUDA_ERROR_INVALID_IMAGE (200)"
  std::string describe(DriverStatus status) const;
};

// $MMAEMU_LIBCUDA_PATH, else libcuda.so.1; loaded and initialized once per path and process, so that a
// machine without a driver pays for the search once. Thread safe; the reference holds for the life of the
// process.
const Driver& cuda_driver();

// The device of an ordinal, or without one the current context's, else the first.
std::optional<CudaDevice> find_cuda_device(const Driver& driver, std::optional<int> ordinal);

}  // namespace mmaemu
