// A CUDA driver without a GPU: device memory is host memory, streams run at once, and a launch runs the
// kernel of that name on the CPU where the library has it (host_kernels.h). Numbers are those of cuda.h.
#include "fake_gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "host_kernels.h"
#include "simt/simt.h"

namespace {

using mmaemu::testing::FakeGpu;
using mmaemu::testing::FakeGpuDevice;

constexpr int kInvalidValue = 1;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidImage = 200;
constexpr int kNoBinary = 209;
constexpr int kInvalidContext = 201;
constexpr int kNotFound = 500;
constexpr int kLaunchFailed = 719;

FakeGpu state;

// Objects have addresses that are told apart from each other's.
struct Context {
  int device;
};
struct Module {
  std::string image;
  int device;
};
struct Function {
  std::string name;
  Module* module;
};

std::map<int, std::unique_ptr<Context>> contexts;
std::map<Module*, std::unique_ptr<Module>> modules;
std::vector<std::unique_ptr<Function>> functions;

// Counts a call; the status that the test wants of it.
int enter(const char* function) {
  ++state.calls[function];
  const auto failure = state.failures.find(function);
  return failure == state.failures.end() ? 0 : failure->second;
}

const FakeGpuDevice* find(int device) {
  if (device < 0 || static_cast<std::size_t>(device) >= state.devices.size()) return nullptr;
  return &state.devices[static_cast<std::size_t>(device)];
}

int current_device() {
  return state.pushed.empty() ? state.current : state.pushed.back();
}

Context* context_of(int device) {
  auto& slot = contexts[device];
  if (slot == nullptr) slot = std::make_unique<Context>(Context{device});
  return slot.get();
}

bool within_memory(std::uintptr_t address, std::size_t bytes) {
  for (const auto& [begin, size] : state.memory) {
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    if (address >= at && address + bytes <= at + size) return true;
  }
  return false;
}

// An image is a real cubin or PTX, or "fake fatbin" followed by "sm_89 sm_90 ..." and the names of its
// kernels. How long it is, only its contents tell, as in cuda.h.
std::string image_text(const void* image) {
  const char* text = static_cast<const char*>(image);
  if (std::memcmp(text, "\177ELF", 4) != 0) return text;
  // The section headers end an ELF file that ptxas writes: e_shoff, e_shentsize, e_shnum; its program headers
  // may follow: e_phoff, e_phentsize, e_phnum.
  const auto field = [&]<class T>(std::size_t at, T value) {
    std::memcpy(&value, text + at, sizeof value);
    return static_cast<std::size_t>(value);
  };
  const std::size_t sections =
      field(0x28, std::uint64_t{}) + field(0x3A, std::uint16_t{}) * field(0x3C, std::uint16_t{});
  const std::size_t segments =
      field(0x20, std::uint64_t{}) + field(0x36, std::uint16_t{}) * field(0x38, std::uint16_t{});
  return {text, std::max(sections, segments)};
}

// The launch of a tiled chain as one of the portable kernel; false where its grid is not that of its result.
bool make_portable(mmaemu::testing::HostLaunch& launch) {
  static const std::map<std::string, std::string> portable{
      {"mmaemu_v4_", "v1"}, {"mmaemu_v9_", "v1"}, {"mmaemu_tc3_", "v1"}, {"mmaemu_h4_", "h1"}};
  for (const auto& [prefix, kernel] : portable) {
    if (!launch.kernel.starts_with(prefix)) continue;
    launch.kernel = "mmaemu_" + kernel + "_" + launch.kernel.substr(prefix.size());
    const auto M = static_cast<unsigned>(*static_cast<int*>(launch.parameters[3]));
    const auto N = static_cast<unsigned>(*static_cast<int*>(launch.parameters[4]));
    constexpr unsigned kTile = 128;
    const bool covers = launch.grid == std::array{(N + kTile - 1) / kTile, (M + kTile - 1) / kTile} &&
                        launch.block == std::array{256U, 1U};
    launch.grid = {(N + 15) / 16, (M + 15) / 16};
    launch.block = {16, 16};
    return covers;
  }
  return true;
}

}  // namespace

