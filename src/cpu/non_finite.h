// Outputs that are NaN or infinite because an operand of theirs is. docs/semantics.md, section 4.
#pragma once

#include <cstdint>

#include "mmaemu/gemm.h"

namespace mmaemu::cpu {

// What the IEEE value of a sum of products is known to hold; an output's state starts as 0.
enum NonFinite : std::uint8_t { kHasNaN = 1, kHasPositiveInfinity = 2, kHasNegativeInfinity = 4 };

// Notes in states[i * stride] what the non-finite elements of row `row` of `one` make of its products with
// row i of `other`, for each of other's rows.
void note_non_finite(const OperandView& one, std::int64_t row, const OperandView& other, std::uint8_t* states,
                     std::int64_t stride);

// The fp32 bits of an output with a nonzero state.
std::uint32_t non_finite_value(std::uint8_t state);

}  // namespace mmaemu::cpu
