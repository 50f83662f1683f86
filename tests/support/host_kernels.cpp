// Every kernel of the library by name, as compiled for compute capability MMAEMU_HOST_ARCHITECTURE (80: 8.0).
#include "host_kernels.h"

#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "simt/instructions.h"
#include "simt/simt.h"

// Another file has the kernels of another architecture by the same names.
namespace {
#include "cuda/kernels/compose.cu"
#include "cuda/kernels/fast.cu"
#include "cuda/kernels/gated.cu"
#include "cuda/kernels/portable.cu"
}  // namespace

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
      {"mmaemu_v9_e4m3e4m3", tiled(mmaemu_v9_e4m3e4m3)},
      {"mmaemu_tc3_e4m3e4m3", tiled(mmaemu_tc3_e4m3e4m3)},
      {"mmaemu_probe_window", host(mmaemu_probe_window, 0, true)},
      {"mmaemu_probe_design_a", host(mmaemu_probe_design_a, 0, true)},
  };
  return all;
}

}  // namespace

template <>
std::optional<std::string> run_compiled_for<MMAEMU_HOST_ARCHITECTURE>(const HostLaunch& launch) {
  const auto found = kernels().find(launch.kernel);
  if (found == kernels().end()) return "no kernel " + launch.kernel;
  const HostKernel& kernel = found->second;
  const auto wrong = simt::launch({{launch.grid[0], launch.grid[1]}, {launch.block[0], launch.block[1]}},
                                  kernel.cooperative, [&] { kernel.body(launch.parameters); });
  if (launch.spoil) **static_cast<unsigned char**>(launch.parameters[kernel.result]) ^= 1;
  return wrong;
}

}  // namespace mmaemu::testing
