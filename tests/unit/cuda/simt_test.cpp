// The host's stand-in for a GPU notices what it is there to notice, and its arithmetic is IEEE 754's.
#define MMAEMU_HOST_ARCHITECTURE 89
#include "simt/simt.h"

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <string>

#include "simt/instructions.h"

namespace mmaemu::testing::simt {
namespace {

struct alignas(16) Row {
  Word w[4];
};

// Runs `body` in a block of 64 threads with a shared array of 64 rows; what was wrong, or nothing.
std::string run(void (*body)(SharedArray<Row, 64>& rows, int thread)) {
  static SharedArray<Row, 64> rows;
  const auto wrong = launch({{1, 1}, {64, 1}}, true, [&] { body(rows, static_cast<int>(threadIdx.x)); });
  return wrong.value_or("");
}

void expect_mentions(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Simt, RunsABlockWithBarriers) {
  EXPECT_EQ(run([](SharedArray<Row, 64>& rows, int thread) {
              rows.store(thread, {{static_cast<Word>(thread), 0, 0, 0}});
              __syncthreads();
              if (rows.load(63 - thread).w[0] != static_cast<Word>(63 - thread))
                fault("another thread's word is lost");
              __syncthreads();
              rows.store(63 - thread, {});
            }),
            "");
}

TEST(Simt, NoticesRaces) {
  expect_mentions(run([](SharedArray<Row, 64>& rows, int thread) {
                    rows.store(thread, {});
                    if (thread == 1) rows.load(0);
                    __syncthreads();
                  }),
                  "without a barrier between");
  expect_mentions(run([](SharedArray<Row, 64>& rows, int thread) {
                    rows.store(thread, {});
                    __syncthreads();
                    rows.load(thread ^ 1);
                    rows.store(thread, {});
                  }),
                  "without a barrier between");
  expect_mentions(run([](SharedArray<Row, 64>& rows, int thread) { rows.store(thread / 2, {}); }),
                  "two threads write");
}

TEST(Simt, NoticesAccessesOutsideOfAnArrayAndBeforeAnyWrite) {
  expect_mentions(run([](SharedArray<Row, 64>& rows, int thread) { rows.store(thread + 1, {}); }),
                  "element 64");
  expect_mentions(run([](SharedArray<Row, 64>& rows, int thread) { rows.load(thread); }),
                  "no thread has written");
}

TEST(Simt, NoticesThreadsThatDoNotCome) {
  expect_mentions(run([](SharedArray<Row, 64>&, int thread) {
                    if (thread < 40) __syncthreads();
                  }),
                  "wait for others");
  expect_mentions(run([](SharedArray<Row, 64>&, int thread) {
                    if (thread != 5) exchange(1, 1);
                  }),
                  "wait for others");
  expect_mentions(run([](SharedArray<Row, 64>&, int thread) {
                    Word d[4] = {};
                    if (thread == 5)
                      exchange(1, 1);
                    else
                      mma_s8(d, {1, 2, 3, 4}, 5, 6);
                  }),
                  "lanes of a warp");
}

TEST(Simt, LoadsMatricesAndExchangesAsPtxSays) {
  EXPECT_EQ(run([](SharedArray<Row, 64>& rows, int thread) {
              const auto w = static_cast<Word>(thread) * 4;
              rows.store(thread, {{w, w + 1, w + 2, w + 3}});
              __syncthreads();
              const int lane = thread % 32;
              const Row q = rows.load_matrices(lane);
              for (int matrix = 0; matrix < 4; ++matrix)
                if (q.w[matrix] != static_cast<Word>((8 * matrix + lane / 4) * 4 + lane % 4))
                  fault("a wrong word");
              if (exchange(static_cast<Word>(lane), 8) != static_cast<Word>(lane ^ 8)) fault("a wrong lane");
            }),
            "");
}

using Random = std::mt19937;
std::uint32_t word(Random& random) {
  return static_cast<std::uint32_t>(random());
}

float any_float(Random& random) {
  const std::uint32_t bits = word(random);
  const float x = std::bit_cast<float>(bits);
  return std::isfinite(x) ? x : std::bit_cast<float>(bits & 0x807FFFFFU);
}

TEST(SimtArithmetic, FusesTowardZero) {
  Random random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float a = any_float(random);
    const float b = i % 3 == 0 ? std::bit_cast<float>(0x3F800000U | word(random) % 64) : any_float(random);
    // Often of the product's size, where digits cancel.
    const float c = i % 2 == 0
                        ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(-a * b) ^ word(random) % 4096)
                        : any_float(random);
    if (!std::isfinite(c)) continue;
    std::fesetround(FE_TOWARDZERO);
    const volatile float expected = std::fma(a, b, c);
    std::fesetround(FE_TONEAREST);
    if (!std::isfinite(expected)) continue;
    ASSERT_EQ(__float_as_uint(__fmaf_rz(a, b, c)) << (expected == 0.0F ? 1 : 0),
              __float_as_uint(expected) << (expected == 0.0F ? 1 : 0))
        << std::hexfloat << a << " * " << b << " + " << c;
  }
}

TEST(SimtArithmetic, FusesBf16ToNearestEven) {
  Random random(2);
  const auto exact = [](float x) { return static_cast<long double>(x); };
  for (int i = 0; i < 300'000; ++i) {
    // Exponents so near that the exact result fits a long double.
    const auto any = [&] { return (0x3A00U + word(random) % 0x0A00U) | (word(random) % 2) << 15; };
    const Word a = any() << 16 | any();
    const Word b = any() << 16 | any();
    const Word c = any() << 16 | any();
    const Word d = bf16x2_fma<1>(a, b, c);
    for (const int half : {0, 1}) {
      const long double wanted = exact(bf16_of(a, 1)) * exact(bf16_of(b, half)) + exact(bf16_of(c, half));
      const long double error = std::fabs(exact(bf16_of(d, half)) - wanted);
      const Word code = d >> (16 * half) & 0xFFFFU;
      if (wanted == 0) {
        ASSERT_EQ(code, 0U);
        continue;
      }
      for (const Word other : {code + 1, code - 1}) {
        const long double distance = std::fabs(exact(__uint_as_float(other << 16)) - wanted);
        ASSERT_TRUE(error < distance || (error == distance && (code & 1U) == 0))
            << std::hex << a << " " << b << " " << c;
      }
    }
  }
}

TEST(SimtArithmetic, DecodesEveryFp8CodeToFp16) {
  for (Word code = 0; code < 256; ++code) {
    const float e4m3 = float_of_fp16<1>(fp16x2_of<E4m3, 1>(code << 24));
    const float e5m2 = float_of_fp16<0>(fp16x2_of<E5m2, 0>(code));
    if (finite<E4m3>(code)) {
      EXPECT_EQ(__float_as_uint(e4m3), __float_as_uint(value<E4m3>(code))) << code;
    }
    if (finite<E5m2>(code)) {
      EXPECT_EQ(__float_as_uint(e5m2), __float_as_uint(value<E5m2>(code))) << code;
    }
  }
}

TEST(SimtArithmetic, PermutesBytesAndTakesMaximaOfSums) {
  EXPECT_EQ(__byte_perm(0x33221100U, 0x77665544U, 0x7531U), 0x77553311U);
  EXPECT_EQ(__viaddmax_s16x2(0x00010005U, 0xFFFF0002U, 0xFFFD0006U), 0x00000007U);
}

}  // namespace
}  // namespace mmaemu::testing::simt
