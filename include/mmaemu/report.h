// What the library says of a call and of itself, as JSON: one text for `explain` and `info` of the command
// and of the Python package, and for C. docs/command_line.md describes the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mmaemu/call.h"
#include "mmaemu/export.h"
#include "mmaemu/platform.h"
#include "mmaemu/preset.h"

namespace mmaemu {

MMAEMU_API std::string_view version();

// A call of scaled_mm as a command line names it: contiguous operands, tensor-wise scales, no out=.
struct ExplainRequest {
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
  std::string a = "e4m3";  // a format by PTX's or torch's name
  std::string b = "e4m3";
  std::optional<std::string> out;  // likewise, or "bf16", "fp16", "fp32"; none: that of a
  bool fast = false;
  double scale_a = 1.0;  // scales change the result, not the plan
  double scale_b = 1.0;
  std::optional<double> scale_result;
  std::optional<std::string> profile;  // none: $MMAEMU_PROFILE or "hopper"
  SplitRequest splitk;
  std::string backend = "auto";
  std::string device = "auto";  // "cpu", "cuda:N", or "auto": the first CUDA device, else the CPU
};

struct Explanation {
  std::string device;                      // "cpu", "cuda:0"
  std::optional<std::string> unavailable;  // why nothing can be said of a call on this device
  std::optional<Profile> profile;          // none where the request names no known one
  CallPlan plan;
};

// Never fails for an invalid call: plan.error holds what the call would raise.
MMAEMU_API Explanation explain(const ExplainRequest& request);

// The torch name of a format as a command line names it ("bf16" is "bfloat16"); other names pass through.
MMAEMU_API std::string dtype_named(std::string_view name);

// Objects of two spaces' indentation, all of ASCII, without a line feed at the end. Bytes that are not UTF-8
// become U+FFFD. OutOfMemory only.
MMAEMU_API Result<std::string> to_json(const ExplainRequest& request, const Explanation& explanation);
MMAEMU_API Result<std::string> to_json(const Profile& profile);
MMAEMU_API Result<std::string> to_json(const Preset& preset);
MMAEMU_API Result<std::string> to_json(const SplitDecision& split);

// Version, machine, targets, profiles, presets, backends and the environment's settings, for a CUDA device
// (none: the current one, else the CPU). KeyError for an unknown $MMAEMU_PROFILE. Of Python, torch and numpy
// the library knows nothing: null.
MMAEMU_API Result<std::string> info_json(std::optional<int> device = std::nullopt);

}  // namespace mmaemu
