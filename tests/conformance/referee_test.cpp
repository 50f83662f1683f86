// Every target against the independent formulas of support/referee.h: all pairs of codes, random products
// under shipped and custom presets, chains from an accumulator, the epilogue.
#include "referee.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <sstream>

#include "random_codes.h"
#include "targets.h"

namespace mmaemu::testing {
namespace {

using referee::CodeRow;

constexpr std::array kOperandFormats{FormatId::e4m3, FormatId::e5m2};
constexpr std::uint32_t kNan = 0x7FFFFFFF;

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

class Referee : public ::testing::TestWithParam<Target> {
 protected:
  // The accumulators of every row of a with every row of b, row-major.
  std::vector<float> accumulate(const OperandView& a, const OperandView& b, const Accumulation& how) {
    std::vector<float> out(static_cast<std::size_t>(a.rows * b.rows));
    const Status status =
        GetParam().accumulate(a, b, how, {out.data(), FormatId::float32, a.rows, b.rows, b.rows, 1}, {});
    EXPECT_TRUE(status.ok()) << status.error().message;
    return out;
  }

  // The results likewise, as codes of `out`.
  std::vector<std::uint32_t> scaled_mm(const OperandView& a, const OperandView& b, const Accumulation& how,
                                       const Epilogue& epilogue, FormatId out) {
    const auto count = static_cast<std::size_t>(a.rows * b.rows);
    const auto size = static_cast<std::size_t>(format(out).bytes());
    std::vector<std::byte> bytes(count * size);
    const Status status =
        GetParam().scaled_mm(a, b, how, epilogue, {bytes.data(), out, a.rows, b.rows, b.rows, 1}, {});
    EXPECT_TRUE(status.ok()) << status.error().message;
    std::vector<std::uint32_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&codes[i], &bytes[i * size], size);
    return codes;
  }
};

// Every code of a format as a row of one.
struct AllCodes {
  explicit AllCodes(FormatId id) : format(id) {
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  }
  OperandView view() const { return {codes.data(), format, 256, 1, 1, 1}; }
  FormatId format;
  std::array<std::uint8_t, 256> codes{};
};

// A product of two codes has at most 8 significant bits, none more than 6 places below the sum of the
// operands' exponents: every shipped preset keeps it whole, and the accumulator is the product as a double
// gives it.
float product(const AllCodes& a, std::size_t i, const AllCodes& b, std::size_t j) {
  const double exact =
      referee::value_of(format(a.format), a.codes[i]) * referee::value_of(format(b.format), b.codes[j]);
  return std::isnan(exact) ? std::bit_cast<float>(kNan) : static_cast<float>(exact + 0.0);
}

TEST_P(Referee, EveryPairOfCodesMultiplies) {
  for (const FormatId fa : kOperandFormats) {
    for (const FormatId fb : kOperandFormats) {
      const AllCodes a(fa);
      const AllCodes b(fb);
      for (const Preset& preset : shipped_presets()) {
        const std::vector<float> got = accumulate(a.view(), b.view(), {preset, true, {}});
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          wrong += bits(got[i]) != bits(product(a, i / 256, b, i % 256)) ? 1 : 0;
        EXPECT_EQ(wrong, 0) << format(fa).name << " x " << format(fb).name << ", " << preset.name;
      }
    }
  }
}

TEST_P(Referee, EveryPairOfCodesPassesTheEpilogue) {
  const std::vector<Epilogue> epilogues{{1.0F, 1.0F, {}}, {0.3F, 1.7F, 0.5F}, {-0x1p-60F, 0x1p-52F, 0x1p70F}};
  const Accumulation how{find_preset("ada").value(), true, {}};
  for (const FormatId fa : kOperandFormats) {
    for (const FormatId fb : kOperandFormats) {
      const AllCodes a(fa);
      const AllCodes b(fb);
      for (const Epilogue& e : epilogues) {
        for (const Format& out : kFormats) {
          const std::vector<std::uint32_t> got = scaled_mm(a.view(), b.view(), how, e, out.id);
          std::int64_t wrong = 0;
          for (std::size_t i = 0; i < got.size(); ++i) {
            const float acc = product(a, i / 256, b, i % 256);
            wrong += got[i] != referee::epilogue_code(out, acc, e.scale_a, e.scale_b, e.scale_result) ? 1 : 0;
          }
          EXPECT_EQ(wrong, 0) << format(fa).name << " x " << format(fb).name << " to " << out.name
                              << ", scale_a " << e.scale_a;
        }
      }
    }
  }
}

// A drawn product and how it is summed.
struct Drawn {
  FormatId a_format;
  FormatId b_format;
  std::int64_t M;
  std::int64_t N;
  std::int64_t K;
  std::vector<std::uint8_t> a;
  std::vector<std::uint8_t> b;
  Accumulation how;

