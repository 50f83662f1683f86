// The entry points of gemm.h: what they refuse, every layout of a view, and what must not change a bit of the
// result: threads, the rounding mode, flushing of subnormals. Which bits are right is judged in
// tests/conformance.
#include "mmaemu/gemm.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <sys/mman.h>
#include <vector>

#include "random_codes.h"

namespace mmaemu {
namespace {

using testing::RandomCodes;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

// A product of M x N x K ones that a test spoils.
struct Product {
  explicit Product(std::int64_t m = 2, std::int64_t n = 3, std::int64_t k = 4)
      : a_codes(static_cast<std::size_t>(m * k), 0x38),
        b_codes(static_cast<std::size_t>(n * k), 0x38),
        result(static_cast<std::size_t>(m * n)),
        a{a_codes.data(), FormatId::e4m3, m, k, k, 1},
        b{b_codes.data(), FormatId::e4m3, n, k, k, 1},
        out{result.data(), FormatId::float32, m, n, n, 1} {}
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Status accumulate() { return mmaemu::accumulate(a, b, how, out, execution); }
  Status scaled_mm() { return mmaemu::scaled_mm(a, b, how, epilogue, out, execution); }
  // Into the result, where it has as many numbers.
  Status dot() { return mmaemu::dot(a, b, nullptr, how.preset, result.data(), execution); }

