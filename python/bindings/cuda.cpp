// cuda.h for Python: addresses on a device with sizes, and what the gates said. The GIL is released
// meanwhile.
#include "mmaemu/cuda.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {

void bind_cuda(nb::module_& m) {
  nb::class_<GateResult>(m, "GateResult")
      .def_ro("name", &GateResult::name)
      .def_ro("passed", &GateResult::passed)
      .def_ro("reason", &GateResult::reason)
      .def_ro("details", &GateResult::details)
      .def_ro("seconds", &GateResult::seconds)
      .def_ro("cached", &GateResult::cached);
  nb::class_<KernelVerdict>(m, "KernelVerdict")
      .def_ro("kernel", &KernelVerdict::kernel)
      .def_ro("required", &KernelVerdict::required)
      .def_ro("gates", &KernelVerdict::gates);
  m.def(
      "selftest",
      [](const std::string& device, const std::vector<std::string>& kernels, bool force) {
        Result<std::vector<KernelVerdict>> verdicts = Error{};
        {
          const nb::gil_scoped_release released;
          verdicts = selftest(device, kernels, force);
        }
        return value_or_raise(std::move(verdicts));
      },
      "device"_a, "kernels"_a, "force"_a);
  m.def(
      "cuda_workspace_bytes",
      [](const std::string& backend, const OperandView& a, const OperandView& b, const Preset& preset,
         bool fast, std::int64_t S, const std::string& scheme, const ResultView& out) {
        const Accumulation how{preset, fast, {S, scheme_named(scheme)}};
        return value_or_raise(cuda_workspace_bytes(backend, a, b, how, out));
      },
      "backend"_a, "a"_a, "b"_a, "preset"_a, "fast"_a, "S"_a, "scheme"_a, "out"_a);
  // scales: None for the accumulator, else three addresses, the last of which may be 0.
  m.def(
      "cuda_product",
      [](const std::string& backend, const OperandView& a, const OperandView& b, const Preset& preset,
         bool fast, std::int64_t S, const std::string& scheme, const ResultView& out,
         const std::optional<std::vector<std::uintptr_t>>& scales, int device, std::uintptr_t stream,
         std::uintptr_t workspace, std::size_t workspace_bytes) {
        const Accumulation how{preset, fast, {S, scheme_named(scheme)}};
        const CudaQueue queue{device, reinterpret_cast<void*>(stream), reinterpret_cast<void*>(workspace),
                              workspace_bytes};
        const auto scale = [&](std::size_t i) { return reinterpret_cast<const float*>(scales->at(i)); };
        Status status;
        {
          const nb::gil_scoped_release released;
          status = scales ? cuda_scaled_mm(backend, a, b, how, {scale(0), scale(1), scale(2)}, out, queue)
                          : cuda_accumulate(backend, a, b, how, out, queue);
        }
        raise_unless_ok(status);
      },
      "backend"_a, "a"_a, "b"_a, "preset"_a, "fast"_a, "S"_a, "scheme"_a, "out"_a, "scales"_a.none(),
      "device"_a, "stream"_a, "workspace"_a, "workspace_bytes"_a);
}

}  // namespace mmaemu::python
