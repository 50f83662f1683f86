// Exhausted memory as an Error: for the function-try-blocks of public functions, which let no exception out.
#pragma once

#include <new>
#include <stdexcept>

#include "mmaemu/status.h"

namespace mmaemu {

// Called while an exception is handled: what the caller is told about exhausted memory. Any other exception
// goes on.
inline Error out_of_memory() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // a container beyond any memory
  }
  return {ErrorKind::out_of_memory, "out of memory"};  // a string that short takes no memory of its own
}

}  // namespace mmaemu
