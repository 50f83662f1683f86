// The inner loops of the CPU engine, each alone on data in the first-level cache, on every target. Items are
// products of two codes for chains, codes for packing.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu/constants.h"
#include "cpu/float_environment.h"
#include "cpu/kernels.h"
#include "operands.h"

namespace mmaemu::benchmarks {
namespace {

using namespace mmaemu::cpu;

// A chunk of as many rows as a register tile has, against one strip.
struct Chunk {
  struct alignas(kVectorAlignment) Buffers {
    std::uint8_t codes[kChunk * kMaxStrip];
    float accumulators[16 * kMaxStrip];
    std::uint8_t non_finite[kMaxStrip];
  };

  Chunk(Target target, int block)
      : kernels(cpu::kernels(target)),
        blocks{kChunk, block},
        raw(random_codes(FormatId::e4m3, kChunk * kMaxStrip, 1)),
        rows(static_cast<std::size_t>(kernels.rows)) {
    const std::vector<std::uint8_t> a = random_codes(FormatId::e4m3, kChunk * kernels.rows, 2);
    for (int c = 0; c < kMaxStrip; ++c) columns[c] = raw.data() + c * kChunk;
    for (int r = 0; r < kernels.rows; ++r)
      kernels.pack_row(FormatId::e4m3, blocks, a.data() + r * kChunk, rows[static_cast<std::size_t>(r)]);
    kernels.transpose(columns, kChunk, buffers->codes);
    kernels.pack_strip(FormatId::e4m3, blocks, codes(), *strip, buffers->non_finite);
  }

  int strip_columns() const { return 4 * kernels.lanes; }
  StripCodes codes() const { return {buffers->codes, strip_columns()}; }
  ChainArguments arguments(int row_count) const {
    return {rows.data(), row_count, strip.get(), buffers->accumulators, blocks, kept_bits(kFrac), 0};
  }

  const Kernels& kernels;
  Blocks blocks;
  std::vector<std::uint8_t> raw;
  const std::uint8_t* columns[kMaxStrip];
  std::vector<PackedRow> rows;
  std::unique_ptr<PackedStrip> strip = std::make_unique<PackedStrip>();
  std::unique_ptr<Buffers> buffers = std::make_unique<Buffers>();
};

void chain(benchmark::State& state, Target target, int block, int rows) {
  const Chunk chunk(target, block);
  const ScopedFloatEnvironment environment(Rounding::toward_zero);
  for (auto _ : state) chunk.kernels.chain(chunk.arguments(rows));
  state.SetItemsProcessed(state.iterations() * rows * chunk.strip_columns() * kChunk);
}

void chain_codes(benchmark::State& state, Target target, int block, int rows) {
  const Chunk chunk(target, block);
  const ScopedFloatEnvironment environment(Rounding::toward_zero);
  for (auto _ : state)
    chunk.kernels.chain_codes(chunk.arguments(rows), FormatId::e4m3, chunk.codes(),
                              chunk.buffers->non_finite);
  state.SetItemsProcessed(state.iterations() * rows * chunk.strip_columns() * kChunk);
}

void pack_strip(benchmark::State& state, Target target) {
  const Chunk chunk(target, 32);
  for (auto _ : state)
    chunk.kernels.pack_strip(FormatId::e4m3, chunk.blocks, chunk.codes(), *chunk.strip,
                             chunk.buffers->non_finite);
  state.SetItemsProcessed(state.iterations() * chunk.strip_columns() * kChunk);
}

void pack_row(benchmark::State& state, Target target) {
  Chunk chunk(target, 32);
  for (auto _ : state) chunk.kernels.pack_row(FormatId::e4m3, chunk.blocks, chunk.raw.data(), chunk.rows[0]);
  state.SetItemsProcessed(state.iterations() * kChunk);
}

void transpose(benchmark::State& state, Target target) {
  const Chunk chunk(target, 32);
  for (auto _ : state) chunk.kernels.transpose(chunk.columns, kChunk, chunk.buffers->codes);
  state.SetItemsProcessed(state.iterations() * chunk.strip_columns() * kChunk);
}

void register_all() {
  for (const Target target : available_targets()) {
    const std::string of_target = "/" + std::string(name(target));
    const Kernels& k = kernels(target);
    const auto add = [&](const std::string& name, auto run) {
      benchmark::RegisterBenchmark((name + of_target).c_str(), run);
    };
    for (const int block : {16, 32}) {
      const std::string of_block = "/block=" + std::to_string(block);
      for (int rows = 1; rows <= k.rows; ++rows)
        add("chain" + of_block + "/rows=" + std::to_string(rows),
            [=](benchmark::State& state) { chain(state, target, block, rows); });
      for (int rows = 1; rows <= k.code_rows; ++rows)
        add("chain_codes" + of_block + "/rows=" + std::to_string(rows),
            [=](benchmark::State& state) { chain_codes(state, target, block, rows); });
    }
    add("pack_strip", [=](benchmark::State& state) { pack_strip(state, target); });
    add("pack_row", [=](benchmark::State& state) { pack_row(state, target); });
    add("transpose", [=](benchmark::State& state) { transpose(state, target); });
  }
}

}  // namespace
}  // namespace mmaemu::benchmarks

int main(int argc, char** argv) {
  mmaemu::benchmarks::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
