// No kernel of this project has run on hardware yet, and so every validated set is empty: docs/cuda.md.
#include "cuda/registry.h"

#include <algorithm>
#include <array>

namespace mmaemu::cuda {
namespace {

constexpr std::array<FormatPair, 3> kPairs{
    {{FormatId::e4m3, FormatId::e4m3}, {FormatId::e4m3, FormatId::e5m2}, {FormatId::e5m2, FormatId::e4m3}}};
constexpr std::span<const FormatPair> kAllPairs(kPairs);
constexpr std::span<const FormatPair> kE4m3 = kAllPairs.first(1);

// tc3's exponents are those of v9.
constexpr std::array<std::string_view, 2> kProbes{"window", "design_a"};
constexpr std::span<const std::string_view> kBothProbes(kProbes);
constexpr std::span<const std::string_view> kWindow = kBothProbes.first(1);

constexpr std::int64_t kLong = std::int64_t{1} << 30;
constexpr std::int64_t kShort = std::int64_t{1} << 24;

constexpr Tile kPortableTile{16, 16, 16, 16};
constexpr Tile kLargeTile{128, 128, 256, 1};

constexpr std::array<Kernel, 6> kKernels{{
    {"tc3", "ada", 40, 80, kShort, kBothProbes, "", "gated.cu", kLargeTile, kE4m3, {}},
    {"v9", "ada", 30, 80, kShort, kWindow, "", "gated.cu", kLargeTile, kE4m3, {}},
    {"v4", "ada", 20, 80, kShort, {}, "compute_80", "fast.cu", kLargeTile, kAllPairs, {}},
    {"v1", "ada", 10, 75, kLong, {}, "compute_75", "portable.cu", kPortableTile, kAllPairs, {}},
    {"h4", "hopper", 20, 80, kShort, {}, "compute_80", "fast.cu", kLargeTile, kAllPairs, {}},
    {"h1", "hopper", 10, 75, kLong, {}, "compute_75", "portable.cu", kPortableTile, kAllPairs, {}},
}};

}  // namespace

bool Kernel::validated_on(int architecture) const {
  return std::ranges::find(validated, architecture) != validated.end();
}

bool Kernel::has_arithmetic_of(const Preset& p) const {
  const Result<Preset> own = find_preset(preset);
  const Preset& q = own.value();
  return p.nfma == q.nfma && p.frac == q.frac && p.frac_out == q.frac_out && p.min_exp == q.min_exp &&
         p.late_c == q.late_c && p.slow_chunk == q.slow_chunk;
}

bool Kernel::serves(FormatId a, FormatId b) const {
  return std::ranges::any_of(pairs, [&](const FormatPair& pair) { return pair.a == a && pair.b == b; });
}

std::span<const Kernel> kernels() {
  return kKernels;
}

const Kernel* find_kernel(std::string_view name) {
  if (name.starts_with("cuda:")) name.remove_prefix(5);
  const auto found = std::ranges::find(kKernels, name, &Kernel::name);
  return found == kKernels.end() ? nullptr : &*found;
}

}  // namespace mmaemu::cuda
