// Which presets the engine serves, and the split of the outputs into tiles.
#include "cpu/gemm.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "cpu/constants.h"
#include "cpu/tile.h"

namespace mmaemu::cpu {
namespace {

// A packed row serves kMostColumns columns, a packed strip kMostRows rows: packing costs a few percent.
constexpr std::int64_t kMostRows = 192;
constexpr std::int64_t kMostColumns = 512;
// About 15 ms of the fastest target: tasks are what a cancellation waits for.
constexpr std::int64_t kMostProducts = std::int64_t{1} << 29;
constexpr std::int64_t kTilesPerThread = 6;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// `size` in equal parts of at most `most`, each a multiple of `unit`: the size of a part.
std::int64_t part_size(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return ceil_div(ceil_div(size, ceil_div(size, most)), unit) * unit;
}

struct Tiling {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t down(const ResultView& out) const { return ceil_div(out.rows, rows); }
  std::int64_t across(const ResultView& out) const { return ceil_div(out.columns, columns); }
  std::int64_t tiles(const ResultView& out) const { return down(out) * across(out); }
};

Tiling choose_tiling(const Problem& problem, int threads) {
  const ResultView& out = problem.out;
  const std::int64_t row_unit = problem.kernels.rows;
  std::int64_t most_rows = kMostRows;
  // Few rows are read from memory at the rate of the chains: a strip at a time, each in one go.
  std::int64_t most_columns = out.rows <= problem.kernels.code_rows ? kMaxStrip : kMostColumns;
  Tiling tiling;
  for (;;) {
    tiling = {std::min(out.rows, part_size(out.rows, most_rows, row_unit)),
              std::min(out.columns, part_size(out.columns, most_columns, kMaxStrip))};
    const bool many_products = tiling.rows * tiling.columns > kMostProducts / problem.plan.depth();
    const bool few_tiles = threads > 1 && tiling.tiles(out) < kTilesPerThread * threads;
    if (!many_products && !few_tiles) return tiling;
    if (most_columns > kMaxStrip)
      most_columns /= 2;
    else if (most_rows > row_unit)
      most_rows = std::max(row_unit, most_rows / 2);
    else
      return tiling;
  }
}

// Workspaces that are not in use.
class Workspaces {
 public:
  void put(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

}  // namespace

bool covers(const Preset& preset) {
  return preset.frac == kFrac && preset.frac_out <= kFrac && !preset.late_c && preset.nfma <= kMaxBlock &&
         preset.min_exp <= kMostMinExp;
}

bool gemm(Target target, const OperandView& a, const OperandView& b, const std::uint8_t* b_strips,
          const Preset& preset, const AccumulationPlan& plan, const FinishArguments& finish,
          const ResultView& out, const Execution& execution) {
  const Problem problem{kernels(target), a, b, b_strips, preset, plan, finish, out};
  const int threads = execution.threads > 0 ? execution.threads : available_threads();
  const Tiling tiling = choose_tiling(problem, threads);
  const std::int64_t across = tiling.across(out);
  const std::int64_t tiles = tiling.tiles(out);
  Workspaces workspaces;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(threads, tiles); ++i)
    workspaces.put(std::make_unique<Workspace>(problem, tiling.rows, tiling.columns));
  const auto task = [&](std::int64_t i) {
    const std::int64_t row = i / across * tiling.rows;
    const std::int64_t column = i % across * tiling.columns;
    std::unique_ptr<Workspace> workspace = workspaces.take();
    workspace->compute({.row = row,
                        .rows = std::min(tiling.rows, out.rows - row),
                        .column = column,
                        .columns = std::min(tiling.columns, out.columns - column)});
    workspaces.put(std::move(workspace));
  };
  return parallel_for(tiles, threads, task, execution.cancelled);
}

}  // namespace mmaemu::cpu
