// Slow, independent formulas for values and rounding, written with ldexp and nearbyint rather than with
// integers: what the library's own bit manipulation is judged by.
#pragma once

#include <cstdint>

#include "mmaemu/formats.h"

namespace mmaemu::testing {

// The value of a code by the format's definition: exact, since every format fits a double.
double value_of(const Format& f, std::uint32_t code);

// The code nearest to `value`, ties to the even code; a magnitude that rounds beyond the largest finite value
// becomes it where the format saturates, else infinity. NaN becomes the canonical NaN.
std::uint32_t nearest_code(const Format& f, double value);

// The epilogue of scaled_mm for one accumulator, in doubles (docs/semantics.md, section 5). scale_result is a
// null pointer where none is given.
std::uint32_t epilogue_code(const Format& f, float accumulator, float scale_a, float scale_b,
                            const float* scale_result);

}  // namespace mmaemu::testing