  OperandView left() const { return {a.data(), a_format, M, K, K, 1}; }
  OperandView right() const { return {b.data(), b_format, N, K, K, 1}; }
  CodeRow left(std::int64_t m) const { return {a_format, std::span(a).subspan(index(m * K), index(K))}; }
  CodeRow right(std::int64_t n) const { return {b_format, std::span(b).subspan(index(n * K), index(K))}; }

  std::string text() const {
    std::ostringstream out;
    const Preset& p = how.preset;
    out << M << "x" << N << "x" << K << " " << format(a_format).name << " x " << format(b_format).name
        << (how.fast ? ", fast" : ", slow") << ", S " << how.split.S << " " << name(how.split.scheme)
        << ", preset " << p.name << " nfma " << p.nfma << " frac " << p.frac << " frac_out " << p.frac_out
        << " min_exp " << p.min_exp << (p.late_c ? " late_c" : "") << " slow_chunk "
        << p.slow_chunk.value_or(-1);
    return out.str();
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
};

SplitK draw_split(RandomCodes& random, const Preset& preset) {
  if (!preset.slow_chunk || random.one_in(3)) return {};
  const std::int64_t S = 2 + random.below(random.one_in(4) ? 12 : 4);
  if (preset.name == "ada")
    return {S, random.one_of<SplitScheme>({SplitScheme::serial, SplitScheme::pairwise})};
  if (preset.name == "hopper") return {S, SplitScheme::contiguous};
  return {S,
          random.one_of<SplitScheme>({SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous})};
}

Drawn draw(RandomCodes& random) {
  Drawn d;
  d.how.preset = random.one_in(2) ? random.preset() : random.one_of(shipped_presets());
  d.how.fast = !d.how.preset.slow_chunk || random.one_in(2);
  d.how.split = draw_split(random, d.how.preset);
  d.a_format = random.one_in(2) ? FormatId::e4m3 : FormatId::e5m2;
  d.b_format = random.one_in(2) ? FormatId::e4m3 : FormatId::e5m2;
  d.M = 1 + random.below(4);
  d.N = 1 + random.below(4);
  // Multiples of the blocks and tiles, and their neighbours.
  d.K = std::max<std::int64_t>(
      0, random.one_of<std::int64_t>({0, 16, 32, 64, 128, 256, 384, 640}) + random.below(5) - 2);
  if (random.one_in(3)) d.K = random.below(700);
  const auto fill = [&](FormatId id, std::int64_t rows) {
    std::vector<std::uint8_t> codes;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<std::uint8_t> row =
          random.one_in(4) ? random.cancelling_row(id, d.K) : random.row(id, d.K);
      codes.insert(codes.end(), row.begin(), row.end());
    }
    return codes;
  };
  d.a = fill(d.a_format, d.M);
  d.b = random.one_in(4) ? std::vector<std::uint8_t>(static_cast<std::size_t>(d.N * d.K), 0x38)
                         : fill(d.b_format, d.N);
  return d;
}

TEST_P(Referee, RandomProductsAccumulateAsDocumented) {
  RandomCodes random(1);
  for (int i = 0; i < 2500; ++i) {
    const Drawn d = draw(random);
    const std::vector<float> got = accumulate(d.left(), d.right(), d.how);
    for (std::int64_t m = 0; m < d.M; ++m) {
      for (std::int64_t n = 0; n < d.N; ++n) {
        const float want = referee::accumulator(d.how.preset, d.left(m), d.right(n), d.how.fast, d.how.split);
        ASSERT_EQ(bits(got[static_cast<std::size_t>(m * d.N + n)]), bits(want))
            << "case " << i << " [" << m << ", " << n << "]: " << d.text();
      }
    }
  }
}

TEST_P(Referee, RandomProductsPassTheEpilogue) {
  RandomCodes random(2);
  for (int i = 0; i < 1500; ++i) {
    Drawn d = draw(random);
    const std::vector<float> accumulators = accumulate(d.left(), d.right(), d.how);
    Epilogue e{random.scale(), random.scale(), {}};
    if (random.one_in(2)) e.scale_result = random.scale();
    for (const Format& out : kFormats) {
      const std::vector<std::uint32_t> got = scaled_mm(d.left(), d.right(), d.how, e, out.id);
      for (std::size_t j = 0; j < got.size(); ++j) {
        // Without products nothing is scaled: +0 even for a scale that is not a number.
        const std::uint32_t want =
            d.K == 0 ? 0 : referee::epilogue_code(out, accumulators[j], e.scale_a, e.scale_b, e.scale_result);
        ASSERT_EQ(got[j], want) << "case " << i << ", accumulator " << accumulators[j] << ", scales "
                                << e.scale_a << " " << e.scale_b << " " << e.scale_result.value_or(1.0F)
                                << " to " << out.name;
      }
    }
  }
}

TEST_P(Referee, ChainsStartFromTheAccumulator) {
  RandomCodes random(3);
  for (int i = 0; i < 3000; ++i) {
    Drawn d = draw(random);
    d.M = d.N = std::min(d.M, d.N);
    std::vector<float> c;
    for (std::int64_t r = 0; r < d.M; ++r) c.push_back(random.accumulator(true));
    std::vector<float> got(c.size());
    const bool with_c = !random.one_in(4);
    ASSERT_TRUE(
        GetParam().dot(d.left(), d.right(), with_c ? c.data() : nullptr, d.how.preset, got.data(), {}).ok());
    for (std::size_t r = 0; r < got.size(); ++r) {
      const auto row = static_cast<std::int64_t>(r);
      const float want = referee::chain(d.how.preset, d.left(row), d.right(row), with_c ? c[r] : 0.0F);
      ASSERT_EQ(bits(got[r]), bits(want)) << "case " << i << ", c " << c[r] << ": " << d.text();
    }
  }
}

// A block whose sum takes more than 64 bits: 2^22 + 1 products of 1.875^2 = 3.515625 with exponent 0.
TEST_P(Referee, BlockOfMillionsOfTermsIsSummedExactly) {
  Preset preset;
  preset.nfma = std::int64_t{1} << 23;
  preset.frac = 40;
  preset.frac_out = 23;
  const std::int64_t K = (std::int64_t{1} << 22) + 1;
  const std::uint8_t one = 0x3F;    // 1.875
  const std::uint8_t other = 0xBF;  // -1.875
  const OperandView a{&one, FormatId::e4m3, 1, K, 0, 0};
  const OperandView b{&other, FormatId::e4m3, 1, K, 0, 0};
  // 23 fraction bits of (2^22 + 1) * 3.515625 = 14745603.515625, toward zero.
  EXPECT_EQ(accumulate(a, a, {preset, true, {}})[0], 14745603.0F);
  EXPECT_EQ(accumulate(a, b, {preset, true, {}})[0], -14745603.0F);
}

INSTANTIATE_TEST_SUITE_P(Targets, Referee, ::testing::ValuesIn(targets()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mmaemu::testing
