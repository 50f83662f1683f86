#include "operands.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mmaemu::testing {
namespace {

constexpr std::array<std::string_view, kOperandClasses> kNames{
    "any_finite", "bell",     "extremes",    "subnormal",         "sparse",     "zero_blocks",
    "cancelling", "one_sign", "on_the_grid", "tight_accumulator", "non_finite", "mostly_infinite"};

std::uint8_t with_sign(const Format& f, std::int64_t magnitude, bool negative) {
  return static_cast<std::uint8_t>(magnitude | (negative ? f.sign_bit() : 0));
}

bool coin(Random& random) {
  return (random() & 1) != 0;
}

std::uint8_t any_finite(const Format& f, Random& random) {
  return with_sign(f, pick(random, 0, f.max_finite()), coin(random));
}

// A code of exponent field `field` (clamped to the finite ones) with any fraction.
std::uint8_t of_field(const Format& f, std::int64_t field, Random& random) {
  const std::int64_t largest = f.max_finite() >> f.fraction_bits;
  const std::int64_t code = std::clamp<std::int64_t>(field, 0, largest) << f.fraction_bits;
  return with_sign(f,
                   std::min<std::int64_t>(code + pick(random, 0, (1 << f.fraction_bits) - 1), f.max_finite()),
                   coin(random));
}

std::uint8_t bell(const Format& f, Random& random) {
  const double x = std::normal_distribution<double>(0.0, 1.0)(random);
  const double binade = std::floor(std::log2(std::abs(x) + 1e-9));
  return of_field(f, f.bias + 2 + static_cast<std::int64_t>(binade), random);
}

std::uint8_t extreme(const Format& f, Random& random) {
  const std::array<std::int64_t, 6> codes{0,
                                          1,
                                          (1 << f.fraction_bits) - 1,
                                          1 << f.fraction_bits,
                                          std::int64_t{f.max_finite()} - 1,
                                          f.max_finite()};
  return with_sign(f, codes[static_cast<std::size_t>(pick(random, 0, 5))], coin(random));
}

std::uint8_t non_finite(const Format& f, Random& random) {
  const std::int64_t first = std::int64_t{f.max_finite()} + 1;
  return with_sign(f, pick(random, first, f.sign_bit() - 1), coin(random));
}

std::uint8_t infinity_or_nan(const Format& f, Random& random) {
  return with_sign(f, f.max_finite() + 1, coin(random));
}

std::uint8_t one(const Format& f) {
  return static_cast<std::uint8_t>(f.bias << f.fraction_bits);
}

using Row = std::uint8_t*;

// Blocks whose first product (of exponent 2 * top, in terms of the fields) sets the grid at 13 bits below it;
// the others have exponents about 13 - fraction bits below, where a product's lowest bits fall on both sides.
void fill_on_the_grid(const Format& f, Row row, std::int64_t K, std::int64_t block, bool left,
                      Random& random) {
  const std::int64_t top = (f.max_finite() >> f.fraction_bits) - 1;
  for (std::int64_t k = 0; k < K; ++k) {
    if (k % block == 0) {
      row[k] = with_sign(f, top << f.fraction_bits, coin(random));
      continue;
    }
    const std::int64_t distance = pick(random, left ? 0 : 3, 8);
    const std::int64_t fraction = pick(random, 0, 2) == 0 ? (1 << f.fraction_bits) - 1 : pick(random, 0, 1);
    row[k] =
        with_sign(f, (std::max<std::int64_t>(top - distance, 0) << f.fraction_bits) + fraction, coin(random));
  }
}

// Every few blocks one that builds an accumulator out of products with low bits; between them blocks of a
// single product, around the accumulator's exponent.
void fill_tight(const Format& f, Row row, std::int64_t K, std::int64_t block, Random& random) {
  const std::int64_t top = f.max_finite() >> f.fraction_bits;
  for (std::int64_t begin = 0; begin < K; begin += block) {
    const std::int64_t end = std::min(begin + block, K);
    const bool build = pick(random, 0, 2) == 0;
    const std::int64_t level = pick(random, 1, top);
    for (std::int64_t k = begin; k < end; ++k)
      row[k] = build ? of_field(f, level - pick(random, 0, 4), random) : with_sign(f, 0, coin(random));
    if (!build) row[pick(random, begin, end - 1)] = of_field(f, level, random);
  }
}

void fill(OperandClass c, const Format& f, Row row, std::int64_t K, std::int64_t block, bool left,
          Random& random) {
  if (c == OperandClass::on_the_grid) return fill_on_the_grid(f, row, K, block, left, random);
  if (c == OperandClass::tight_accumulator) return fill_tight(f, row, K, block, random);
  const bool zero_row = pick(random, 0, 30) == 0;
  bool zero_block = false;
  for (std::int64_t k = 0; k < K; ++k) {
    if (k % block == 0) zero_block = pick(random, 0, 2) == 0;
    switch (c) {
      case OperandClass::bell:
        row[k] = bell(f, random);
        break;
      case OperandClass::extremes:
        row[k] = extreme(f, random);
        break;
      case OperandClass::subnormal:
        row[k] = with_sign(f, pick(random, 0, (1 << f.fraction_bits) - 1), coin(random));
        break;
      case OperandClass::sparse:
        row[k] = pick(random, 0, 9) == 0 ? any_finite(f, random) : with_sign(f, 0, coin(random));
        break;
      case OperandClass::zero_blocks:
        row[k] = zero_block ? with_sign(f, 0, coin(random)) : any_finite(f, random);
        break;
      case OperandClass::one_sign:
        row[k] = with_sign(f, std::int64_t{f.max_finite()} - pick(random, 0, 20), false);
        break;
      case OperandClass::non_finite:
        row[k] = pick(random, 0, 12 * K) == 0 ? non_finite(f, random) : any_finite(f, random);
        break;
      case OperandClass::mostly_infinite:
        row[k] = coin(random) ? infinity_or_nan(f, random) : extreme(f, random);
        break;
      default:
        row[k] = any_finite(f, random);
        break;
    }
    if (zero_row) row[k] = with_sign(f, 0, coin(random));
  }
}

// Neighbours of equal magnitude and, in `flip`, opposite sign; sometimes the next number.
void pair_up(const Format& f, Row row, std::int64_t K, bool flip, Random& random) {
  for (std::int64_t k = 0; k + 1 < K; k += 2) {
    const std::uint32_t sign = row[k] & f.sign_bit();
    std::int64_t magnitude = row[k] & (f.sign_bit() - 1);
    if (pick(random, 0, 15) == 0 && magnitude > 0) --magnitude;
    row[k + 1] = with_sign(f, magnitude, (sign != 0) != flip);
  }
}

}  // namespace

