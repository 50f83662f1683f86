#include "referee.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mmaemu::testing::referee {
namespace {

constexpr float kCanonicalNan = std::bit_cast<float>(0x7FFFFFFFU);

// floor(log2|x|), below at the format's least exponent.
int exponent_of(const Format& f, double x) {
  return std::max(std::ilogb(x), 1 - f.bias);
}

// The IEEE value of c + sum a_k b_k where it is not finite. A double sums the finite terms without overflow,
// so a non-finite sum comes from non-finite terms alone.
std::optional<float> non_finite(const CodeRow& a, const CodeRow& b, float c) {
  double sum = c;
  for (std::size_t k = 0; k < a.codes.size(); ++k)
    sum += value_of(format(a.format), a.codes[k]) * value_of(format(b.format), b.codes[k]);
  if (std::isfinite(sum)) return std::nullopt;
  return std::isnan(sum) ? kCanonicalNan : static_cast<float>(sum);
}

// The finite part: what a hardware chain without non-finite codes computes.
float finite_chain(const Preset& preset, const CodeRow& a, const CodeRow& b, float c) {
  const auto block = static_cast<std::size_t>(std::min<std::int64_t>(preset.nfma, 1 << 20));
  for (std::size_t k = 0; k < a.codes.size(); k += block) {
    const std::size_t count = std::min(block, a.codes.size() - k);
    c = block_step(preset, {a.format, a.codes.subspan(k, count)}, {b.format, b.codes.subspan(k, count)}, c);
  }
  return c;
}

std::vector<std::int64_t> consecutive(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indices;
  for (std::int64_t k = begin; k < end; ++k) indices.push_back(k);
  return indices;
}

// Consecutive pieces of at most `length`.
std::vector<std::vector<std::int64_t>> cut(const std::vector<std::int64_t>& indices, std::int64_t length) {
  std::vector<std::vector<std::int64_t>> pieces;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (static_cast<std::int64_t>(i) % length == 0) pieces.emplace_back();
    pieces.back().push_back(indices[i]);
  }
  return pieces;
}

}  // namespace

double value_of(const Format& f, std::uint32_t code) {
  const auto fraction = static_cast<double>(code % (1U << f.fraction_bits));
  const auto field = static_cast<int>((code >> f.fraction_bits) % (1U << f.exponent_bits));
  const double sign = (code >> (f.bits - 1)) % 2 == 1 ? -1.0 : 1.0;
  const double fraction_scale = std::ldexp(1.0, -f.fraction_bits);
  const bool top = field == (1 << f.exponent_bits) - 1;
  if (top && f.specials == SpecialValues::ieee)
    return fraction == 0.0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  if (top && fraction * fraction_scale == 1.0 - fraction_scale)
    return std::numeric_limits<double>::quiet_NaN();
  if (field == 0) return sign * std::ldexp(fraction * fraction_scale, 1 - f.bias);
  return sign * std::ldexp(1.0 + fraction * fraction_scale, field - f.bias);
}

std::uint32_t nearest_code(const Format& f, long double value) {
  if (std::isnan(value)) return f.canonical_nan;
  const std::uint32_t sign = std::signbit(value) ? 1U << (f.bits - 1) : 0U;
  const long double magnitude = std::fabs(value);
  if (magnitude == 0.0L) return sign;
  const double largest = value_of(f, f.max_finite());
  const std::uint32_t beyond = f.saturates ? f.max_finite() : f.max_finite() + 1;
  if (std::isinf(magnitude)) return sign | beyond;
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  // Quanta of this binade; nearbyint is to nearest, ties to even, as the floating-point environment is by
  // default.
  const long double quanta = std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent));
  if (std::ldexp(quanta, exponent - f.fraction_bits) > static_cast<long double>(largest))
    return sign | beyond;
  // Consecutive codes are consecutive quanta, also across a binade's end.
  const auto binade = static_cast<std::uint32_t>(exponent + f.bias - 1);
  return sign | ((binade << f.fraction_bits) + static_cast<std::uint32_t>(quanta));
}

std::uint32_t epilogue_code(const Format& f, float acc, float scale_a, float scale_b,
                            std::optional<float> scale_result) {
  // A double holds the exact product of two floats, and + 0.0 turns an exactly zero one into +0.
  const auto alpha = static_cast<float>(static_cast<double>(scale_a) * static_cast<double>(scale_b));
  auto y = static_cast<float>(static_cast<double>(acc) * static_cast<double>(alpha) + 0.0);
  if (f.saturates && scale_result)
    y = static_cast<float>(static_cast<double>(y) * static_cast<double>(*scale_result));
  return nearest_code(f, static_cast<long double>(y));
}