extern "C" {

FakeGpu* fake_gpu() {
  return &state;
}

// For callers that do not see the structure.
void fake_gpu_fail(const char* function, int status) {
  state.failures[function] = status;
}
int fake_gpu_calls(const char* function) {
  return *function == '\0' ? state.total_calls() : state.calls[function];
}
int fake_gpu_launches(const void* stream) {
  return static_cast<int>(std::ranges::count(state.launches, stream, &mmaemu::testing::FakeLaunch::stream));
}
void fake_gpu_spoil(const char* name) {
  state.spoiled = name;
}
// How many bits the tensor cores' alignment leaves; 24 as on Ampere and Ada.
void fake_gpu_tensor_fraction(int bits) {
  mmaemu::testing::simt::tensor_model().fraction = bits;
}
void fake_gpu_fail_launch(const char* name) {
  state.failing_launch = name;
}

void fake_gpu_reset() {
  for (const auto& [address, bytes] : state.memory) std::free(address);
  state = FakeGpu{};
  mmaemu::testing::simt::tensor_model() = {};
}

int cuInit(unsigned flags) {
  const auto failure = state.failures.find("cuInit");
  return failure != state.failures.end() ? failure->second : flags == 0 ? 0 : kInvalidValue;
}

int cuDriverGetVersion(int* version) {
  *version = state.driver_version;
  return enter("cuDriverGetVersion");
}

int cuDeviceGet(int* device, int ordinal) {
  if (const int status = enter("cuDeviceGet"); status != 0) return status;
  *device = ordinal;
  return find(ordinal) != nullptr ? 0 : kInvalidDevice;
}

int cuDeviceGetName(char* name, int size, int device) {
  if (const int status = enter("cuDeviceGetName"); status != 0) return status;
  if (find(device) == nullptr) return kInvalidDevice;
  std::strncpy(name, find(device)->name.c_str(), static_cast<std::size_t>(size));
  return 0;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  if (const int status = enter("cuDeviceGetUuid"); status != 0) return status;
  if (find(device) == nullptr) return kInvalidDevice;
  std::memset(uuid, find(device)->serial, 16);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (const int status = enter("cuDeviceGetAttribute"); status != 0) return status;
  const FakeGpuDevice* d = find(device);
  if (d == nullptr) return kInvalidDevice;
  const std::map<int, int> attributes{{16, d->multiprocessors}, {75, d->major}, {76, d->minor}};
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return kInvalidValue;
  *value = found->second;
  return 0;
}

int cuCtxGetCurrent(void** context) {
  if (const int status = enter("cuCtxGetCurrent"); status != 0) return status;
  *context = current_device() < 0 ? nullptr : context_of(current_device());
  return 0;
}

int cuCtxGetDevice(int* device) {
  if (const int status = enter("cuCtxGetDevice"); status != 0) return status;
  *device = current_device();
  return current_device() < 0 ? kInvalidContext : 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int status = enter("cuDevicePrimaryCtxRetain"); status != 0) return status;
  if (find(device) == nullptr) return kInvalidDevice;
  *context = context_of(device);
  return 0;
}

int cuCtxPushCurrent_v2(void* context) {
  if (const int status = enter("cuCtxPushCurrent"); status != 0) return status;
  state.pushed.push_back(static_cast<Context*>(context)->device);
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  if (const int status = enter("cuCtxPopCurrent"); status != 0) return status;
  if (state.pushed.empty()) return kInvalidContext;
  *context = context_of(state.pushed.back());
  state.pushed.pop_back();
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int now = 0;
  if (const int status = enter("cuThreadExchangeStreamCaptureMode"); status != 0) return status;
  std::swap(*mode, now);
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  if (const int status = enter("cuModuleLoadData"); status != 0) return status;
  const FakeGpuDevice* d = find(current_device());
  if (d == nullptr) return kInvalidContext;
  std::string text = image_text(image);
  for (const auto& [word, status] : state.refused_images)
    if (text.find(word) != std::string::npos) return status;
  const bool fake = text.starts_with("fake fatbin");
  if (!fake && !text.starts_with("\177ELF") && text.find(".target") == std::string::npos)
    return kInvalidImage;
  const std::string architecture = "sm_" + std::to_string(d->major * 10 + d->minor);
  if (fake && text.find(architecture) == std::string::npos) return kNoBinary;
  state.images.push_back(text);
  auto loaded = std::make_unique<Module>(Module{std::move(text), current_device()});
  *module = loaded.get();
  modules.emplace(loaded.get(), std::move(loaded));
  return 0;
}

