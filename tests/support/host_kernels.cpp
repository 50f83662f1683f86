// Every kernel of the library by name.
#include "host_kernels.h"

#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "simt/instructions.h"
#include "simt/simt.h"

// The kernels are C functions of this file alone.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#include "cuda/kernels/compose.cu"
#include "cuda/kernels/fast.cu"
#include "cuda/kernels/portable.cu"
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
  bool cooperative;    // its threads wait for each other
};

template <class... Parameters>
HostKernel host(void (*kernel)(Parameters...), std::size_t result, bool cooperative = false) {
  return {[kernel](void** parameters) { call(kernel, parameters, std::index_sequence_for<Parameters...>()); },
          result, cooperative};
}

using Chain = void(const Byte*, const Byte*, float*, int, int, int);
HostKernel tiled(Chain* kernel) {
  return host(kernel, 2, true);
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
      {"mmaemu_v4_e4m3e4m3", tiled(mmaemu_v4_e4m3e4m3)},
      {"mmaemu_v4_e4m3e5m2", tiled(mmaemu_v4_e4m3e5m2)},
      {"mmaemu_v4_e5m2e4m3", tiled(mmaemu_v4_e5m2e4m3)},
      {"mmaemu_h4_e4m3e4m3", tiled(mmaemu_h4_e4m3e4m3)},
      {"mmaemu_h4_e4m3e5m2", tiled(mmaemu_h4_e4m3e5m2)},
      {"mmaemu_h4_e5m2e4m3", tiled(mmaemu_h4_e5m2e4m3)},
  };
  return all;
}

}  // namespace

std::optional<std::string> run_on_host(const std::string& name, std::array<unsigned, 2> grid,
                                       std::array<unsigned, 2> block, void** parameters, bool spoil) {
  const auto found = kernels().find(name);
  if (found == kernels().end()) return "no kernel " + name;
  const HostKernel& kernel = found->second;
  const auto wrong = simt::launch({{grid[0], grid[1]}, {block[0], block[1]}}, kernel.cooperative,
                                  [&] { kernel.body(parameters); });
  if (spoil) **static_cast<unsigned char**>(parameters[kernel.result]) ^= 1;
  return wrong;
}

}  // namespace mmaemu::testing
