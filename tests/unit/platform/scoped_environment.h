// Sets environment variables for a test and restores them after it.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace mmaemu::testing {

class ScopedVariable {
 public:
  // Without a value the variable is unset.
  ScopedVariable(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) before_ = old;
    put(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { put(before_); }

 private:
  void put(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace mmaemu::testing
