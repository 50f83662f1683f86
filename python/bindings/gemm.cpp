// gemm.h for Python: operands and results are addresses with sizes and strides. The caller keeps the memory
// alive. The GIL is released while an engine runs; Ctrl-C ends it.
#include "mmaemu/gemm.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {
namespace {

template <class Run>
void run_without_gil(int threads, Run run) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = run(Execution{.threads = threads, .cancelled = [] {
                             const nb::gil_scoped_acquire held;
                             return PyErr_CheckSignals() != 0;
                           }});
  }
  raise_unless_ok(status);
}

// The products with a right operand of type B.
template <class B>
void bind_products(nb::module_& m) {
  m.def(
      "accumulate",
      [](const OperandView& a, const B& b, const Preset& preset, bool fast, std::int64_t S,
         const std::string& scheme, const ResultView& out, int threads) {
        const Accumulation how{preset, fast, {S, scheme_named(scheme)}};
        run_without_gil(threads, [&](const Execution& e) { return accumulate(a, b, how, out, e); });
      },
      "a"_a, "b"_a, "preset"_a, "fast"_a, "S"_a, "scheme"_a, "out"_a, "threads"_a);
  m.def(
      "scaled_mm",
      [](const OperandView& a, const B& b, const Preset& preset, bool fast, std::int64_t S,
         const std::string& scheme, float scale_a, float scale_b, std::optional<float> scale_result,
         const ResultView& out, int threads) {
        const Accumulation how{preset, fast, {S, scheme_named(scheme)}};
        const Epilogue epilogue{scale_a, scale_b, scale_result};
        run_without_gil(threads, [&](const Execution& e) { return scaled_mm(a, b, how, epilogue, out, e); });
      },
      "a"_a, "b"_a, "preset"_a, "fast"_a, "S"_a, "scheme"_a, "scale_a"_a, "scale_b"_a,
      "scale_result"_a.none(), "out"_a, "threads"_a);
}

}  // namespace

void bind_gemm(nb::module_& m) {
  nb::class_<OperandView>(m, "OperandView")
      .def(
          "__init__",
          [](OperandView* self, std::uintptr_t address, const std::string& format, std::int64_t rows,
             std::int64_t depth, std::int64_t row_stride, std::int64_t depth_stride) {
            new (self) OperandView{reinterpret_cast<const void*>(address),
                                   format_named(format),
                                   rows,
                                   depth,
                                   row_stride,
                                   depth_stride};
          },
          "address"_a, "format"_a, "rows"_a, "depth"_a, "row_stride"_a, "depth_stride"_a);
  nb::class_<ResultView>(m, "ResultView")
      .def(
          "__init__",
          [](ResultView* self, std::uintptr_t address, const std::string& format, std::int64_t rows,
             std::int64_t columns, std::int64_t row_stride, std::int64_t column_stride) {
            new (self) ResultView{reinterpret_cast<void*>(address),
                                  format_named(format),
                                  rows,
                                  columns,
                                  row_stride,
                                  column_stride};
          },
          "address"_a, "format"_a, "rows"_a, "columns"_a, "row_stride"_a, "column_stride"_a);

  m.def("cpu_targets", [] {
    const std::vector<std::string_view> names = cpu_targets();
    return std::vector<std::string>(names.begin(), names.end());
  });
  nb::class_<PackedOperand>(m, "PackedOperand")
      .def_static(
          "make",
          [](const OperandView& operand, int threads) {
            Result<PackedOperand> packed = Error{};
            run_without_gil(threads, [&](const Execution& e) {
              packed = PackedOperand::make(operand, e);
              return packed.ok() ? Status() : Status(packed.error());
            });
            return packed.value();
          },
          "operand"_a, "threads"_a);
  bind_products<OperandView>(m);
  bind_products<PackedOperand>(m);
  m.def(
      "dot",
      [](const OperandView& a, const OperandView& b, std::uintptr_t c, const Preset& preset, std::uintptr_t d,
         int threads) {
        run_without_gil(threads, [&](const Execution& e) {
          return dot(a, b, reinterpret_cast<const float*>(c), preset, reinterpret_cast<float*>(d), e);
        });
      },
      "a"_a, "b"_a, "c"_a, "preset"_a, "d"_a, "threads"_a);
  m.def("flush_to_zero_active", &flush_to_zero_active);
}

}  // namespace mmaemu::python