  std::vector<std::uint8_t> a_codes;
  std::vector<std::uint8_t> b_codes;
  std::vector<float> result;
  OperandView a;
  OperandView b;
  ResultView out;
  Accumulation how{find_preset("ada").value(), true, {}};
  Epilogue epilogue;
  Execution execution;
};

void expect_value_error(const Status& status, const std::vector<std::string>& parts) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::value_error);
  for (const std::string& part : parts)
    EXPECT_NE(status.error().message.find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << status.error().message;
}

struct BadCall {
  const char* name;
  std::function<void(Product&)> spoil;
  std::vector<std::string> parts;  // of the message
};

void PrintTo(const BadCall& bad, std::ostream* out) {
  *out << bad.name;
}

class BadOperands : public ::testing::TestWithParam<BadCall> {};

// Every entry point takes operands, and refuses them alike.
TEST_P(BadOperands, AreValueErrors) {
  Product product(3, 3);
  GetParam().spoil(product);
  expect_value_error(product.accumulate(), GetParam().parts);
  expect_value_error(product.scaled_mm(), GetParam().parts);
  expect_value_error(product.dot(), GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Gemm, BadOperands,
    ::testing::Values(
        BadCall{"NullA", [](Product& p) { p.a.data = nullptr; }, {"a:", "null", "[3, 4]"}},
        BadCall{"NullB", [](Product& p) { p.b.data = nullptr; }, {"b:", "null", "[3, 4]"}},
        BadCall{"NegativeRows", [](Product& p) { p.a.rows = -1; }, {"a:", "[-1, 4]", "negative"}},
        BadCall{
            "NegativeDepth", [](Product& p) { p.a.depth = p.b.depth = -4; }, {"a:", "[3, -4]", "negative"}},
        BadCall{"NegativeRowsOfB", [](Product& p) { p.b.rows = -7; }, {"b:", "[-7, 4]"}},
        BadCall{"FormatOfA", [](Product& p) { p.a.format = FormatId::float16; }, {"a:", "float16", "e4m3"}},
        BadCall{"FormatOfB", [](Product& p) { p.b.format = FormatId::float32; }, {"b:", "float32", "e5m2"}},
        BadCall{"DepthsDiffer", [](Product& p) { p.b.depth = 3; }, {"[3, 4]", "[3, 3]", "K"}},
        BadCall{"InvalidPreset", [](Product& p) { p.how.preset.frac = 41; }, {"frac", "41", "1..40"}}),
    [](const auto& test) { return test.param.name; });

class BadProducts : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadProducts, AreValueErrors) {
  Product product;
  GetParam().spoil(product);
  expect_value_error(product.accumulate(), GetParam().parts);
  expect_value_error(product.scaled_mm(), GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Gemm, BadProducts,
    ::testing::Values(BadCall{"NullOut", [](Product& p) { p.out.data = nullptr; }, {"out", "null"}},
                      BadCall{"RowsOfOut", [](Product& p) { p.out.rows = 3; }, {"out", "[3, 3]", "[2, 3]"}},
                      BadCall{"ColumnsOfOut", [](Product& p) { p.out.columns = -3; }, {"[2, -3]", "[2, 3]"}},
                      BadCall{"SizesThatOverflow",
                              [](Product& p) { p.a.rows = p.b.rows = p.out.rows = p.out.columns = kHuge; },
                              {std::to_string(kHuge), "too many"}},
                      BadCall{"MoreElementsThanAddresses",
                              [](Product& p) {
                                p.a.rows = p.out.rows = std::int64_t{1} << 31;
                                p.b.rows = p.out.columns = std::int64_t{1} << 30;
                              },
                              {"2147483648", "1073741824", "too many"}},
                      BadCall{"SplitBelowOne", [](Product& p) { p.how.split.S = 0; }, {"S=0", ">= 1"}},
                      BadCall{"SchemeOfAnotherPreset",
                              [](Product& p) {
                                p.how.split = {2, SplitScheme::contiguous};
                              },
                              {"contiguous", "ada", "serial"}}),
    [](const auto& test) { return test.param.name; });

TEST(Accumulate, YieldsFloat32Alone) {
  for (const Format& f : kFormats) {
    Product product;
    product.out.format = f.id;
    if (f.id == FormatId::float32) {
      EXPECT_TRUE(product.accumulate().ok());
    } else {
      expect_value_error(product.accumulate(), {"out", std::string(f.name), "float32"});
    }
  }
}

TEST(Gemm, PresetWithoutAGemmLevelIsUnsupported) {
  Product product;
  product.how = {find_preset("b200_mma_sync").value(), false, {}};
  for (const Status& status : {product.accumulate(), product.scaled_mm()}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::unsupported_feature);
  }
}

TEST(Gemm, EmptyResultTouchesNothing) {
  for (const auto& [m, n] :
       {std::pair<std::int64_t, std::int64_t>{0, 3}, {2, 0}, {0, 0}, {0, kHuge}, {kHuge, 0}}) {
    Product product;
    product.a.rows = product.out.rows = m;
    product.b.rows = product.out.columns = n;
    product.out.data = nullptr;
    if (m == 0) product.a.data = nullptr;
    if (n == 0) product.b.data = nullptr;
    // Where only one operand has rows they are real; where they are many they are all the same one.
    product.a.row_stride = product.b.row_stride = 0;
    EXPECT_TRUE(product.accumulate().ok());
    EXPECT_TRUE(product.scaled_mm().ok());
  }
}

TEST(Gemm, WithoutProductsIsPlusZeroWhateverTheScales) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float scale : {1.0F, -1.0F, kNan, std::numeric_limits<float>::infinity()}) {
    for (const bool fast : {true, false}) {
      for (const SplitK& split :
           {SplitK{}, SplitK{3, SplitScheme::serial}, SplitK{4, SplitScheme::pairwise}}) {
        Product product;
        product.a.depth = product.b.depth = 0;
        product.a.data = product.b.data = nullptr;
        product.how.fast = fast;
        product.how.split = split;
        product.epilogue = {scale, scale, scale};
        std::ranges::fill(product.result, kNan);
        ASSERT_TRUE(product.accumulate().ok());
        for (const float x : product.result) EXPECT_EQ(std::bit_cast<std::uint32_t>(x), 0U);
        std::ranges::fill(product.result, kNan);
        ASSERT_TRUE(product.scaled_mm().ok());
        for (const float x : product.result) EXPECT_EQ(std::bit_cast<std::uint32_t>(x), 0U);
      }
    }
  }
}

