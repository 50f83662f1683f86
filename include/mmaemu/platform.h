// Reference platforms and the split of K that their cuBLAS takes. docs/presets_profiles.md. What a split
// means for the arithmetic is in plan.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "mmaemu/export.h"
#include "mmaemu/plan.h"
#include "mmaemu/preset.h"
#include "mmaemu/status.h"

namespace mmaemu {

// A combination that the platform's cuBLAS refuses. Formats are PTX names, out_dtype is torch's name.
struct Rejection {
  std::string a_format;
  std::string b_format;
  std::string out_dtype;
  std::string message;
  friend bool operator==(const Rejection&, const Rejection&) = default;
};

struct Profile {
  std::string name;
  Preset preset;
  std::optional<std::string> gpu_name;
  std::optional<std::pair<int, int>> capability;
  std::optional<int> sm_count;
  std::optional<std::string> cublaslt_version;
  std::string caller;  // "torch._scaled_mm" or "transformer_engine"
  std::optional<std::string> torch_version;
  std::optional<std::int64_t> workspace_bytes;
  std::optional<int> align;                 // minimum alignment the caller promises cuBLASLt, bytes
  std::optional<std::string> splitk_table;  // id of the recorded table
  std::vector<Rejection> rejects;
  std::string maturity;                        // "validated", "experimental", "custom"
  std::optional<std::string> splitk_maturity;  // likewise; none: no split decisions
  friend bool operator==(const Profile&, const Profile&) = default;
};

// In the order ada, ada-te, ada-ws0, hopper, hopper-te, hopper-ws0, hopper-experimental,
// b200-mma-sync-experimental.
MMAEMU_API const std::vector<Profile>& shipped_profiles();

// KeyError with the known names. An empty name means $MMAEMU_PROFILE, else "hopper".
MMAEMU_API Result<Profile> find_profile(std::string_view name);

// Likewise of a name that may not be given, which means the default; one that is given and empty is unknown.
MMAEMU_API Result<Profile> find_profile_or_default(const std::optional<std::string>& name);

// The CUDA device (none: the current one, else device 0) has the profile's GPU name and SM count, and the
// cuBLASLt of this process has its version: major.minor.patch, and the build where both have one. False for a
// profile without them, without CUDA, with $MMAEMU_DISABLE_CUDA=1 or on any error. Creates no CUDA context.
MMAEMU_API bool matches_device(const Profile& profile, std::optional<int> device = std::nullopt);

// The name of a CUDA device (none: the current one, else device 0); none where there is no such device, no
// driver, or $MMAEMU_DISABLE_CUDA=1. Creates no CUDA context.
MMAEMU_API std::optional<std::string> cuda_device_name(std::optional<int> device = std::nullopt);

enum class WarningKind {
  user,                  // UserWarning
  experimental_preset,   // ExperimentalPresetWarning
  unverified_split,      // UnverifiedSplitWarning
  unvalidated_envelope,  // UnvalidatedEnvelopeWarning
  backend_fallback,      // BackendFallbackWarning
};

// The Python class name of a kind, e.g. "UnverifiedSplitWarning".
MMAEMU_API std::string_view class_name(WarningKind kind);

struct Warning {
  WarningKind kind;
  std::string message;
  std::string once_key;  // emitted once per process and key; empty: every time
  friend bool operator==(const Warning&, const Warning&) = default;
};

// What the use of a preset that is not validated says to the user, once per process and preset name.
MMAEMU_API std::optional<Warning> maturity_warning(const Preset& preset);

struct SplitDecision {
  std::int64_t S = 1;
  SplitScheme scheme = SplitScheme::none;
  std::string source;  // "explicit", "workspace0", "table", "live-query", "envelope"
  bool verified = true;
  std::optional<std::string> table_id;
  std::string note;
  friend bool operator==(const SplitDecision&, const SplitDecision&) = default;
};

// What the caller asked for: nothing ("auto"), a bare integer (only 1 is unambiguous), or an S with a scheme,
// which may be one that a user wrote and nothing has looked at yet.
struct SplitAuto {};
struct SplitAsWritten {
  std::int64_t S = 1;
  std::string scheme;
};
using SplitRequest = std::variant<SplitAuto, std::int64_t, SplitK, SplitAsWritten>;

struct SplitQuery {
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
  std::string a_format;   // "e4m3" or "e5m2", in PTX's or torch's spelling
  std::string b_format;   // likewise
  std::string out_dtype;  // "float32", "bfloat16", "float16", or an FP8 format as above
  bool fast = false;
  bool layout_std = true;      // operands contiguous in the standard layout
  std::optional<bool> strict;  // none: $MMAEMU_SPLITK_STRICT == "1"
};

struct SplitResolution {
  SplitDecision decision;
  std::vector<Warning> warnings;
};

// The split decision for an M x N x K call on the profile's platform: explicit, workspace0, table,
// live-query, envelope, in that order. Warnings come with every call: emitting one once per key is the
// caller's part. A scheme that the preset does not take is not an error here but where the call is planned.
// Errors: ValueError for a negative size, an unknown format, an invalid or ambiguous explicit split, and an
// environment variable out of range; SplitKUnknownError where the evidence ends; MmaemuError for a corrupt
// table. Needs no CUDA. Reads $MMAEMU_SPLITK_STRICT; asks the profile's GPU only where the recorded rows do
// not answer and $MMAEMU_DISABLE_CUDA is not 1.
MMAEMU_API Result<SplitResolution> resolve_splitk(const SplitQuery& query, const Profile& profile,
                                                  const SplitRequest& request);

}  // namespace mmaemu
