// The names of warning kinds.
#include "mmaemu/platform.h"

namespace mmaemu {

std::string_view class_name(WarningKind kind) {
  switch (kind) {
    case WarningKind::user:
      return "UserWarning";
    case WarningKind::experimental_preset:
      return "ExperimentalPresetWarning";
    case WarningKind::unverified_split:
      return "UnverifiedSplitWarning";
    case WarningKind::unvalidated_envelope:
      return "UnvalidatedEnvelopeWarning";
    case WarningKind::backend_fallback:
      return "BackendFallbackWarning";
  }
  return "UserWarning";
}

}  // namespace mmaemu