TEST(Dot, NeedsOperandsOfOneSizeAndAResult) {
  Product product(2, 3);
  expect_value_error(product.dot(), {"a [2, 4]", "b [3, 4]", "same sizes"});
  Product square(3, 3);
  expect_value_error(dot(square.a, square.b, nullptr, square.how.preset, nullptr), {"d", "null"});
  square.a.rows = square.b.rows = kHuge;
  expect_value_error(square.dot(), {std::to_string(kHuge), "too many"});
}

TEST(Dot, WithoutProductsIsTheAccumulator) {
  const std::vector<std::uint32_t> c{0,          0x80000000, 0x3F800001, 0x00000001,
                                     0xFF800000, 0x7F800001, 0xFFC00000};
  const std::vector<std::uint32_t> want{0,          0x80000000, 0x3F800001, 0x00000001,
                                        0xFF800000, 0x7FFFFFFF, 0x7FFFFFFF};
  const OperandView empty{nullptr, FormatId::e5m2, static_cast<std::int64_t>(c.size()), 0, 0, 1};
  for (const Preset& preset : shipped_presets()) {
    std::vector<std::uint32_t> d(c.size(), 1);
    ASSERT_TRUE(dot(empty, empty, reinterpret_cast<const float*>(c.data()), preset,
                    reinterpret_cast<float*>(d.data()))
                    .ok());
    EXPECT_EQ(d, want);
    ASSERT_TRUE(dot(empty, empty, nullptr, preset, reinterpret_cast<float*>(d.data())).ok());
    EXPECT_TRUE(std::ranges::all_of(d, [](std::uint32_t bits) { return bits == 0; }));
  }
}

// 2^31 rows are no matrix of 2^62 results. The call is cancelled: it would take minutes.
TEST(Dot, TakesMoreRowsThanAProductMayHave) {
  constexpr std::int64_t kRows = std::int64_t{1} << 31;
  constexpr std::size_t kBytes = kRows * sizeof(float);
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::uint8_t one = 0x38;
  const OperandView rows{&one, FormatId::e4m3, kRows, 1, 0, 1};
  Execution execution;
  execution.threads = 1;
  execution.cancelled = [] { return true; };
  auto* const d = static_cast<float*>(memory);
  const Status status = dot(rows, rows, nullptr, find_preset("ada").value(), d, execution);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::cancelled) << status.error().message;
  EXPECT_EQ(d[0], 1.0F);
  munmap(memory, kBytes);
}

TEST(Gemm, CancelledEndsSoon) {
  const std::uint8_t one = 0x38;
  const OperandView deep{&one, FormatId::e4m3, 1024, 1 << 16, 0, 0};  // 2^36 products
  std::vector<float> result(1024 * 1024);
  const ResultView out{result.data(), FormatId::float32, 1024, 1024, 1024, 1};
  for (const int threads : {1, 2}) {
    int polls = 0;
    const Execution execution{threads, [&] { return ++polls == 2; }};
    const auto start = std::chrono::steady_clock::now();
    const Accumulation how{find_preset("ada").value(), true, {}};
    for (const Status& status : {accumulate(deep, deep, how, out, execution),
                                 scaled_mm(deep, deep, how, {}, out, {threads, [] { return true; }})}) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::cancelled);
    }
    EXPECT_EQ(polls, 2) << "polled after it said so";
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  }
}

TEST(Gemm, PollThatSaysNoChangesNothing) {
  Product product(20, 20, 2000);
  product.execution.cancelled = [] { return false; };
  ASSERT_TRUE(product.accumulate().ok());
  EXPECT_TRUE(std::ranges::all_of(product.result, [](float x) { return x == 2000.0F; }));
}

