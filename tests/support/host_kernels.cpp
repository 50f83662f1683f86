// CUDA's words as C++: each intrinsic by its definition in IEEE 754. Compiled with -frounding-math.
#include "host_kernels.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};
thread_local Index threadIdx, blockIdx, blockDim, gridDim;  // NOLINT(readability-identifier-naming)

float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
float __fmaf_rz(float a, float b, float c) {
  std::fesetround(FE_TOWARDZERO);
  const float result = std::fma(a, b, c);
  std::fesetround(FE_TONEAREST);
  return result;
}
float __fmul_rn(float a, float b) {
  return a * b;
}
float __fadd_rn(float a, float b) {
  return a + b;
}
float __fsub_rn(float a, float b) {
  return a - b;
}
float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
void atomicOr(unsigned* at, unsigned bits) {
  *at |= bits;
}

}  // namespace

#define __device__
#define __global__
// The kernels are C functions of this file alone.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#include "cuda/kernels/kernels.cu"
#pragma GCC diagnostic pop

namespace mmaemu::testing {
namespace {

using Body = std::function<void(void**)>;

template <class... Parameters, std::size_t... I>
void call(void (*kernel)(Parameters...), void** parameters, std::index_sequence<I...>) {
  kernel(*static_cast<Parameters*>(parameters[I])...);
}

struct HostKernel {
  Body body;
  std::size_t result;  // the parameter that it writes through
};

template <class... Parameters>
HostKernel host(void (*kernel)(Parameters...), std::size_t result) {
  return {[kernel](void** parameters) { call(kernel, parameters, std::index_sequence_for<Parameters...>()); },
          result};
}

const std::map<std::string, HostKernel>& kernels() {
  static const std::map<std::string, HostKernel> all{
      {"mmaemu_gather", host(mmaemu_gather, 1)},
      {"mmaemu_add", host(mmaemu_add, 0)},
      {"mmaemu_clear", host(mmaemu_clear, 0)},
      {"mmaemu_flag", host(mmaemu_flag, 1)},
      {"mmaemu_finish", host(mmaemu_finish, 7)},
      {"mmaemu_v1_e4m3e4m3", host(mmaemu_v1_e4m3e4m3, 2)},
      {"mmaemu_v1_e4m3e5m2", host(mmaemu_v1_e4m3e5m2, 2)},
      {"mmaemu_v1_e5m2e4m3", host(mmaemu_v1_e5m2e4m3, 2)},
      {"mmaemu_h1_e4m3e4m3", host(mmaemu_h1_e4m3e4m3, 2)},
      {"mmaemu_h1_e4m3e5m2", host(mmaemu_h1_e4m3e5m2, 2)},
      {"mmaemu_h1_e5m2e4m3", host(mmaemu_h1_e5m2e4m3, 2)},
  };
  return all;
}

}  // namespace

bool run_on_host(const std::string& name, std::array<unsigned, 2> grid, std::array<unsigned, 2> block,
                 void** parameters, bool spoil) {
  const auto found = kernels().find(name);
  if (found == kernels().end()) return false;
  gridDim = {grid[0], grid[1]};
  blockDim = {block[0], block[1]};
  for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
      for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
        for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x) found->second.body(parameters);
  if (spoil) **static_cast<unsigned char**>(parameters[found->second.result]) ^= 1;
  return true;
}

}  // namespace mmaemu::testing
