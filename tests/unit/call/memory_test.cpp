// Exhausted memory: every public function that can fail reports it as an Error, whichever allocation fails.
// This program's operator new fails on demand, so it is a program of its own.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <malloc.h>
#include <new>
#include <vector>

#include "mmaemu/call.h"
#include "mmaemu/gemm.h"

namespace {

// Allocations that still succeed on this thread; negative: all of them.
thread_local std::int64_t allocations_left = -1;

// Bytes held by all threads, and the most since it was last set.
std::atomic<std::int64_t> bytes_held = 0;
std::atomic<std::int64_t> most_bytes_held = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  constexpr std::size_t kMost = std::size_t{1} << 40;  // sanitizers abort where malloc would refuse
  if (allocations_left == 0 || size > kMost) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  const std::int64_t held = bytes_held += static_cast<std::int64_t>(malloc_usable_size(memory));
  std::int64_t most = most_bytes_held;
  while (held > most && !most_bytes_held.compare_exchange_weak(most, held)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) bytes_held -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

namespace mmaemu {
namespace {

std::optional<Error> error_of(const Status& status) {
  return status.ok() ? std::nullopt : std::optional(status.error());
}

template <class T>
std::optional<Error> error_of(const Result<T>& result) {
  return result.ok() ? std::nullopt : std::optional(result.error());
}

std::optional<Error> error_of(const CallPlan& plan) {
  return plan.error;
}

class ScarceMemory {
 public:
  explicit ScarceMemory(std::int64_t allocations) { allocations_left = allocations; }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
  ~ScarceMemory() { allocations_left = -1; }
};

// Lets the n-th allocation of `call` fail for n = 0, 1, ... until the call meets no failure: each time the
// answer is exhausted memory, and in the end `expected`. Every run starts from scratch but for what the
// library keeps between calls. At least one allocation must have failed.
template <class Call>
void expect_exhaustion_reported(Call call, std::optional<ErrorKind> expected = std::nullopt) {
  for (std::int64_t n = 0; n < 10'000; ++n) {
    std::optional<Error> error;
    bool met_a_failure = false;
    {
      const ScarceMemory scarce(n);
      const auto result = call();
      met_a_failure = allocations_left == 0;
      allocations_left = -1;
      error = error_of(result);
    }
    if (error && error->kind == ErrorKind::out_of_memory) {
      EXPECT_EQ(error->message, "out of memory");
      continue;
    }
    // A failure may also cost a helper thread or a cached table, and not the call.
    if (met_a_failure) continue;
    EXPECT_EQ(error ? std::optional(error->kind) : std::nullopt, expected) << (error ? error->message : "");
    EXPECT_GT(n, 0) << "nothing was allocated: the call tests nothing";
    return;
  }
  FAIL() << "the call never succeeds";
}

struct Product {
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(64 * 64, 0x38);
  std::vector<std::uint8_t> b = std::vector<std::uint8_t>(64 * 64, 0x40);
  std::vector<float> out = std::vector<float>(64 * 64);
  Accumulation how{find_preset("ada").value(), true, {}};

