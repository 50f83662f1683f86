// What the benchmarks compute on: finite codes, most of them within a few binades, as weights and activations
// are.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "mmaemu/formats.h"

namespace mmaemu::benchmarks {

inline std::vector<std::uint8_t> random_codes(FormatId id, std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> bell;
  const Format& f = format(id);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::uint8_t& code : codes) {
    const auto magnitude = static_cast<std::uint32_t>(std::abs(bell(random)) * 12.0F) +
                           (static_cast<std::uint32_t>(f.bias) << f.fraction_bits) / 2;
    code = static_cast<std::uint8_t>(std::min(magnitude, f.max_finite()) | (random() & 0x80));
  }
  return codes;
}

}  // namespace mmaemu::benchmarks
