// Sizes are beside the tiles' (128) and blocks' (16, 32) multiples, and K is once an odd multiple of 16.
#include "cuda/smoke.h"

#include <array>
#include <functional>

namespace mmaemu::cuda {
namespace {

// SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t bound) {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return static_cast<std::uint32_t>((z ^ z >> 31) >> 32) % bound;
  }

 private:
  std::uint64_t state_;
};

using Codes = std::vector<std::uint8_t>;
// The code of an element of a row, given the format.
using Fill = std::function<std::uint8_t(Random&, const Format&, std::int64_t row, std::int64_t k)>;

std::uint8_t with_sign(Random& random, std::uint32_t magnitude) {
  return static_cast<std::uint8_t>(magnitude | random.below(2) << 7);
}

std::uint8_t any_finite(Random& random, const Format& f, std::int64_t, std::int64_t) {
  return with_sign(random, random.below(f.max_finite() + 1));
}

std::uint8_t tiny(Random& random, const Format& f, std::int64_t, std::int64_t) {
  return with_sign(random,
                   random.below((2U << f.fraction_bits) + 1));  // zeros, subnormals, the least normals
}

std::uint8_t extreme(Random& random, const Format& f, std::int64_t, std::int64_t) {
  const std::array<std::uint32_t, 4> magnitudes{f.max_finite(), f.max_finite(), 0, 1};
  return with_sign(random, magnitudes[random.below(4)]);
}

// Neighbours cancel but for their last bit.
std::uint8_t cancelling(Random& random, const Format& f, std::int64_t row, std::int64_t k) {
  const std::uint32_t magnitude = 1 + static_cast<std::uint32_t>(row * 5 + k / 2 * 7) % (f.max_finite() - 1);
  return static_cast<std::uint8_t>((magnitude + random.below(2)) | static_cast<std::uint32_t>(k & 1) << 7);
}

std::uint8_t one_exponent(Random& random, const Format& f, std::int64_t row, std::int64_t k) {
  const auto exponents = static_cast<std::int64_t>(f.max_finite() >> f.fraction_bits);
  const auto exponent = static_cast<std::uint32_t>((row + k / 16) % exponents);
  return with_sign(random, exponent << f.fraction_bits | random.below(1U << f.fraction_bits));
}

// Row r begins with code r: the products of two such operands begin with every pair of codes.
std::uint8_t every_code(Random& random, const Format& f, std::int64_t row, std::int64_t k) {
  const auto code = static_cast<std::uint32_t>(row % 256);
  if (k > 0 || (code & 0x7F) > f.max_finite()) return any_finite(random, f, row, k);
  return static_cast<std::uint8_t>(code);
}

std::uint8_t sometimes_not_finite(Random& random, const Format& f, std::int64_t row, std::int64_t k) {
  if (random.below(400) != 0) return any_finite(random, f, row, k);
  return with_sign(random, f.max_finite() + 1 + random.below(0x7F - f.max_finite()));
}

Codes filled(Random& random, FormatId id, std::int64_t rows, std::int64_t depth, const Fill& fill) {
  Codes codes;
  codes.reserve(static_cast<std::size_t>(rows * depth));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < depth; ++k) codes.push_back(fill(random, format(id), r, k));
  return codes;
}

}  // namespace

std::vector<SmokeProduct> smoke_products(const Kernel& kernel) {
  Random random(20250601);
  std::vector<SmokeProduct> all;
  const Preset preset = find_preset(kernel.preset).value();
  const auto add = [&](std::string name, const Fill& fill, std::array<std::int64_t, 3> size,
                       FormatPair formats, bool fast, SplitK split, FormatId out, Epilogue epilogue) {
    const auto [M, N, K] = size;
    SmokeProduct p{std::move(name), M, N, K, formats, {preset, fast, split}, epilogue, out, {}, {}};
    p.a = filled(random, formats.a, M, K, fill);
    p.b = filled(random, formats.b, N, K, fill);
    all.push_back(std::move(p));
  };
  const Epilogue plain;
  const Epilogue scaled{0.37F, -0x1.8p-5F, 1.9F};
  const SplitK whole;
  const std::vector<SplitScheme> schemes = kernel.preset == "ada"
                                               ? std::vector{SplitScheme::serial, SplitScheme::pairwise}
                                               : std::vector{SplitScheme::contiguous};
  for (const FormatPair& pair : kernel.pairs) {
    const std::string of =
        " (" + std::string(format(pair.a).name) + " x " + std::string(format(pair.b).name) + ")";
    const auto add_fast = [&](const std::string& name, const Fill& fill, std::array<std::int64_t, 3> size) {
      add(name + of, fill, size, pair, true, whole, FormatId::float32, plain);
    };
    add_fast("random codes", any_finite, {137, 144, 272});
    add_fast("every pair of codes", every_code, {256, 256, 32});
    add_fast("subnormals and zeros", tiny, {33, 48, 160});
    add_fast("largest numbers", extreme, {33, 48, 160});
    add_fast("cancellation", cancelling, {33, 48, 160});
    add_fast("one exponent a block", one_exponent, {33, 48, 304});
    add("slow accumulation" + of, any_finite, {33, 48, 432}, pair, false, whole, FormatId::float32, plain);
    add("operands that are not finite" + of, sometimes_not_finite, {65, 80, 144}, pair, true, whole,
        FormatId::float32, plain);
  }
  const FormatPair first = kernel.pairs[0];
  for (const SplitScheme scheme : schemes)
    for (const bool fast : {true, false})
      for (const std::int64_t S : {2, 3, 7})
        add("split in " + std::to_string(S) + ", " + std::string(mmaemu::name(scheme)) +
                (fast ? "" : ", slow"),
            any_finite, {17, 32, 592}, first, fast, {S, scheme}, FormatId::float32, plain);
  for (const Format& f : kFormats)
    add("result in " + std::string(f.dtype), sometimes_not_finite, {33, 48, 96}, first, true, whole, f.id,
        scaled);
  return all;
}

}  // namespace mmaemu::cuda
