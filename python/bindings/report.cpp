// report.h for Python: the texts of `explain --json` and `info --json`.
#include "mmaemu/report.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {

void bind_report(nb::module_& m) {
  m.def("version", [] { return version(); });
  m.def(
      "explain_json",
      [](std::int64_t M, std::int64_t N, std::int64_t K, std::string a, std::string b,
         std::optional<std::string> out, bool fast, double scale_a, double scale_b,
         std::optional<double> scale_result, std::optional<std::string> profile, nb::handle splitk,
         std::string backend, std::string device) {
        const ExplainRequest request{.M = M,
                                     .N = N,
                                     .K = K,
                                     .a = std::move(a),
                                     .b = std::move(b),
                                     .out = std::move(out),
                                     .fast = fast,
                                     .scale_a = scale_a,
                                     .scale_b = scale_b,
                                     .scale_result = scale_result,
                                     .profile = std::move(profile),
                                     .splitk = split_request(splitk),
                                     .backend = std::move(backend),
                                     .device = std::move(device)};
        return value_or_raise(to_json(request, explain(request)));
      },
      "M"_a, "N"_a, "K"_a, "a"_a, "b"_a, "out"_a.none(), "fast"_a, "scale_a"_a, "scale_b"_a,
      "scale_result"_a.none(), "profile"_a.none(), "splitk"_a.none(), "backend"_a, "device"_a);
  m.def(
      "info_json", [](std::optional<int> device) { return value_or_raise(info_json(device)); },
      "device"_a.none());
}

}  // namespace mmaemu::python
