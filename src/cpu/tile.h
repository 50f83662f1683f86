// One tile of outputs: its chains, their sums, and its results.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "mmaemu/gemm.h"

#include "cpu/kernels.h"

namespace mmaemu::cpu {

// Outputs [row, row + rows) x [column, column + columns).
struct Tile {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

// What a GEMM's tiles have in common.
struct Problem {
  const Kernels& kernels;
  const OperandView& a;
  const OperandView& b;
  const std::uint8_t* b_strips;  // null, or b's codes as [row / kMaxStrip][K][row % kMaxStrip]
  const Preset& preset;
  const AccumulationPlan& plan;
  const FinishArguments& finish;
  const ResultView& out;

  int strip() const { return 4 * kernels.lanes; }
};

struct alignas(kVectorAlignment) Aligned {
  float values[kVectorAlignment / sizeof(float)];
};

struct alignas(kVectorAlignment) CodeBuffer {
  std::uint8_t codes[kChunk * kMaxStrip];
};

// A thread's memory for tiles of at most `rows` x `columns` outputs, one after the other.
class Workspace {
 public:
  Workspace(const Problem& problem, std::int64_t rows, std::int64_t columns);
  void compute(const Tile& tile);

 private:
  // Accumulators or sums of a tile's outputs: [strip][row][4][lanes].
  using Numbers = std::unique_ptr<Aligned[]>;

  void accumulate();
  void run_partial(std::int64_t partial, float* to);
  void run_chain(const Chain& chain, float* accumulators, float* sums);
  void pack_rows(const Chain& chain, std::int64_t first, const Blocks& blocks);
  StripCodes packed_codes(std::int64_t strip, const Chain& chain, std::int64_t first, int elements);
  StripCodes strip_codes(std::int64_t strip, const Chain& chain, std::int64_t first, int elements);
  void run_blocks(std::int64_t strip, const Blocks& blocks, StripCodes codes, float* accumulators);
  void add(float* sums, const float* terms, std::int64_t count) const;
  void apply_non_finite(float* accumulators);
  void write_results(const float* accumulators);

  float* numbers(int which) { return numbers_[static_cast<std::size_t>(which)].get()->values; }
  std::int64_t strips() const { return (tile_.columns + strip_ - 1) / strip_; }
  std::int64_t strip_numbers() const { return tile_.rows * strip_; }
  OperandView strip_rows(std::int64_t strip) const;

  const Problem& problem_;
  const int strip_;
  Tile tile_;
  std::unique_ptr<PackedRow[]> rows_;
  std::unique_ptr<PackedStrip> packed_strip_;
  std::unique_ptr<CodeBuffer> strip_codes_;
  std::unique_ptr<std::uint8_t[]> staging_;            // kChunk codes of each column of a strip
  std::array<Numbers, 4> numbers_;                     // as many as the plan takes
  std::unique_ptr<std::uint8_t[]> row_non_finite_;     // nonzero: the row has a NaN or an infinity
  std::unique_ptr<std::uint8_t[]> column_non_finite_;  // likewise
  std::unique_ptr<std::uint8_t[]> states_;             // [row][column]: NonFinite
};

}  // namespace mmaemu::cpu
