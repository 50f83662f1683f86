// Errors as values. No function of the library throws or aborts on bad input, nor does one that can return an
// Error on exhausted memory. The Python package maps the kinds one to one onto its exception classes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "mmaemu/export.h"

namespace mmaemu {

// What went wrong, named as the Python exception that carries it.
enum class ErrorKind {
  type_error,           // TypeError
  value_error,          // ValueError
  key_error,            // KeyError
  out_of_memory,        // MemoryError
  cancelled,            // the caller's Execution::cancelled said so; Python: KeyboardInterrupt
  mmaemu_error,         // MmaemuError
  reference_rejects,    // ReferenceRejectsError: torch 2.7.1 or the profile's cuBLAS rejects the call
  unsupported_feature,  // UnsupportedFeatureError
  split_unknown,        // SplitKUnknownError
  backend_unavailable,  // BackendUnavailableError
};

// The Python class name of a kind, e.g. "ReferenceRejectsError".
MMAEMU_API std::string_view class_name(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string message;  // names the argument, what was found, what is needed
  friend bool operator==(const Error&, const Error&) = default;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error)
      : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor): `return Error{...}`
  bool ok() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// A value, or an Error. value() may only be called when ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return std::holds_alternative<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace mmaemu
