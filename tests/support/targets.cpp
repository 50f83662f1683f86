#include "targets.h"

#include <ostream>

namespace mmaemu::testing {
namespace {

// The entry points with one CPU target forced; "model" is the judge itself.
Target forced(std::string_view name) {
  const auto on = [name](Execution execution) {
    execution.target = name;
    return execution;
  };
  return {std::string(name),
          [on](const OperandView& a, const OperandView& b, const Accumulation& how, const ResultView& out,
               const Execution& execution) { return accumulate(a, b, how, out, on(execution)); },
          [on](const OperandView& a, const OperandView& b, const Accumulation& how, const Epilogue& epilogue,
               const ResultView& out,
               const Execution& execution) { return scaled_mm(a, b, how, epilogue, out, on(execution)); },
          [on](const OperandView& a, const OperandView& b, const float* c, const Preset& preset, float* d,
               const Execution& execution) { return dot(a, b, c, preset, d, on(execution)); }};
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> all;
    for (const std::string_view name : cpu_targets()) all.push_back(forced(name));
    return all;
  }();
  return kTargets;
}

void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}

}  // namespace mmaemu::testing