// A drawn product with two results: as `baseline` computes it, and under other circumstances.
class SameBits : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 37;
  static constexpr std::int64_t kColumns = 29;
  static constexpr std::int64_t kDepth = 515;

  SameBits() {
    RandomCodes random(30);
    for (auto* codes : {&a_, &b_}) {
      for (std::int64_t r = 0; r < (codes == &a_ ? kRows : kColumns); ++r) {
        const std::vector<std::uint8_t> row = random.row(FormatId::e4m3, kDepth);
        codes->insert(codes->end(), row.begin(), row.end());
      }
    }
    for (std::int64_t r = 0; r < kColumns; ++r) c_.push_back(random.accumulator(false));
  }

  // Bits of an accumulate, of a scaled_mm for each format and of a dot.
  std::vector<std::uint32_t> everything(int threads) const {
    const OperandView a{a_.data(), FormatId::e4m3, kRows, kDepth, kDepth, 1};
    const OperandView b{b_.data(), FormatId::e4m3, kColumns, kDepth, kDepth, 1};
    const Execution execution{threads, {}};
    std::vector<std::uint32_t> all;
    for (const Preset& preset : shipped_presets()) {
      Accumulation how{preset, !preset.slow_chunk, {}};
      if (preset.name == "ada") how.split = {3, SplitScheme::pairwise};
      if (preset.name == "hopper") how.split = {4, SplitScheme::contiguous};
      for (const Format& f : kFormats) {
        std::vector<std::uint32_t> out(kRows * kColumns);  // strided: each code in a word of its own
        const std::int64_t step = 4 / f.bytes();
        EXPECT_TRUE(scaled_mm(a, b, how, {0.3F, 1.7F, 0.01F},
                              {out.data(), f.id, kRows, kColumns, kColumns * step, step}, execution)
                        .ok());
        all.insert(all.end(), out.begin(), out.end());
      }
      std::vector<std::uint32_t> out(kRows * kColumns);
      EXPECT_TRUE(
          accumulate(a, b, how, {out.data(), FormatId::float32, kRows, kColumns, kColumns, 1}, execution)
              .ok());
      all.insert(all.end(), out.begin(), out.end());
      OperandView left = a;
      left.rows = kColumns;
      EXPECT_TRUE(dot(left, b, c_.data(), preset, reinterpret_cast<float*>(out.data()), execution).ok());
      all.insert(all.end(), out.begin(), out.begin() + kColumns);
    }
    return all;
  }

 private:
  std::vector<std::uint8_t> a_;
  std::vector<std::uint8_t> b_;
  std::vector<float> c_;
};

TEST_F(SameBits, ForAnyNumberOfThreads) {
  const std::vector<std::uint32_t> want = everything(1);
  EXPECT_TRUE(std::ranges::any_of(want, [](std::uint32_t bits) { return bits != 0; }));
  for (const int threads : {0, 2, 3, 8}) EXPECT_EQ(everything(threads), want) << threads << " threads";
}

TEST_F(SameBits, InAnyRoundingMode) {
  const std::vector<std::uint32_t> want = everything(2);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const std::vector<std::uint32_t> got = everything(2);
    const int mode_after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(got, want);
    EXPECT_EQ(mode_after, mode) << "the caller's rounding mode was changed";
  }
}

#if defined(__SSE__)
constexpr unsigned kFlushResults = 0x8000;  // MXCSR.FTZ
constexpr unsigned kFlushInputs = 0x0040;   // MXCSR.DAZ

// Sets bits of the calling thread's floating-point control for a scope.
class FloatControl {
 public:
  explicit FloatControl(unsigned bits) { __builtin_ia32_ldmxcsr(saved_ | bits); }
  FloatControl(const FloatControl&) = delete;
  FloatControl& operator=(const FloatControl&) = delete;
  ~FloatControl() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  unsigned saved_ = __builtin_ia32_stmxcsr();
};

TEST_F(SameBits, WhileSubnormalsAreFlushed) {
  const std::vector<std::uint32_t> want = everything(2);
  std::vector<std::uint32_t> got;
  {
    const FloatControl flush(kFlushResults | kFlushInputs);
    got = everything(2);
  }
  EXPECT_EQ(got, want);
}