int cuModuleUnload(void* module) {
  if (const int status = enter("cuModuleUnload"); status != 0) return status;
  modules.erase(static_cast<Module*>(module));
  return 0;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int status = enter("cuModuleGetFunction"); status != 0) return status;
  auto* loaded = static_cast<Module*>(module);
  if (!modules.contains(loaded) || loaded->image.find(name) == std::string::npos) return kNotFound;
  functions.push_back(std::make_unique<Function>(Function{name, loaded}));
  *function = functions.back().get();
  return 0;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) {
  if (const int status = enter("cuLaunchKernel"); status != 0) return status;
  const auto& f = *static_cast<Function*>(function);
  if (!modules.contains(f.module) || f.module->device != current_device()) return kInvalidContext;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_x > 0x7FFFFFFFU || grid_y > 65535 || grid_z > 65535 ||
      block_x * block_y * block_z == 0 || block_x * block_y * block_z > 1024 || extra != nullptr ||
      shared_bytes != 0)
    return kInvalidValue;
  if (!state.failing_launch.empty() && f.name.find(state.failing_launch) != std::string::npos)
    return kLaunchFailed;
  state.launches.push_back(
      {f.name, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, stream, current_device()});
  if (!state.execute) return 0;
  const bool spoil = !state.spoiled.empty() && f.name.find(state.spoiled) != std::string::npos;
  mmaemu::testing::HostLaunch launch{f.name, {grid_x, grid_y}, {block_x, block_y}, parameters, spoil};
  if (!state.tiles && !make_portable(launch)) return kInvalidValue;
  const FakeGpuDevice& d = *find(current_device());
  const auto wrong = mmaemu::testing::run_on_host(d.major * 10 + d.minor, launch);
  if (wrong) std::fprintf(stderr, "%s: %s\n", f.name.c_str(), wrong->c_str());
  return wrong ? kLaunchFailed : 0;
}

int cuMemAlloc_v2(std::uintptr_t* address, std::size_t bytes) {
  if (const int status = enter("cuMemAlloc"); status != 0) return status;
  if (current_device() < 0) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0)
    return 2;  // of that size exactly, so that AddressSanitizer sees beyond
  std::memset(memory, 0xA5, bytes);
  state.memory[memory] = bytes;
  *address = reinterpret_cast<std::uintptr_t>(memory);
  return 0;
}

int cuMemFree_v2(std::uintptr_t address) {
  if (const int status = enter("cuMemFree"); status != 0) return status;
  void* memory = reinterpret_cast<void*>(address);
  if (state.memory.erase(memory) == 0) return kInvalidValue;
  std::free(memory);
  return 0;
}

int cuMemcpyHtoDAsync_v2(std::uintptr_t to, const void* from, std::size_t bytes, void*) {
  if (const int status = enter("cuMemcpyHtoDAsync"); status != 0) return status;
  if (!within_memory(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void* to, std::uintptr_t from, std::size_t bytes, void*) {
  if (const int status = enter("cuMemcpyDtoHAsync"); status != 0) return status;
  if (!within_memory(from, bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}

int cuStreamCreate(void** stream, unsigned) {
  if (const int status = enter("cuStreamCreate"); status != 0) return status;
  *stream = new char;
  state.streams.insert(*stream);
  return 0;
}

int cuStreamDestroy_v2(void* stream) {
  if (const int status = enter("cuStreamDestroy"); status != 0) return status;
  if (state.streams.erase(stream) == 0) return kInvalidValue;
  delete static_cast<char*>(stream);
  return 0;
}

int cuStreamSynchronize(void*) {
  return enter("cuStreamSynchronize");
}

int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> names{{1, "CUDA_ERROR_INVALID_VALUE"},
                                                {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                {500, "CUDA_ERROR_NOT_FOUND"},
                                                {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = names.find(status);
  if (found == names.end()) return kInvalidValue;
  *name = found->second;
  return 0;
}
}
