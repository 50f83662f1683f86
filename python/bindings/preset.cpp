// preset.h and plan.h's SplitK for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {

void bind_preset(nb::module_& m) {
  nb::class_<Preset>(m, "Preset")
      .def(
          "__init__",
          [](Preset* self, std::string name, std::int64_t nfma, int frac, int frac_out, int min_exp,
             bool late_c, std::optional<std::int64_t> slow_chunk, std::string maturity,
             std::string validated_scope, std::vector<std::string> evidence) {
            Preset preset{std::move(name),
                          nfma,
                          frac,
                          frac_out,
                          min_exp,
                          late_c,
                          slow_chunk,
                          std::move(maturity),
                          std::move(validated_scope),
                          std::move(evidence)};
            raise_unless_ok(validate(preset));
            new (self) Preset(std::move(preset));
          },
          "name"_a, "nfma"_a, "frac"_a, "frac_out"_a, "min_exp"_a, "late_c"_a, "slow_chunk"_a.none(),
          "maturity"_a, "validated_scope"_a, "evidence"_a)
      .def_ro("name", &Preset::name)
      .def_ro("nfma", &Preset::nfma)
      .def_ro("frac", &Preset::frac)
      .def_ro("frac_out", &Preset::frac_out)
      .def_ro("min_exp", &Preset::min_exp)
      .def_ro("late_c", &Preset::late_c)
      .def_ro("slow_chunk", &Preset::slow_chunk)
      .def_ro("maturity", &Preset::maturity)
      .def_ro("validated_scope", &Preset::validated_scope)
      .def_ro("evidence", &Preset::evidence);
  m.def("shipped_presets", [] { return shipped_presets(); });
  m.def(
      "find_preset", [](const std::string& name) { return value_or_raise(find_preset(name)); }, "name"_a);
  m.def(
      "validate_split",
      [](std::int64_t S, const std::string& scheme) {
        raise_unless_ok(validate(SplitK{S, scheme_named(scheme)}));
      },
      "S"_a, "scheme"_a);
}

}  // namespace mmaemu::python
