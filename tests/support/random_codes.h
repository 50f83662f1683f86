// Operand rows and accumulators by class, since uniform bits hardly ever meet the corners.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "mmaemu/formats.h"
#include "mmaemu/preset.h"

namespace mmaemu::testing {

class RandomCodes {
 public:
  explicit RandomCodes(std::uint64_t seed) : random_(seed) {}

  // 0 <= value < bound.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<std::int64_t>(choices.size())))];
  }

  // `count` codes of one class: any finite, a few binades, subnormals and zeros, the largest, or any finite
  // with a non-finite one here and there.
  std::vector<std::uint8_t> row(FormatId id, std::int64_t count);

  // `count` codes: half a row, and the same codes shuffled with the other sign, so that products with a
  // constant row cancel.
  std::vector<std::uint8_t> cancelling_row(FormatId id, std::int64_t count);

  // An fp32 number of one class: zero of either sign, about the size of a product, subnormal, any finite bit
  // pattern, or (where asked for) not finite.
  float accumulator(bool non_finite);

  // A scale: 1, a power of two, ordinary, zero, subnormal, huge, negative, or not finite.
  float scale();

  // A valid preset with every number drawn anew; maturity "custom".
  Preset preset();

 private:
  std::uint8_t finite_code(const Format& f);
  std::mt19937_64 random_;
};

}  // namespace mmaemu::testing
