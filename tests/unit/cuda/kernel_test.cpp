// The chains of every CUDA kernel, compiled for the host, against the model bit by bit. Operands and result
// lie between pages that nobody may touch.
#include <algorithm>
#include <bit>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "mmaemu/gemm.h"

#include "cuda/launcher.h"
#include "cuda/registry.h"
#include "guarded_memory.h"
#include "host_kernels.h"
#include "operands.h"

namespace mmaemu::testing {
namespace {

struct Chains {
  const cuda::Kernel* kernel;
  cuda::FormatPair formats;

  std::string function() const {
    return "mmaemu_" + std::string(kernel->name) + "_" + std::string(format(formats.a).name) +
           std::string(format(formats.b).name);
  }
};

void PrintTo(const Chains& c, std::ostream* out) {
  *out << c.function();
}

std::vector<Chains> all_chains() {
  std::vector<Chains> all;
  for (const cuda::Kernel& kernel : cuda::kernels())
    if (kernel.exists())
      for (const cuda::FormatPair& pair : kernel.pairs) all.push_back({&kernel, pair});
  return all;
}

class KernelChains : public ::testing::TestWithParam<Chains> {
 protected:
  const Format& format_a() const { return format(GetParam().formats.a); }
  const Format& format_b() const { return format(GetParam().formats.b); }
  Preset preset() const { return find_preset(std::string(GetParam().kernel->preset)).value(); }

  using Flush = GuardedMemory<float>::Flush;

  // Compares the fp32 chains of a product. Where `special`, outputs that an operand makes infinite or NaN are
  // free.
  void expect_model(const Operands& operands, int M, int N, int K, Flush flush, const std::string& what,
                    bool special = false) {
    std::vector<float> expected(static_cast<std::size_t>(M) * static_cast<std::size_t>(N));
    Execution execution;
    execution.target = "model";
    ASSERT_TRUE(accumulate({operands.a.data(), format_a().id, M, K, K, 1},
                           {operands.b.data(), format_b().id, N, K, K, 1}, {preset(), true, {}},
                           {expected.data(), FormatId::float32, M, N, N, 1}, execution)
                    .ok());
    const auto codes_flush = flush == Flush::end ? GuardedMemory<std::uint8_t>::Flush::end
                                                 : GuardedMemory<std::uint8_t>::Flush::beginning;
    GuardedMemory<std::uint8_t> a(operands.a.size(), codes_flush);
    GuardedMemory<std::uint8_t> b(operands.b.size(), codes_flush);
    GuardedMemory<float> c(expected.size(), flush);
    std::ranges::copy(operands.a, a.data());
    std::ranges::copy(operands.b, b.data());
    std::fill_n(c.data(), c.size(), -1.0F);
    const std::uint8_t* a_data = a.data();
    const std::uint8_t* b_data = b.data();
    float* c_data = c.data();
    std::array<void*, 6> parameters{&a_data, &b_data, &c_data, &M, &N, &K};
    const cuda::Tile& tile = GetParam().kernel->tile;
    const auto blocks = [](int size, int part) { return static_cast<unsigned>((size + part - 1) / part); };
    const auto wrong =
        run_on_host(GetParam().function(), {blocks(N, tile.columns), blocks(M, tile.rows)},
                    {static_cast<unsigned>(tile.threads_x), static_cast<unsigned>(tile.threads_y)},
                    parameters.data(), false);
    ASSERT_FALSE(wrong) << what << ": " << *wrong;
    const auto finite = [](std::span<const std::uint8_t> codes, const Format& f) {
      return std::ranges::none_of(codes, [&](std::uint8_t code) { return (code & 0x7FU) > f.max_finite(); });
    };
    int different = 0;
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        const auto i =
            static_cast<std::size_t>(m) * static_cast<std::size_t>(N) + static_cast<std::size_t>(n);
        if (std::bit_cast<std::uint32_t>(c.data()[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
        const auto row = [&](const std::vector<std::uint8_t>& codes, int r) {
          return std::span(codes).subspan(static_cast<std::size_t>(r) * static_cast<std::size_t>(K),
                                          static_cast<std::size_t>(K));
        };
        if (special && !(finite(row(operands.a, m), format_a()) && finite(row(operands.b, n), format_b())))
          continue;
        if (different++ == 0)
          ADD_FAILURE() << what << ", " << M << " x " << N << " x " << K << ": output " << m << ", " << n
                        << " is " << std::hexfloat << c.data()[i] << " instead of " << expected[i];
      }
    }
    EXPECT_EQ(different, 0);
  }
};

TEST_P(KernelChains, EqualTheModelForEveryClassOfOperands) {
  Random random(20260702);
  for (int i = 0; i < kOperandClasses; ++i) {
    const auto c = static_cast<OperandClass>(i);
    const bool special = c == OperandClass::non_finite || c == OperandClass::mostly_infinite;
    const int K = i % 2 == 0 ? 112 : 96;
    expect_model(make_operands(c, format_a(), format_b(), 67, 61, K, preset().nfma, random), 67, 61, K,
                 i % 2 == 0 ? Flush::end : Flush::beginning, std::string(name(c)), special);
  }
}

TEST_P(KernelChains, EqualTheModelAtTheEdgesOfTiles) {
  struct Size {
    int M, N, K;
  };
  Random random(20260703);
  for (const Size& s :
       {Size{1, 1, 16}, Size{1, 2, 48}, Size{128, 129, 32}, Size{129, 127, 16}, Size{3, 260, 144}})
    expect_model(
        make_operands(OperandClass::bell, format_a(), format_b(), s.M, s.N, s.K, preset().nfma, random), s.M,
        s.N, s.K, Flush::end, "bell");
}

TEST_P(KernelChains, EqualTheModelForEveryPairOfFiniteCodes) {
  // Row r of a is code r, then what makes the product one of several: row n of b likewise.
  constexpr int kCodes = 256;
  constexpr int kDepth = 32;
  Random random(20260704);
  const auto codes = [&](const Format& f) {
    std::vector<std::uint8_t> all;
    for (int r = 0; r < kCodes; ++r) {
      for (int k = 0; k < kDepth; ++k) {
        auto code = static_cast<std::uint8_t>(k % 16 == 0 ? r : pick(random, 0, 255));
        if ((code & 0x7FU) > f.max_finite()) code = static_cast<std::uint8_t>(code & 0x83U);
        if (k % 16 > 2) code = 0;
        all.push_back(code);
      }
    }
    return all;
  };
  expect_model({codes(format_a()), codes(format_b())}, kCodes, kCodes, kDepth, Flush::end,
               "every pair of codes");
}

TEST_P(KernelChains, EqualTheModelOverALongChain) {
  Random random(20260705);
  for (const OperandClass c : {OperandClass::any_finite, OperandClass::tight_accumulator})
    expect_model(make_operands(c, format_a(), format_b(), 9, 8, 1040, preset().nfma, random), 9, 8, 1040,
                 Flush::end, std::string(name(c)));
}

INSTANTIATE_TEST_SUITE_P(All, KernelChains, ::testing::ValuesIn(all_chains()),
                         [](const auto& chains) { return chains.param.function(); });

}  // namespace
}  // namespace mmaemu::testing
