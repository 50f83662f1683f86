#include "base/sha256.h"

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace mmaemu {
namespace {

using State = std::array<std::uint32_t, 8>;

constexpr std::size_t kBlock = 64;

// The first 32 fraction bits of the square (cube) root of the n-th prime: floor(root * 2^32) mod 2^32, by
// bisection in integers.
constexpr std::uint32_t root_fraction(std::uint64_t prime, int degree) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 37; bit != 0; bit >>= 1) {
    const Wide trial = root | bit;
    // root^2 <= prime * 2^64, or root^3 <= prime * 2^96: below 2^111 either way.
    if ((degree == 2 ? trial * trial : trial * trial * trial) <= Wide{prime} << (32 * degree)) root |= bit;
  }
  return static_cast<std::uint32_t>(root);
}

template <std::size_t N>
constexpr std::array<std::uint32_t, N> root_fractions(int degree) {
  std::array<std::uint32_t, N> all{};
  std::size_t found = 0;
  for (std::uint64_t candidate = 2; found < N; ++candidate) {
    bool prime = true;
    for (std::uint64_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (prime) all[found++] = root_fraction(candidate, degree);
  }
  return all;
}

constexpr State kInitial = root_fractions<8>(2);
constexpr std::array<std::uint32_t, 64> kRound = root_fractions<64>(3);

void compress(State& state, const std::byte* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < kBlock; ++i)
    w[i / 4] = w[i / 4] << 8 | std::to_integer<std::uint32_t>(block[i]);
  for (std::size_t i = 16; i < w.size(); ++i) {
    const std::uint32_t x = w[i - 15];
    const std::uint32_t y = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[i - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRound[i] + w[i];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State mixed{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  // Padding: a one bit, zeros, and the length in bits as eight big-endian bytes.
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.push_back(std::byte{0x80});
  while (padded.size() % kBlock != kBlock - 8) padded.push_back(std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8)
    padded.push_back(static_cast<std::byte>(std::uint64_t{bytes.size()} * 8 >> shift & 0xFF));
  State state = kInitial;
  for (std::size_t at = 0; at < padded.size(); at += kBlock) compress(state, padded.data() + at);
  std::string text;
  for (const std::uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 0xF];
  return text;
}

}  // namespace mmaemu