  OperandView left() const { return {a.data(), FormatId::e4m3, 64, 64, 64, 1}; }
  OperandView right() const { return {b.data(), FormatId::e4m3, 64, 64, 64, 1}; }
  ResultView result() { return {out.data(), FormatId::float32, 64, 64, 64, 1}; }
};

TEST(ExhaustedMemory, IsAnErrorOfAccumulate) {
  Product p;
  expect_exhaustion_reported([&] { return accumulate(p.left(), p.right(), p.how, p.result()); });
  EXPECT_EQ(p.out[0], 128.0F);
}

TEST(ExhaustedMemory, IsAnErrorOfScaledMm) {
  Product p;
  expect_exhaustion_reported([&] { return scaled_mm(p.left(), p.right(), p.how, {}, p.result()); });
  EXPECT_EQ(p.out[0], 128.0F);
}

TEST(ExhaustedMemory, IsAnErrorOfDot) {
  Product p;
  const OperandView many{p.a.data(), FormatId::e4m3, 512, 64 * 64, 0, 1};  // enough for two threads
  expect_exhaustion_reported([&] { return dot(many, many, nullptr, p.how.preset, p.out.data(), {}); });
  EXPECT_EQ(p.out[0], 4096.0F);
}

TEST(ExhaustedMemory, IsAnErrorWhileAnErrorIsWritten) {
  Product p;
  OperandView short_of_k = p.right();
  short_of_k.depth = 63;
  ResultView halves = p.result();
  halves.format = FormatId::float16;
  const auto wrong = ErrorKind::value_error;
  expect_exhaustion_reported([&] { return accumulate(p.left(), short_of_k, p.how, p.result()); }, wrong);
  expect_exhaustion_reported([&] { return accumulate(p.left(), p.right(), p.how, halves); }, wrong);
  expect_exhaustion_reported([&] { return scaled_mm(p.left(), short_of_k, p.how, {}, p.result()); }, wrong);
  expect_exhaustion_reported([&] { return dot(p.left(), short_of_k, nullptr, p.how.preset, p.out.data()); },
                             wrong);
  Preset preset;
  preset.nfma = 0;
  expect_exhaustion_reported([&] { return validate(preset); }, wrong);
  expect_exhaustion_reported([&] { return validate(SplitK{0, SplitScheme::none}); }, wrong);
  expect_exhaustion_reported([&] { return AccumulationPlan::make(p.how.preset, -1, true, {}); }, wrong);
}

// Rows beyond any memory: the bit per row that the model keeps cannot be had.
TEST(ExhaustedMemory, IsWhatTooManyRowsMeet) {
  std::uint8_t code = 0x38;
  float out = 0.0F;
  const std::int64_t rows = std::int64_t{1} << 59;
  const OperandView many{&code, FormatId::e4m3, rows, 1, 0, 1};
  const OperandView one{&code, FormatId::e4m3, 1, 1, 0, 1};
  Execution on_model;
  on_model.target = "model";
  const Status status = accumulate(many, one, {find_preset("ada").value(), true, {}},
                                   {&out, FormatId::float32, rows, 1, 0, 1}, on_model);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::out_of_memory);
}

// The bound that gemm.h states: 3 MiB per thread, for the plan that holds the most partial sums.
TEST(TemporaryMemory, OfAProductIsBoundedWhateverItsSizes) {
  constexpr std::int64_t kPerThread = std::int64_t{3} << 20;
  constexpr int kThreads = 2;
  std::vector<std::uint8_t> codes(1 << 20, 0x38);
  for (const std::int64_t M : {1, 200, 1000}) {
    const std::int64_t N = 1500;
    const std::int64_t K = 512;
    std::vector<float> out(static_cast<std::size_t>(M * N));
    const Accumulation how{find_preset("ada").value(), false, {3, SplitScheme::pairwise}};
    most_bytes_held = bytes_held.load();
    const std::int64_t before = bytes_held;
    const Status status =
        accumulate({codes.data(), FormatId::e4m3, M, K, K, 1}, {codes.data(), FormatId::e4m3, N, K, K, 1},
                   how, {out.data(), FormatId::float32, M, N, N, 1}, {.threads = kThreads});
    ASSERT_TRUE(status.ok());
    EXPECT_GT(most_bytes_held - before, 0);
    EXPECT_LE(most_bytes_held - before, kThreads * kPerThread) << "M = " << M;
    EXPECT_EQ(out.back(), 512.0F);
  }
}

TEST(ExhaustedMemory, IsAnErrorOfLookups) {
  expect_exhaustion_reported([] { return find_preset("hopper"); });
  expect_exhaustion_reported([] { return find_preset("nothing"); }, ErrorKind::key_error);
  expect_exhaustion_reported([] { return find_profile("ada"); });
  expect_exhaustion_reported([] { return find_profile("nothing"); }, ErrorKind::key_error);
}

TensorDesc tensor(std::string dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  TensorDesc desc;
  desc.dtype = std::move(dtype);
  desc.shape = std::move(shape);
  desc.strides = std::move(strides);
  return desc;
}

// A call whose split is a row of the recorded table.
TEST(ExhaustedMemory, IsAnErrorOfPlanning) {
  ScaledMmCall call;
  call.input = tensor("float8_e5m2", {32, 5760}, {5760, 1});
  call.mat2 = tensor("float8_e4m3fn", {5760, 64}, {1, 5760});
  call.scale_a = tensor("float32", {}, {});
  call.scale_b = tensor("float32", {}, {});
  call.out_dtype = "float16";
  call.use_fast_accum = true;
  call.profile = find_profile("hopper").value();
  expect_exhaustion_reported([&] { return plan_scaled_mm(call); });
  AccumulateCall accumulation;
  accumulation.a = call.input;
  accumulation.b = tensor("float8_e4m3fn", {64, 5760}, {5760, 1});
  accumulation.use_fast_accum = true;
  accumulation.out_dtype_for_split = "float16";
  accumulation.profile = call.profile;
  expect_exhaustion_reported([&] { return plan_accumulate(accumulation); });
  SplitQuery query;
  query.M = 32;
  query.N = 64;
  query.K = 5760;
  query.a_format = "e5m2";
  query.b_format = "e4m3";
  query.out_dtype = "float16";
  query.fast = true;
  expect_exhaustion_reported([&] { return resolve_splitk(query, call.profile, SplitAuto{}); });
  query.out_dtype = "float64";
  expect_exhaustion_reported([&] { return resolve_splitk(query, call.profile, SplitAuto{}); },
                             ErrorKind::value_error);
}

}  // namespace
}  // namespace mmaemu
