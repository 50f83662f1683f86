// platform.h for Python: profiles and split decisions. Warnings cross as (class name, message, once key).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mmaemu::python {
namespace {

using Rejections = std::vector<std::vector<std::string>>;  // a_format, b_format, out_dtype, message

void construct_profile(Profile* self, std::string name, const Preset& preset,
                       std::optional<std::string> gpu_name, std::optional<std::pair<int, int>> capability,
                       std::optional<int> sm_count, std::optional<std::string> cublaslt_version,
                       std::string caller, std::optional<std::string> torch_version,
                       std::optional<std::int64_t> workspace_bytes, std::optional<int> align,
                       std::optional<std::string> splitk_table, const Rejections& rejects,
                       std::string maturity, std::optional<std::string> splitk_maturity) {
  std::vector<Rejection> rules;
  for (const std::vector<std::string>& r : rejects) rules.push_back({r.at(0), r.at(1), r.at(2), r.at(3)});
  new (self) Profile{std::move(name),
                     preset,
                     std::move(gpu_name),
                     capability,
                     sm_count,
                     std::move(cublaslt_version),
                     std::move(caller),
                     std::move(torch_version),
                     workspace_bytes,
                     align,
                     std::move(splitk_table),
                     std::move(rules),
                     std::move(maturity),
                     std::move(splitk_maturity)};
}

}  // namespace

void bind_platform(nb::module_& m) {
  nb::class_<Rejection>(m, "Rejection")
      .def_ro("a_format", &Rejection::a_format)
      .def_ro("b_format", &Rejection::b_format)
      .def_ro("out_dtype", &Rejection::out_dtype)
      .def_ro("message", &Rejection::message);
  nb::class_<Profile>(m, "Profile")
      .def("__init__", &construct_profile, "name"_a, "preset"_a, "gpu_name"_a.none(), "capability"_a.none(),
           "sm_count"_a.none(), "cublaslt_version"_a.none(), "caller"_a, "torch_version"_a.none(),
           "workspace_bytes"_a.none(), "align"_a.none(), "splitk_table"_a.none(), "rejects"_a, "maturity"_a,
           "splitk_maturity"_a.none())
      .def_ro("name", &Profile::name)
      .def_ro("preset", &Profile::preset)
      .def_ro("gpu_name", &Profile::gpu_name)
      .def_ro("capability", &Profile::capability)
      .def_ro("sm_count", &Profile::sm_count)
      .def_ro("cublaslt_version", &Profile::cublaslt_version)
      .def_ro("caller", &Profile::caller)
      .def_ro("torch_version", &Profile::torch_version)
      .def_ro("workspace_bytes", &Profile::workspace_bytes)
      .def_ro("align", &Profile::align)
      .def_ro("splitk_table", &Profile::splitk_table)
      .def_ro("rejects", &Profile::rejects)
      .def_ro("maturity", &Profile::maturity)
      .def_ro("splitk_maturity", &Profile::splitk_maturity);
  nb::class_<Warning>(m, "Warning")
      .def_prop_ro("category", [](const Warning& w) { return class_name(w.kind); })
      .def_ro("message", &Warning::message)
      .def_ro("once_key", &Warning::once_key);
  nb::class_<SplitDecision>(m, "SplitDecision")
      .def_ro("S", &SplitDecision::S)
      .def_prop_ro("scheme", [](const SplitDecision& d) { return name(d.scheme); })
      .def_ro("source", &SplitDecision::source)
      .def_ro("verified", &SplitDecision::verified)
      .def_ro("table_id", &SplitDecision::table_id)
      .def_ro("note", &SplitDecision::note);

  m.def("shipped_profiles", [] { return shipped_profiles(); });
  m.def(
      "find_profile", [](const std::string& name) { return value_or_raise(find_profile(name)); }, "name"_a);
  m.def("matches_device", &matches_device, "profile"_a, "device"_a.none());
  m.def("cuda_device_name", &cuda_device_name, "device"_a.none());
  m.def("maturity_warning", &maturity_warning, "preset"_a);
  m.def(
      "resolve_splitk",
      [](std::int64_t M, std::int64_t N, std::int64_t K, std::string a_format, std::string b_format,
         std::string out_dtype, bool fast, const Profile& profile, nb::handle splitk, bool layout_std,
         std::optional<bool> strict) {
        SplitResolution r = value_or_raise(resolve_splitk({M, N, K, std::move(a_format), std::move(b_format),
                                                           std::move(out_dtype), fast, layout_std, strict},
                                                          profile, split_request(splitk)));
        return std::pair(std::move(r.decision), std::move(r.warnings));
      },
      "M"_a, "N"_a, "K"_a, "a_format"_a, "b_format"_a, "out_dtype"_a, "fast"_a, "profile"_a,
      "splitk"_a.none(), "layout_std"_a, "strict"_a.none());
}

}  // namespace mmaemu::python
