// One FP8 product as an RTX 4060 and as an H100 PCIe compute it: how many outputs differ, and the first that
// does.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "mmaemu/gemm.h"
#include "mmaemu/platform.h"

namespace {

constexpr std::int64_t M = 16;
constexpr std::int64_t N = 64;
constexpr std::int64_t K = 1920;

std::vector<std::uint8_t> random_codes(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::uint8_t& code : codes)
    code = static_cast<std::uint8_t>((random() & 0x80) | (random() % 0x7F));  // no NaN
  return codes;
}

// The accumulators of a @ b.T, or nothing after an error.
std::vector<float> accumulate_as(const char* platform, const std::vector<std::uint8_t>& a,
                                 const std::vector<std::uint8_t>& b) {
  const mmaemu::Result<mmaemu::Profile> profile = mmaemu::find_profile(platform);
  if (!profile.ok()) {
    std::fprintf(stderr, "%s\n", profile.error().message.c_str());
    return {};
  }
  std::vector<float> d(static_cast<std::size_t>(M * N));
  const mmaemu::Status status = mmaemu::accumulate(
      {a.data(), mmaemu::FormatId::e4m3, M, K, K}, {b.data(), mmaemu::FormatId::e4m3, N, K, K},
      {profile.value().preset, true, {}}, {d.data(), mmaemu::FormatId::float32, M, N, N});
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return {};
  }
  return d;
}

}  // namespace

int main() {
  const std::vector<std::uint8_t> a = random_codes(M * K, 1);
  const std::vector<std::uint8_t> b = random_codes(N * K, 2);
  const std::vector<float> ada = accumulate_as("ada", a, b);
  const std::vector<float> hopper = accumulate_as("hopper", a, b);
  if (ada.empty() || hopper.empty()) return 1;

  std::size_t different = 0;
  std::size_t first = ada.size();
  for (std::size_t i = 0; i < ada.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(ada[i]) == std::bit_cast<std::uint32_t>(hopper[i])) continue;
    if (different++ == 0) first = i;
  }
  std::printf("%zu of %zu outputs differ between the RTX 4060 and the H100 PCIe\n", different, ada.size());
  if (different != 0)
    std::printf("first at [%zu, %zu]: %a and %a\n", first / N, first % N, ada[first], hopper[first]);
  return 0;
}