float block_step(const Preset& preset, const CodeRow& a, const CodeRow& b, float c) {
  const Format& fa = format(a.format);
  const Format& fb = format(b.format);
  std::optional<int> largest;  // exponent among the terms that take part
  const auto take_part = [&](int exponent) { largest = std::max(largest.value_or(exponent), exponent); };
  for (std::size_t k = 0; k < a.codes.size(); ++k) {
    const double x = value_of(fa, a.codes[k]);
    const double y = value_of(fb, b.codes[k]);
    if (x != 0.0 && y != 0.0) take_part(exponent_of(fa, x) + exponent_of(fb, y));
  }
  const bool early = !preset.late_c && c != 0.0F;
  if (early) take_part(std::ilogb(c));
  double d = 0.0;
  if (largest) {
    // A product of two codes has at most 8 significant bits and c has 24, so ldexp is exact, except where it
    // leaves the doubles downwards and trunc gives 0 anyway. The integers' sum stays below 2^53: exact.
    const int E = std::max(*largest, preset.min_exp);
    const int shift = E > 4000 ? -4000 : preset.frac - E;
    double sum = 0.0;
    for (std::size_t k = 0; k < a.codes.size(); ++k)
      sum += std::trunc(std::ldexp(value_of(fa, a.codes[k]) * value_of(fb, b.codes[k]), shift));
    if (early) sum += std::trunc(std::ldexp(static_cast<double>(c), shift));
    if (sum != 0.0) {
      d = std::ldexp(sum, -shift);
      const int quantum = std::max(std::ilogb(d), -126) - preset.frac_out;
      d = std::ldexp(std::trunc(std::ldexp(d, -quantum)), quantum);
    }
  }
  // At most 24 bits, none below 2^-149: exact in fp32. -0 from a truncation is +0.
  const float rounded = static_cast<float>(d) + 0.0F;
  return preset.late_c ? rounded + c : rounded;
}

float chain(const Preset& preset, const CodeRow& a, const CodeRow& b, float c) {
  if (const std::optional<float> special = non_finite(a, b, c)) return *special;
  return finite_chain(preset, a, b, c);
}

IndexLists index_lists(const Preset& preset, std::int64_t depth, bool fast, const SplitK& split) {
  IndexLists lists;
  for (std::int64_t s = 0; s < split.S; ++s) {
    std::vector<std::int64_t> own;
    std::int64_t chunk = preset.slow_chunk.value_or(1);
    switch (split.scheme) {
      case SplitScheme::none:
        own = consecutive(0, depth);
        break;
      case SplitScheme::serial:
      case SplitScheme::pairwise:
        for (std::int64_t k = 0; k < depth; ++k)
          if (k / 64 % split.S == s) own.push_back(k);
        chunk = 2 * 64;
        break;
      case SplitScheme::contiguous: {
        const std::int64_t tiles = (depth + 127) / 128;
        const std::int64_t per_split = (tiles + split.S - 1) / split.S;
        own = consecutive(std::min(s * per_split * 128, depth), std::min((s + 1) * per_split * 128, depth));
        break;
      }
    }
    lists.push_back(cut(own, fast ? std::max<std::int64_t>(depth, 1) : chunk));
  }
  return lists;
}

float accumulator(const Preset& preset, const CodeRow& a, const CodeRow& b, bool fast, const SplitK& split) {
  if (const std::optional<float> special = non_finite(a, b, 0.0F)) return *special;
  std::vector<float> partials;
  for (const auto& chains : index_lists(preset, static_cast<std::int64_t>(a.codes.size()), fast, split)) {
    float partial = 0.0F;
    for (const std::vector<std::int64_t>& indices : chains) {
      std::vector<std::uint8_t> x;
      std::vector<std::uint8_t> y;
      for (const std::int64_t k : indices) {
        x.push_back(a.codes[static_cast<std::size_t>(k)]);
        y.push_back(b.codes[static_cast<std::size_t>(k)]);
      }
      partial += finite_chain(preset, {a.format, x}, {b.format, y}, 0.0F);
    }
    partials.push_back(partial);
  }
  const std::size_t S = partials.size();
  if (split.scheme != SplitScheme::pairwise) {
    float sum = partials[0];
    for (std::size_t s = 1; s < S; ++s) sum += partials[s];
    return sum;
  }
  const std::size_t half = (S + 1) / 2;
  float sum = partials[S - 1];
  for (std::size_t i = 0; i < half; ++i)
    sum += i + half < S - 1 ? partials[i] + partials[i + half] : partials[i];
  return sum;
}

}  // namespace mmaemu::testing::referee
