// The private extension module mmaemu._native, a thin view of the C++ API: no arithmetic, no policy.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bindings.h"

namespace nb = nanobind;

namespace mmaemu::python {

void raise(const Error& error) {
  if (error.kind == ErrorKind::cancelled) {
    if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  const std::string name(class_name(error.kind));
  const nb::object builtins = nb::module_::import_("builtins");
  const nb::object home =
      nb::hasattr(builtins, name.c_str()) ? builtins : nb::module_::import_("mmaemu.errors");
  const nb::object type = home.attr(name.c_str());
  // A message may quote any bytes: a name with a null character, an environment variable that is not UTF-8.
  const auto message = nb::steal<nb::str>(PyUnicode_DecodeUTF8(
      error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "backslashreplace"));
  PyErr_SetObject(type.ptr(), message.ptr());
  throw nb::python_error();
}

FormatId format_named(const std::string& name) {
  const std::optional<FormatId> id = find_format(name);
  if (!id) raise({ErrorKind::value_error, "\"" + name + "\" is not a number format"});
  return *id;
}

SplitScheme scheme_named(const std::string& name) {
  return value_or_raise(parse_scheme(name));
}

SplitRequest split_request(nb::handle splitk) {
  if (splitk.is_none()) return SplitAuto{};
  if (nb::isinstance<nb::int_>(splitk)) return nb::cast<std::int64_t>(splitk);
  auto [S, scheme] = nb::cast<std::pair<std::int64_t, std::string>>(splitk);
  return SplitAsWritten{S, std::move(scheme)};
}

}  // namespace mmaemu::python

NB_MODULE(_native, m) {
  mmaemu::python::bind_preset(m);
  mmaemu::python::bind_platform(m);
  mmaemu::python::bind_gemm(m);
  mmaemu::python::bind_call(m);
  mmaemu::python::bind_cuda(m);
  mmaemu::python::bind_report(m);
}
