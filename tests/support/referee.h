// Slow, independent formulas: values and rounding written with ldexp and nearbyint, block steps with trunc on
// doubles, plans as lists of indices. What the library's own integers are judged by. They assume round to
// nearest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mmaemu/formats.h"
#include "mmaemu/plan.h"
#include "mmaemu/preset.h"

namespace mmaemu::testing::referee {

// The value of a code by the format's definition: exact, since every format fits a double.
double value_of(const Format& f, std::uint32_t code);

// The code nearest to `value`, ties to the even code; a magnitude that rounds beyond the largest finite value
// becomes it where the format saturates, else infinity. NaN becomes the canonical NaN.
std::uint32_t nearest_code(const Format& f, long double value);

// The epilogue of scaled_mm for one accumulator, in doubles (docs/semantics.md, section 5).
std::uint32_t epilogue_code(const Format& f, float acc, float scale_a, float scale_b,
                            std::optional<float> scale_result);

// One operand row: codes of a format.
struct CodeRow {
  FormatId format = FormatId::e4m3;
  std::span<const std::uint8_t> codes;
};

// One block step over all of `a` and `b` (docs/semantics.md, section 2); finite operands only. Exact while
// a.size() * 2^(frac + 2) <= 2^53.
float block_step(const Preset& preset, const CodeRow& a, const CodeRow& b, float c);

// A chain over all of `a` and `b`, from c, in blocks of nfma; non-finite values follow IEEE.
float chain(const Preset& preset, const CodeRow& a, const CodeRow& b, float c);

// K indices of every chain of every split, as section 3 says: lists[split][chain] are indices in order. A
// split without elements has no chains.
using IndexLists = std::vector<std::vector<std::vector<std::int64_t>>>;
IndexLists index_lists(const Preset& preset, std::int64_t depth, bool fast, const SplitK& split);

// The accumulator of a GEMM's output with the operand rows a and b: chains, combination, non-finite rule.
float accumulator(const Preset& preset, const CodeRow& a, const CodeRow& b, bool fast, const SplitK& split);

}  // namespace mmaemu::testing::referee
