// Operand codes made to hit what the CPU engine's proof rests on.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "mmaemu/formats.h"

namespace mmaemu::testing {

using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

enum class OperandClass : std::uint8_t {
  any_finite,         // every finite code alike
  bell,               // most values within a few binades, as weights and activations are
  extremes,           // the largest, the smallest normal and the smallest subnormal numbers
  subnormal,          // subnormals and zeros
  sparse,             // zeros of both signs, few others
  zero_blocks,        // whole blocks of zeros
  cancelling,         // pairs of products that cancel, exactly or but for one quantum
  one_sign,           // sums that grow: the edge of the binade, accumulators above every product
  on_the_grid,        // one product sets the grid, the others end one quantum above, on or below it
  tight_accumulator,  // accumulators of 14 bits, then blocks with larger and smaller exponents
  non_finite,         // a few NaNs and infinities
  mostly_infinite,    // infinities and zeros everywhere
};
inline constexpr int kOperandClasses = 12;

std::string_view name(OperandClass c);

struct Operands {
  std::vector<std::uint8_t> a;  // [M, K]
  std::vector<std::uint8_t> b;  // [N, K]
};

Operands make_operands(OperandClass c, const Format& a, const Format& b, std::int64_t M, std::int64_t N,
                       std::int64_t K, std::int64_t block, Random& random);

}  // namespace mmaemu::testing
