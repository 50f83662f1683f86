// The arithmetic over plain views of the caller's memory: accumulate, scaled_mm, dot. Nothing here knows
// torch's call contract (call.h) or how a split is chosen (platform.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "mmaemu/export.h"
#include "mmaemu/formats.h"
#include "mmaemu/plan.h"
#include "mmaemu/preset.h"
#include "mmaemu/status.h"

namespace mmaemu {

// An operand: `rows` vectors of `depth` codes (K). The product of a [M, K] and b [N, K] is [M, N]; a weight
// is passed as its N rows. Strides are in elements and may be anything the memory holds, so no layout needs a
// copy.
struct OperandView {
  const void* data = nullptr;
  FormatId format = FormatId::e4m3;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t row_stride = 0;
  std::int64_t depth_stride = 1;
};

// A result of `rows` x `columns` numbers. Strides in elements; no two elements may share memory, nor may the
// result overlap an operand.
struct ResultView {
  void* data = nullptr;
  FormatId format = FormatId::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
};

// How the K products of an output are summed.
struct Accumulation {
  Preset preset = {};
  bool fast = true;  // one chain per split, else a chain per slow_chunk elements
  SplitK split = {};
};

// From the fp32 accumulator to the result. docs/semantics.md, section 5.
struct Epilogue {
  float scale_a = 1.0F;
  float scale_b = 1.0F;
  std::optional<float> scale_result = {};  // used for FP8 results only
};

// How a call is carried out. Never changes a bit of the result.
struct Execution {
  int threads = 0;  // 0: as many as the process may run on (its affinity mask)
  // Polled by the calling thread every few tens of milliseconds; true ends the call with
  // ErrorKind::cancelled, the result memory then holding part of the result.
  std::function<bool()> cancelled = {};
  // The instruction set of the CPU engine, one of cpu_targets(): "avx3_dl", "avx3", "avx2", "neon",
  // "portable", or "model" for the specification's plain integer code. Empty: $MMAEMU_CPU_TARGET where that
  // is set, else the best.
  std::string_view target = {};
};

// The targets that are compiled in and that this processor has, best first; "portable" and "model" are always
// among them.
MMAEMU_API std::vector<std::string_view> cpu_targets();

// The target that a call runs on whose preset the engine serves; the model serves all others. ValueError for
// a name that is none of cpu_targets().
MMAEMU_API Result<std::string_view> cpu_target(const Execution& execution = {});

// out[m, n] = fp32 accumulator of sum_k a[m, k] * b[n, k]; out is float32.
// Temporary memory: at most 3 MiB per thread, whatever the shape; where the model computes, a bit per row of
// a and of b. Errors: ValueError for views that do not fit together, formats that are no operands or an
// unknown target, else what AccumulationPlan::make returns.
MMAEMU_API Status accumulate(const OperandView& a, const OperandView& b, const Accumulation& how,
                             const ResultView& out, const Execution& execution = {});

// out[m, n] = epilogue(accumulator[m, n]) rounded to out's format. K = 0 gives +0 whatever the scales.
// Temporary memory and errors as accumulate.
MMAEMU_API Status scaled_mm(const OperandView& a, const OperandView& b, const Accumulation& how,
                            const Epilogue& epilogue, const ResultView& out, const Execution& execution = {});

// An operand copied once into the order in which the CPU engine reads its rows as columns of the product: a
// weight that many products use. Immutable; any number of calls may use it at once.
class MMAEMU_API PackedOperand {
 public:
  // The operand is not needed afterwards. Memory: two bytes a code, rows rounded up to 64. ValueError as
  // accumulate, OutOfMemory.
  static Result<PackedOperand> make(const OperandView& operand, const Execution& execution = {});

  const OperandView& view() const { return view_; }             // rows of K, contiguous
  const std::uint8_t* strips() const { return strips_.get(); }  // [row / 64][K][row % 64]

 private:
  std::shared_ptr<std::uint8_t[]> codes_;
  std::shared_ptr<std::uint8_t[]> strips_;
  OperandView view_;
};

// The same bits as with b.view().
MMAEMU_API Status accumulate(const OperandView& a, const PackedOperand& b, const Accumulation& how,
                             const ResultView& out, const Execution& execution = {});
MMAEMU_API Status scaled_mm(const OperandView& a, const PackedOperand& b, const Accumulation& how,
                            const Epilogue& epilogue, const ResultView& out, const Execution& execution = {});

// d[r] = one chain over K from c[r] (+0 where c is null): d = c + a_0 b_0 + a_1 b_1 + ... a and b have the
// same shape; c and d are `rows` contiguous fp32 numbers. Non-finite values follow IEEE; K = 0 returns c with
// NaN canonical. The model computes, whatever the target, which is checked as in every other call.
MMAEMU_API Status dot(const OperandView& a, const OperandView& b, const float* c, const Preset& preset,
                      float* d, const Execution& execution = {});

// Whether the calling thread flushes subnormal fp32 numbers to zero. The library's own results do not depend
// on it; the Python package refuses such calls.
MMAEMU_API bool flush_to_zero_active();

}  // namespace mmaemu
