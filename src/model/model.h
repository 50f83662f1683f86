// The judge: what a reference GPU computes, in plain loops over exact integers. Every other engine is
// compared with it bit by bit, and it with recordings of hardware. It includes no other engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mmaemu/gemm.h"

namespace mmaemu::model {

// The fp32 accumulator of output (m, n): chains, their combination and the non-finite rule. Sections 3 and 4.
class Accumulator {
 public:
  // The views, the preset and the plan must outlive it. Keeps a bit per row of a and of b.
  Accumulator(const OperandView& a, const OperandView& b, const Preset& preset, const AccumulationPlan& plan);
  std::uint32_t operator()(std::int64_t m, std::int64_t n) const;

 private:
  const OperandView& a_;
  const OperandView& b_;
  const Preset& preset_;
  const AccumulationPlan& plan_;
  std::vector<bool> a_non_finite_;  // rows with a NaN or an infinity
  std::vector<bool> b_non_finite_;
};

// One chain over the rows `row` of a and b, from c. Follows IEEE for non-finite values.
std::uint32_t dot(const OperandView& a, const OperandView& b, std::int64_t row, std::uint32_t c,
                  const Preset& preset);

// The result of `epilogue` for an accumulator: a code of `out`. Section 5.
std::uint32_t apply_epilogue(std::uint32_t accumulator, const Epilogue& epilogue, const Format& out);

}  // namespace mmaemu::model
