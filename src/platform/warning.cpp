// The names of warning kinds, and the warning that goes with a preset.
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

std::optional<Warning> maturity_warning(const Preset& preset) {
  if (preset.maturity == "validated") return std::nullopt;
  return Warning{WarningKind::experimental_preset,
                 "preset \"" + preset.name + "\" is " + preset.maturity +
                     (preset.validated_scope.empty() ? ": no recording shows that hardware computes this"
                                                     : ": it " + preset.validated_scope),
                 "preset|" + preset.name};
}

}  // namespace mmaemu