std::string_view name(OperandClass c) {
  return kNames[static_cast<std::size_t>(c)];
}

Operands make_operands(OperandClass c, const Format& a, const Format& b, std::int64_t M, std::int64_t N,
                       std::int64_t K, std::int64_t block, Random& random) {
  Operands made;
  made.a.resize(static_cast<std::size_t>(M * K));
  made.b.resize(static_cast<std::size_t>(N * K));
  for (std::int64_t m = 0; m < M; ++m) {
    fill(c, a, made.a.data() + m * K, K, block, true, random);
    if (c == OperandClass::cancelling) pair_up(a, made.a.data() + m * K, K, false, random);
  }
  for (std::int64_t n = 0; n < N; ++n) {
    Row row = made.b.data() + n * K;
    fill(c, b, row, K, block, false, random);
    if (c == OperandClass::cancelling) pair_up(b, row, K, true, random);
    if (c == OperandClass::one_sign && n % 2 != 0)
      for (std::int64_t k = 0; k < K; ++k) row[k] = with_sign(b, row[k], true);
    // A column of ones hands a's numbers to the accumulator as they are.
    if (n % 7 == 3 && c == OperandClass::tight_accumulator) std::fill(row, row + K, one(b));
  }
  return made;
}

}  // namespace mmaemu::testing
