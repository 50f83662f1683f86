// call.h for Python: descriptions of tensors in, plans out.
#include "mmaemu/call.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <optional>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {
namespace {

std::string_view name(OutAction action) {
  switch (action) {
    case OutAction::allocate:
      return "allocate";
    case OutAction::write:
      return "write";
    case OutAction::transposed:
      return "transposed";
    case OutAction::resize:
      return "resize";
    case OutAction::unchanged:
      break;
  }
  return "unchanged";
}

// The first plan on a device runs the gates: other threads run meanwhile. Plans on the CPU keep the GIL,
// which holds off os.environ's writers while the library reads variables.
template <class Plan>
CallPlan planned(const TensorDesc& operand, Plan plan) {
  std::optional<nb::gil_scoped_release> released;
  if (operand.device != "cpu") released.emplace();
  return plan();
}

}  // namespace

void bind_call(nb::module_& m) {
  nb::class_<TensorDesc>(m, "TensorDesc")
      .def(
          "__init__",
          [](TensorDesc* self, std::string dtype, std::vector<std::int64_t> shape,
             std::vector<std::int64_t> strides, std::int64_t offset, std::string device, bool requires_grad) {
            new (self) TensorDesc{std::move(dtype), std::move(shape),  std::move(strides),
                                  offset,           std::move(device), requires_grad};
          },
          "dtype"_a, "shape"_a, "strides"_a, "offset"_a, "device"_a, "requires_grad"_a);
  nb::class_<CallPlan>(m, "CallPlan")
      .def_prop_ro("error",
                   [](const CallPlan& p) -> std::optional<std::pair<std::string, std::string>> {
                     if (!p.error) return std::nullopt;
                     return std::pair{std::string(class_name(p.error->kind)), p.error->message};
                   })
      .def_ro("warnings", &CallPlan::warnings)
      .def_ro("M", &CallPlan::M)
      .def_ro("N", &CallPlan::N)
      .def_ro("K", &CallPlan::K)
      .def_ro("out_dtype", &CallPlan::out_dtype)
      .def_prop_ro("out_action", [](const CallPlan& p) { return name(p.out_action); })
      .def_ro("zero_size", &CallPlan::zero_size)
      .def_ro("split", &CallPlan::split)
      .def_ro("backend", &CallPlan::backend)
      .def_ro("fallbacks", &CallPlan::fallbacks)
      .def("raise_error", [](const CallPlan& p) {
        if (p.error) raise(*p.error);
      });
  m.def(
      "plan_scaled_mm",
      [](const TensorDesc& input, const TensorDesc& mat2, const TensorDesc& scale_a,
         const TensorDesc& scale_b, std::optional<TensorDesc> bias, std::optional<TensorDesc> scale_result,
         std::optional<std::string> out_dtype, bool use_fast_accum, std::optional<TensorDesc> out,
         const Profile& profile, nb::handle splitk, std::string backend, bool grad_mode) {
        const ScaledMmCall call{input,
                                mat2,
                                scale_a,
                                scale_b,
                                std::move(bias),
                                std::move(scale_result),
                                std::move(out_dtype),
                                use_fast_accum,
                                std::move(out),
                                profile,
                                split_request(splitk),
                                std::move(backend),
                                grad_mode};
        return planned(call.input, [&] { return plan_scaled_mm(call); });
      },
      "input"_a, "mat2"_a, "scale_a"_a, "scale_b"_a, "bias"_a.none(), "scale_result"_a.none(),
      "out_dtype"_a.none(), "use_fast_accum"_a, "out"_a.none(), "profile"_a, "splitk"_a.none(), "backend"_a,
      "grad_mode"_a);
  m.def(
      "plan_accumulate",
      [](const TensorDesc& a, const TensorDesc& b, bool use_fast_accum, const Profile& profile,
         nb::handle splitk, std::string backend, std::string out_dtype_for_split, bool grad_mode) {
        const AccumulateCall call{a,
                                  b,
                                  use_fast_accum,
                                  profile,
                                  split_request(splitk),
                                  std::move(backend),
                                  std::move(out_dtype_for_split),
                                  grad_mode};
        return planned(call.a, [&] { return plan_accumulate(call); });
      },
      "a"_a, "b"_a, "use_fast_accum"_a, "profile"_a, "splitk"_a.none(), "backend"_a, "out_dtype_for_split"_a,
      "grad_mode"_a);
  nb::class_<BackendStatus>(m, "BackendStatus")
      .def_ro("name", &BackendStatus::name)
      .def_ro("available", &BackendStatus::available)
      .def_ro("source", &BackendStatus::source)
      .def_ro("validated_here", &BackendStatus::validated_here)
      .def_ro("gates", &BackendStatus::gates)
      .def_ro("reason", &BackendStatus::reason);
  m.def("backends_status", &backends_status, "device"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace mmaemu::python