// A result that is subnormal, an operand scale that is, and an accumulator that is.
TEST(Subnormals, AreKeptWhileTheyAreFlushed) {
  const FloatControl flush(kFlushResults | kFlushInputs);
  const std::uint8_t one = 0x38;
  const std::uint8_t zero = 0;
  const OperandView row{&one, FormatId::e4m3, 1, 1, 1, 1};
  const OperandView nothing{&zero, FormatId::e4m3, 1, 1, 1, 1};
  const auto subnormal = std::bit_cast<float>(0x00012345U);
  std::uint32_t bits = 0;
  const ResultView out{&bits, FormatId::float32, 1, 1, 1, 1};
  ASSERT_TRUE(scaled_mm(row, row, {find_preset("ada").value(), true, {}}, {subnormal, 1.0F, {}}, out).ok());
  EXPECT_EQ(bits, 0x00012345U);
  const Preset late = find_preset("b200_mma_sync").value();  // c is added in fp32
  float d = 0.0F;
  ASSERT_TRUE(dot(nothing, row, &subnormal, late, &d).ok());
  EXPECT_EQ(std::bit_cast<std::uint32_t>(d), 0x00012345U);
}

TEST(PackedOperands, OutliveTheOperandTheyWereMadeOf) {
  Product p(5, 70, 40);
  ASSERT_TRUE(p.accumulate().ok());
  const std::vector<float> expected = p.result;
  const Result<PackedOperand> packed = PackedOperand::make(p.b);
  ASSERT_TRUE(packed.ok());
  const PackedOperand copy = packed.value();
  std::ranges::fill(p.b_codes, std::uint8_t{0});
  std::ranges::fill(p.result, 0.0F);
  for (const std::string_view target : cpu_targets()) {
    Execution on_target;
    on_target.target = target;
    ASSERT_TRUE(accumulate(p.a, copy, p.how, p.out, on_target).ok());
    EXPECT_EQ(p.result, expected) << target;
  }
}

TEST(PackedOperands, AreCheckedLikeOthers) {
  Product p;
  p.b.format = FormatId::float16;
  const Result<PackedOperand> halves = PackedOperand::make(p.b);
  ASSERT_FALSE(halves.ok());
  EXPECT_EQ(halves.error().kind, ErrorKind::value_error);
  p.b = {nullptr, FormatId::e4m3, kHuge, 4, 4, 1};
  EXPECT_FALSE(PackedOperand::make(p.b).ok());
  Product other(2, 3, 5);
  const Result<PackedOperand> deeper = PackedOperand::make(other.b);
  ASSERT_TRUE(deeper.ok());
  expect_value_error(accumulate(p.a, deeper.value(), p.how, p.out), {"[2, 4]", "[3, 5]", "K"});
  other.b.rows = 0;
  EXPECT_TRUE(PackedOperand::make(other.b).ok());
}

TEST(FlushToZero, IsSeenInResultsAndInInputs) {
  EXPECT_FALSE(flush_to_zero_active());
  for (const unsigned bits : {kFlushResults, kFlushInputs, kFlushResults | kFlushInputs}) {
    bool active = false;
    {
      const FloatControl flush(bits);
      active = flush_to_zero_active();
    }
    EXPECT_TRUE(active) << bits;
  }
  EXPECT_FALSE(flush_to_zero_active());
}
#endif

