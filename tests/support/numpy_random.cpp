// SeedSequence and PCG64 as published by M. O'Neill, and Lemire's bounded draws in NumPy's order of bytes.
#include "numpy_random.h"

#include <array>
#include <bit>

namespace mmaemu::testing {
namespace {

// The mixing of SeedSequence: a pool of four words from the seed, then eight words of state.
std::array<std::uint64_t, 4> seed_state(std::uint32_t seed) {
  std::uint32_t multiplier = 0x43b0d7e5;
  const auto hash = [&](std::uint32_t value) {
    value ^= multiplier;
    multiplier *= 0x931e8875;
    value *= multiplier;
    return value ^ value >> 16;
  };
  const auto mix = [](std::uint32_t x, std::uint32_t y) {
    const std::uint32_t mixed = x * 0xca01f9dd - y * 0x4973f715;
    return mixed ^ mixed >> 16;
  };
  std::array<std::uint32_t, 4> pool{};
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hash(i == 0 ? seed : 0);
  for (std::size_t from = 0; from < pool.size(); ++from)
    for (std::size_t to = 0; to < pool.size(); ++to)
      if (from != to) pool[to] = mix(pool[to], hash(pool[from]));

  std::uint32_t constant = 0x8b51f9dd;
  std::array<std::uint64_t, 4> state{};
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint32_t value = pool[i % pool.size()] ^ constant;
    constant *= 0x58f38ded;
    value *= constant;
    value ^= value >> 16;
    state[i / 2] |= std::uint64_t{value} << (32 * (i % 2));
  }
  return state;
}

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint32_t seed) {
  const std::array<std::uint64_t, 4> words = seed_state(seed);
  increment_ = (Wide{words[2]} << 64 | words[3]) << 1 | 1;
  state_ = 0;
  next64();
  state_ += Wide{words[0]} << 64 | words[1];
  next64();
}

std::uint64_t NumpyGenerator::next64() {
  constexpr Wide kMultiplier = Wide{0x2360ed051fc65da4} << 64 | 0x4385df649fccf645;
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyGenerator::next32() {
  if (has_upper_half_) {
    has_upper_half_ = false;
    return upper_half_;
  }
  const std::uint64_t both = next64();
  upper_half_ = static_cast<std::uint32_t>(both >> 32);
  has_upper_half_ = true;
  return static_cast<std::uint32_t>(both);
}

void NumpyGenerator::integers(std::uint8_t bound, std::span<std::uint8_t> values) {
  // Four bytes a 32-bit draw, lowest first; a call starts with a fresh draw.
  std::uint32_t buffer = 0;
  int left = 0;
  const auto next8 = [&]() -> std::uint32_t {
    if (left == 0) {
      buffer = next32();
      left = 4;
    } else {
      buffer >>= 8;
    }
    --left;
    return buffer & 0xFF;
  };
  const std::uint32_t rejected = (256U - bound) % bound;  // products whose low byte is below this are redrawn
  for (std::uint8_t& value : values) {
    std::uint32_t product = next8() * bound;
    while ((product & 0xFF) < rejected) product = next8() * bound;
    value = static_cast<std::uint8_t>(product >> 8);
  }
}

}  // namespace mmaemu::testing
