#include "random_codes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace mmaemu::testing {

std::uint8_t RandomCodes::finite_code(const Format& f) {
  const auto sign = one_in(2) ? f.sign_bit() : 0U;
  return static_cast<std::uint8_t>(below(f.max_finite() + 1) | sign);
}

std::vector<std::uint8_t> RandomCodes::row(FormatId id, std::int64_t count) {
  const Format& f = format(id);
  const std::int64_t binade = std::int64_t{1} << f.fraction_bits;
  const std::int64_t style = below(6);
  const std::int64_t low = below(f.max_finite() - 3 * binade);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::uint8_t& code : codes) {
    code = finite_code(f);
    const auto sign = static_cast<std::uint8_t>(code & f.sign_bit());
    const auto magnitude = [&](std::int64_t m) { return static_cast<std::uint8_t>(m | sign); };
    if (style == 1) code = magnitude(low + below(3 * binade));
    if (style == 2) code = magnitude(below(binade));
    if (style == 3) code = magnitude(f.max_finite() - below(2));
    if (style == 4 && !one_in(4)) code = sign;
    if (style == 5 && one_in(40)) code = static_cast<std::uint8_t>(below(256));
  }
  return codes;
}

std::vector<std::uint8_t> RandomCodes::cancelling_row(FormatId id, std::int64_t count) {
  std::vector<std::uint8_t> codes = row(id, count);
  const std::size_t half = codes.size() / 2;
  for (std::size_t i = 0; i < half; ++i)
    codes[half + i] = static_cast<std::uint8_t>(codes[i] ^ format(id).sign_bit());
  std::shuffle(codes.begin(), codes.end(), random_);
  return codes;
}

float RandomCodes::accumulator(bool non_finite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto bits = static_cast<std::uint32_t>(random_());
  const float sign = one_in(2) ? -1.0F : 1.0F;
  switch (below(non_finite ? 7 : 5)) {
    case 0:
      return sign * 0.0F;
    case 1:
      return std::bit_cast<float>(bits & 0x807FFFFF);
    case 2: {
      const float any = std::bit_cast<float>(bits);
      return any - any == 0.0F ? any : 1.0F;
    }
    case 5:
      return sign * kInfinity;
    case 6:
      return std::bit_cast<float>(bits | 0x7F800001);
    default:  // exponents -32 to 31
      return std::bit_cast<float>((bits & 0x807FFFFF) | static_cast<std::uint32_t>(below(64) + 95) << 23);
  }
}

float RandomCodes::scale() {
  const auto bits = static_cast<std::uint32_t>(random_());
  switch (below(6)) {
    case 0:
      return 1.0F;
    case 1:
      return std::bit_cast<float>(static_cast<std::uint32_t>(below(255)) << 23);
    case 2:
      return accumulator(true);
    case 3:
      return std::bit_cast<float>(bits & 0xFFFFF);
    default:  // exponents -8 to 7
      return std::bit_cast<float>((bits & 0x807FFFFF) | static_cast<std::uint32_t>(below(16) + 119) << 23);
  }
}

Preset RandomCodes::preset() {
  Preset p;
  p.name = "random";
  p.nfma = one_in(8) ? std::numeric_limits<std::int64_t>::max() : 1 + below(70);
  p.frac = static_cast<int>(1 + below(40));
  p.frac_out = static_cast<int>(1 + below(23));
  p.min_exp = one_of(std::vector<int>{-132, -132, -149, -40, -10, 0, 5, 40, -1000, 5000,
                                      std::numeric_limits<int>::min(), std::numeric_limits<int>::max()});
  p.late_c = one_in(2);
  p.slow_chunk = one_of(std::vector<std::int64_t>{128, 128, 1, 16, 48, 100, 1000});
  return p;
}

}  // namespace mmaemu::testing
