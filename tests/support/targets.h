// The engines under test. A target is one way to compute the three operations of mmaemu/gemm.h; every suite
// that judges bits runs once for each entry of targets(). Another engine is one more line in targets.cpp.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "mmaemu/gemm.h"

namespace mmaemu::testing {

struct Target {
  std::string name;  // letters and digits: part of test names
  std::function<Status(const OperandView& a, const OperandView& b, const Accumulation& how,
                       const ResultView& out, const Execution& execution)>
      accumulate;
  std::function<Status(const OperandView& a, const OperandView& b, const Accumulation& how,
                       const Epilogue& epilogue, const ResultView& out, const Execution& execution)>
      scaled_mm;
  std::function<Status(const OperandView& a, const OperandView& b, const float* c, const Preset& preset,
                       float* d, const Execution& execution)>
      dot;
};

// Those that this processor has, the one that calls run on by default first.
const std::vector<Target>& targets();

// What GoogleTest calls a target in a parameterised test.
void PrintTo(const Target& target, std::ostream* out);

}  // namespace mmaemu::testing
