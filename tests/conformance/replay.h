// Replays a recorded case on a target and compares every output bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "golden.h"
#include "targets.h"

namespace mmaemu::testing {

struct Outcome {
  std::int64_t outputs = 0;           // compared
  std::vector<std::string> failures;  // one text for each output that is wrong
};

// One output: d of the case.
Outcome replay_dot(const Target& target, const golden::DotCase& recorded, golden::Archives& archives);

// An output for each call. A call is planned first (plan_scaled_mm, plan_accumulate), so that a rejected one
// never reaches the target.
Outcome replay_calls(const Target& target, const golden::CallCase& recorded, golden::Archives& archives);

// An output for each vector of the set.
Outcome replay_toolbox(const Target& target, const golden::ToolboxSet& recorded, golden::Archives& archives);

}  // namespace mmaemu::testing
