// The environment variables that platform decisions read. Nothing is cached: a change takes effect at once.
#pragma once

#include <string>

#include "mmaemu/status.h"

namespace mmaemu {

// The variable's value; empty when it is not set.
std::string environment_text(const char* variable);

// False for unset, "" and "0", true for "1"; ValueError naming the variable for anything else.
Result<bool> environment_flag(const char* variable);

}  // namespace mmaemu
