// The caller's floating-point environment: results do not depend on it, and it is what it was after every
// call.
#include <cfenv>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "mmaemu/gemm.h"

#include "cpu/target.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mmaemu::testing {
namespace {

#if defined(__x86_64__)
using Control = std::uint32_t;
Control control() {
  return _mm_getcsr();
}
void set_control(Control value) {
  _mm_setcsr(value);
}
// Rounding down, up and toward zero; flush-to-zero; denormals-are-zero; all of it with traps for invalid,
// denormal, divide by zero, overflow, underflow and inexact open; sticky flags set.
const std::vector<Control> kOddStates{0x3F80, 0x5F80, 0x7F80, 0x9F80, 0x1FC0, 0xFFC0, 0x8040, 0x0000, 0x1FBF};
#elif defined(__aarch64__)
using Control = std::uint64_t;
Control control() {
  Control value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(Control value) {
  asm volatile("msr fpcr, %0" : : "r"(value) : "memory");
}
// Rounding up, down and toward zero; flush-to-zero; default NaN; all of it.
const std::vector<Control> kOddStates{1U << 22, 2U << 22, 3U << 22, 1U << 24, 1U << 25, 15U << 22};
#endif

class RestoreControl {
 public:
  RestoreControl() : before_(control()) {}
  RestoreControl(const RestoreControl&) = delete;
  RestoreControl& operator=(const RestoreControl&) = delete;
  ~RestoreControl() { set_control(before_); }

 private:
  Control before_;
};

// A product with slow chains, a split and an epilogue whose results are subnormal, large and inexact.
struct Call {
  static constexpr std::int64_t kM = 7, kN = 70, kK = 300;
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(kM * kK);
  std::vector<std::uint8_t> b = std::vector<std::uint8_t>(kN * kK);
  Accumulation how{find_preset("hopper").value(), false, {2, SplitScheme::contiguous}};
  Epilogue epilogue{0x1p-120F, 0x1.234568p-5F, std::nullopt};
  Execution execution;

  explicit Call(std::string_view target) {
    std::uint32_t x = 1;
    for (std::vector<std::uint8_t>* codes : {&a, &b}) {
      for (std::uint8_t& code : *codes) {
        x = x * 1664525 + 1013904223;
        code = static_cast<std::uint8_t>(x >> 24);
        if ((code & 0x7F) == 0x7F) code = 0x01;
      }
    }
    execution.target = target;
    execution.threads = 2;
  }

  Status run(std::vector<float>& out) const {
    out.assign(kM * kN, 0.0F);
    return scaled_mm({a.data(), FormatId::e4m3, kM, kK, kK, 1}, {b.data(), FormatId::e4m3, kN, kK, kK, 1},
                     how, epilogue, {out.data(), FormatId::float32, kM, kN, kN, 1}, execution);
  }
};

class FloatEnvironment : public ::testing::TestWithParam<std::string_view> {};

TEST_P(FloatEnvironment, OfTheCallerChangesNothingAndIsRestored) {
  const Call call(GetParam());
  std::vector<float> expected;
  ASSERT_TRUE(call.run(expected).ok());
  for (const Control state : kOddStates) {
    std::vector<float> got;
    Status status;
    Control set = 0;
    Control after = 0;
    {
      const RestoreControl restore;
      set_control(state);
      set = control();
      status = call.run(got);
      after = control();
    }
    EXPECT_EQ(after, set);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << "state " << state;
  }
}

TEST_P(FloatEnvironment, IsRestoredWhenACallIsCancelledOrRefused) {
  Call call(GetParam());
  for (const Control state : kOddStates) {
    std::vector<float> out;
    Status refused;
    Control set = 0;
    Control after_cancelled = 0;
    Control after_refused = 0;
    {
      const RestoreControl restore;
      set_control(state);
      set = control();
      call.execution.cancelled = [] { return true; };
      static_cast<void>(call.run(out));  // cancelled, unless it is done within the first 20 ms
      after_cancelled = control();
      call.execution.cancelled = {};
      call.how.split = {2, SplitScheme::serial};
      refused = call.run(out);
      after_refused = control();
    }
    call.how.split = {2, SplitScheme::contiguous};
    EXPECT_EQ(after_cancelled, set);
    EXPECT_EQ(after_refused, set);
    EXPECT_FALSE(refused.ok());
  }
}

TEST_P(FloatEnvironment, KeepsTheCallersStickyFlagsAsTheyWere) {
  const Call call(GetParam());
  std::vector<float> out;
  ASSERT_EQ(std::feclearexcept(FE_ALL_EXCEPT), 0);
  ASSERT_TRUE(call.run(out).ok());
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
  ASSERT_EQ(std::feraiseexcept(FE_DIVBYZERO), 0);
  ASSERT_TRUE(call.run(out).ok());
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
  std::feclearexcept(FE_ALL_EXCEPT);
}

INSTANTIATE_TEST_SUITE_P(Targets, FloatEnvironment, ::testing::ValuesIn(cpu_targets()),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace mmaemu::testing
