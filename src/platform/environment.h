// The environment variables that platform decisions read. Nothing is cached: a change takes effect at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mmaemu/status.h"

namespace mmaemu {

// The variable's value; empty when it is not set.
std::string environment_text(const char* variable);

// False for unset, "" and "0", true for "1"; ValueError naming the variable for anything else.
Result<bool> environment_flag(const char* variable);

// The variables of mmaemu that are set, with their values: those that the library reads, and
// $MMAEMU_NUM_THREADS, which the Python package reads.
std::vector<std::pair<std::string, std::string>> environment_settings();

}  // namespace mmaemu