// Where codes lie: strides of either sign, elements that are skipped, rows that are one and the same.
TEST(Views, OfAnyLayoutGiveTheSameBits) {
  constexpr std::int64_t kM = 5;
  constexpr std::int64_t kN = 4;
  constexpr std::int64_t kK = 70;
  RandomCodes random(31);
  std::vector<std::uint8_t> a;
  for (std::int64_t m = 0; m < kM; ++m) {
    const std::vector<std::uint8_t> row = random.row(FormatId::e5m2, kK);
    a.insert(a.end(), row.begin(), row.end());
  }
  const std::vector<std::uint8_t> b = random.row(FormatId::e4m3, kN * kK);
  const Accumulation how{find_preset("ada").value(), false, {2, SplitScheme::serial}};
  const OperandView b_view{b.data(), FormatId::e4m3, kN, kK, kK, 1};
  std::vector<float> want(kM * kN);
  ASSERT_TRUE(accumulate({a.data(), FormatId::e5m2, kM, kK, kK, 1}, b_view, how,
                         {want.data(), FormatId::float32, kM, kN, kN, 1})
                  .ok());
  struct Layout {
    std::int64_t row_stride;
    std::int64_t depth_stride;
  };
  for (const Layout& layout :
       {Layout{kK + 3, 1}, {1, kM}, {2, 2 * kM + 1}, {-kK, 1}, {kK, -1}, {-1, -kM - 2}}) {
    const auto magnitude = [](std::int64_t x) { return x < 0 ? -x : x; };
    std::vector<std::uint8_t> memory(static_cast<std::size_t>((kM - 1) * magnitude(layout.row_stride) +
                                                              (kK - 1) * magnitude(layout.depth_stride) + 1));
    const std::int64_t first = std::max<std::int64_t>(0, -(kM - 1) * layout.row_stride) +
                               std::max<std::int64_t>(0, -(kK - 1) * layout.depth_stride);
    for (std::int64_t m = 0; m < kM; ++m)
      for (std::int64_t k = 0; k < kK; ++k)
        memory.at(static_cast<std::size_t>(first + m * layout.row_stride + k * layout.depth_stride)) =
            a[static_cast<std::size_t>(m * kK + k)];
    const OperandView view{memory.data() + first, FormatId::e5m2,     kM, kK,
                           layout.row_stride,     layout.depth_stride};
    std::vector<float> got(kM * kN);
    ASSERT_TRUE(accumulate(view, b_view, how, {got.data(), FormatId::float32, kM, kN, kN, 1}).ok());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << "strides " << layout.row_stride << ", " << layout.depth_stride;
  }
  // Every row the first one.
  std::vector<float> got(kM * kN);
  ASSERT_TRUE(accumulate({a.data(), FormatId::e5m2, kM, kK, 0, 1}, b_view, how,
                         {got.data(), FormatId::float32, kM, kN, kN, 1})
                  .ok());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i % kN]));
}

TEST(Views, OfResultsWriteTheirElementsAlone) {
  constexpr std::int64_t kM = 3;
  constexpr std::int64_t kN = 4;
  constexpr std::uint8_t kUntouched = 0xA5;
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < kM; ++i) codes.push_back(static_cast<std::uint8_t>(0x38 + 8 * i));  // 1, 2, 4
  const std::vector<std::uint8_t> ones(kN, 0x38);
  const OperandView a{codes.data(), FormatId::e4m3, kM, 1, 1, 1};
  const OperandView b{ones.data(), FormatId::e4m3, kN, 1, 1, 1};
  struct Layout {
    std::int64_t first;
    std::int64_t row_stride;
    std::int64_t column_stride;
  };
  for (const Format& f : kFormats) {
    const auto bytes = static_cast<std::size_t>(f.bytes());
    for (const Layout& layout :
         {Layout{0, kN, 1}, {2, kN + 3, 1}, {0, 1, kM}, {1, 2, 9}, {11, -kN, 1}, {29, -1, -7}}) {
      std::vector<std::uint8_t> memory(40 * bytes, kUntouched);
      const ResultView out{memory.data() + static_cast<std::size_t>(layout.first) * bytes,
                           f.id,
                           kM,
                           kN,
                           layout.row_stride,
                           layout.column_stride};
      ASSERT_TRUE(scaled_mm(a, b, {find_preset("ada").value(), true, {}}, {}, out).ok());
      std::vector<std::uint8_t> want(memory.size(), kUntouched);
      for (std::int64_t m = 0; m < kM; ++m) {
        for (std::int64_t n = 0; n < kN; ++n) {
          // 2^m: the exponent field alone.
          const auto code = static_cast<std::uint32_t>(f.bias + m) << f.fraction_bits;
          const std::int64_t at = layout.first + m * layout.row_stride + n * layout.column_stride;
          std::memcpy(&want.at(static_cast<std::size_t>(at) * bytes), &code, bytes);
        }
      }
      EXPECT_EQ(memory, want) << f.name << ", strides " << layout.row_stride << ", " << layout.column_stride;
    }
  }
}

}  // namespace
}  // namespace mmaemu
