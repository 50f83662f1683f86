// The names of error kinds.
#include "mmaemu/status.h"

namespace mmaemu {

std::string_view class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::type_error:
      return "TypeError";
    case ErrorKind::value_error:
      return "ValueError";
    case ErrorKind::key_error:
      return "KeyError";
    case ErrorKind::out_of_memory:
      return "MemoryError";
    case ErrorKind::cancelled:
      return "KeyboardInterrupt";
    case ErrorKind::mmaemu_error:
      return "MmaemuError";
    case ErrorKind::reference_rejects:
      return "ReferenceRejectsError";
    case ErrorKind::unsupported_feature:
      return "UnsupportedFeatureError";
    case ErrorKind::split_unknown:
      return "SplitKUnknownError";
    case ErrorKind::backend_unavailable:
      return "BackendUnavailableError";
  }
  return "MmaemuError";
}

}  // namespace mmaemu
