// Whole products, as a C++ caller has them: on every CPU target, one to all threads, packed weights or not.
// Items are products of two codes.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mmaemu/gemm.h"

#include "operands.h"

namespace mmaemu::benchmarks {
namespace {

struct Product {
  std::string_view name;
  std::int64_t M, N, K;
  std::string_view preset = "hopper";
  bool fast = true;
  FormatId b_format = FormatId::e4m3;
  SplitK split = {};
};

const Product kProducts[] = {
    {"evo2_1b_qkv/M=2048", 2048, 5760, 1920},
    {"evo2_1b_qkv/M=64", 64, 5760, 1920},
    {"evo2_1b_qkv/M=16", 16, 5760, 1920},
    {"evo2_1b_qkv/M=4", 4, 5760, 1920},
    {"evo2_1b_qkv/M=2", 2, 5760, 1920},
    {"evo2_1b_qkv/M=1", 1, 5760, 1920},
    {"evo2_1b_qkv/M=2048/ada", 2048, 5760, 1920, "ada"},
    {"evo2_1b_qkv/M=1/ada", 1, 5760, 1920, "ada"},
    {"evo2_1b_qkv/M=2048/slow", 2048, 5760, 1920, "hopper", false},
    {"evo2_7b_out/M=1024/e5m2", 1024, 4096, 4096, "hopper", true, FormatId::e5m2},
    {"8192_to_2048/M=256/split=4",
     256,
     2048,
     8192,
     "hopper",
     true,
     FormatId::e4m3,
     {4, SplitScheme::contiguous}},
    {"narrow/N=8", 4096, 8, 4096},
};

void multiply(benchmark::State& state, const Product& p, std::string_view target, int threads, bool packed) {
  const std::vector<std::uint8_t> a = random_codes(FormatId::e4m3, p.M * p.K, 1);
  const std::vector<std::uint8_t> b = random_codes(p.b_format, p.N * p.K, 2);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(p.M * p.N));
  const OperandView a_view{a.data(), FormatId::e4m3, p.M, p.K, p.K, 1};
  const OperandView b_view{b.data(), p.b_format, p.N, p.K, p.K, 1};
  const ResultView result{out.data(), FormatId::bfloat16, p.M, p.N, p.N, 1};
  const Accumulation how{find_preset(p.preset).value(), p.fast, p.split};
  const Execution execution{.threads = threads, .cancelled = {}, .target = target};
  const Result<PackedOperand> weight = PackedOperand::make(b_view);
  for (auto _ : state) {
    const Status status = packed ? scaled_mm(a_view, weight.value(), how, {}, result, execution)
                                 : scaled_mm(a_view, b_view, how, {}, result, execution);
    if (!status.ok()) return state.SkipWithError(status.error().message.c_str());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * p.M * p.N * p.K);
}

void pack(benchmark::State& state) {
  const std::int64_t N = 5760;
  const std::int64_t K = 1920;
  const std::vector<std::uint8_t> b = random_codes(FormatId::e4m3, N * K, 2);
  for (auto _ : state)
    benchmark::DoNotOptimize(PackedOperand::make({b.data(), FormatId::e4m3, N, K, K, 1}).ok());
  state.SetBytesProcessed(state.iterations() * N * K);
}

void register_all() {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const std::string_view target : cpu_targets()) {
    if (target == "model" || target == "portable") continue;
    for (const Product& p : kProducts)
      for (int threads = 1; threads <= processors; threads *= 2)
        for (const bool packed : {false, true}) {
          if (packed && p.M > 16) continue;
          const std::string name = "multiply/" + std::string(p.name) + (packed ? "/packed" : "") + "/" +
                                   std::string(target) + "/threads=" + std::to_string(threads);
          benchmark::RegisterBenchmark(
              name.c_str(), [=](benchmark::State& state) { multiply(state, p, target, threads, packed); })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        }
  }
  benchmark::RegisterBenchmark("pack/evo2_1b_qkv", pack)->UseRealTime()->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace mmaemu::benchmarks

int main(int argc, char** argv) {
  mmaemu::benchmarks::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
