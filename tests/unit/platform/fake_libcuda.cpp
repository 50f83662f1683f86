// A CUDA driver without a GPU: the functions that the live query uses, answering from FakeDriver.
#include <cstring>

#include "fake_cuda.h"

namespace {

mmaemu::testing::FakeDriver state;

bool exists(int device) {
  return device >= 0 && static_cast<std::size_t>(device) < state.devices.size();
}

}  // namespace

extern "C" {

mmaemu::testing::FakeDriver* fake_libcuda() {
  return &state;
}

int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}

int cuDeviceGet(int* device, int ordinal) {
  ++state.calls;
  *device = ordinal;
  return exists(ordinal) ? 0 : 101;
}

int cuDeviceGetName(char* name, int size, int device) {
  ++state.calls;
  if (state.name_fails || !exists(device)) return 101;
  std::strncpy(name, state.devices[static_cast<std::size_t>(device)].name.c_str(),
               static_cast<std::size_t>(size));
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ++state.calls;
  if (attribute != 16 || !exists(device)) return 1;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  *value = state.devices[static_cast<std::size_t>(device)].multiprocessors;
  return 0;
}

int cuCtxGetCurrent(void** context) {
  ++state.calls;
  *context = state.current < 0 ? nullptr : &state;
  return 0;
}

int cuCtxGetDevice(int* device) {
  ++state.calls;
  *device = state.current;
  return state.current < 0 ? 201 : 0;
}
}
