// What the binding files share: errors become the package's exceptions, formats and splits cross by name.
#pragma once

#include <nanobind/nanobind.h>
#include <string>

#include "mmaemu/formats.h"
#include "mmaemu/plan.h"
#include "mmaemu/platform.h"
#include "mmaemu/status.h"

namespace mmaemu::python {

// Throws the package's exception class of the error's kind.
[[noreturn]] void raise(const Error& error);

inline void raise_unless_ok(const Status& status) {
  if (!status.ok()) raise(status.error());
}

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

// ValueError for an unknown name.
FormatId format_named(const std::string& name);
SplitScheme scheme_named(const std::string& name);

// None: auto; an int: a bare S; (S, scheme): that split. The package has checked the types.
SplitRequest split_request(nanobind::handle splitk);

void bind_preset(nanobind::module_& m);
void bind_platform(nanobind::module_& m);
void bind_gemm(nanobind::module_& m);
void bind_call(nanobind::module_& m);
void bind_cuda(nanobind::module_& m);
void bind_report(nanobind::module_& m);

}  // namespace mmaemu::python
