// The walk over a tile's partials, chains, chunks of K, strips and row groups, with the rounding mode of
// each.
#include "cpu/tile.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/constants.h"
#include "cpu/float_environment.h"
#include "cpu/gather.h"
#include "cpu/non_finite.h"

namespace mmaemu::cpu {
namespace {

enum { kTotal, kChain, kPart, kSlot };  // of numbers_

constexpr std::uint8_t kNoCodes[kChunk] = {};

// Elements ahead that are fetched from a column: a strip has more columns than processors follow streams.
constexpr int kPrefetch = 4 * kChunk;

// As many of numbers_ as a plan takes.
int numbers_needed(const AccumulationPlan& plan) {
  if (plan.split().scheme == SplitScheme::pairwise) return kSlot + 1;
  if (plan.split().S > 1) return kPart + 1;
  return plan.fast() ? kTotal + 1 : kChain + 1;
}

template <class T>
std::unique_ptr<T[]> uninitialized(std::int64_t count) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
}

template <class T>
void write_codes(const std::uint32_t* codes, std::int64_t count, std::int64_t stride, void* to) {
  T* out = static_cast<T*>(to);
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(codes[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i * stride] = static_cast<T>(codes[i]);
  }
}

}  // namespace

Workspace::Workspace(const Problem& problem, std::int64_t rows, std::int64_t columns)
    : problem_(problem),
      strip_(problem.strip()),
      rows_(uninitialized<PackedRow>(rows)),
      packed_strip_(std::make_unique_for_overwrite<PackedStrip>()),
      strip_codes_(std::make_unique_for_overwrite<CodeBuffer>()),
      staging_(uninitialized<std::uint8_t>(kChunk * strip_)),
      row_non_finite_(uninitialized<std::uint8_t>(rows)),
      column_non_finite_(uninitialized<std::uint8_t>(columns + strip_)),
      states_(uninitialized<std::uint8_t>(rows * columns)) {
  const std::int64_t numbers = (columns + strip_ - 1) / strip_ * strip_ * rows;
  constexpr std::int64_t kPerUnit = sizeof(Aligned) / sizeof(float);
  for (int i = 0; i < numbers_needed(problem.plan); ++i)
    numbers_[static_cast<std::size_t>(i)] = uninitialized<Aligned>((numbers + kPerUnit - 1) / kPerUnit);
}

void Workspace::compute(const Tile& tile) {
  tile_ = tile;
  std::fill_n(row_non_finite_.get(), tile.rows, std::uint8_t{0});
  std::fill_n(column_non_finite_.get(), strips() * strip_, std::uint8_t{0});
  accumulate();
  apply_non_finite(numbers(kTotal));
  write_results(numbers(kTotal));
}

// The order of additions is the plan's; docs/semantics.md, section 3. Partials without elements are +0, and a
// sum is never -0: they may be left out.
void Workspace::accumulate() {
  const AccumulationPlan& plan = problem_.plan;
  const std::int64_t all = strips() * strip_numbers();
  float* const total = numbers(kTotal);
  if (plan.split().scheme != SplitScheme::pairwise) {
    run_partial(0, total);
    for (std::int64_t s = 1; s < plan.partials(); ++s) {
      run_partial(s, numbers(kPart));
      add(total, numbers(kPart), all);
    }
    return;
  }
  const std::int64_t S = plan.split().S;
  const std::int64_t half = S / 2 + S % 2;
  run_partial(S - 1, total);
  for (std::int64_t i = 0; i < half && i < plan.partials(); ++i) {
    run_partial(i, numbers(kSlot));
    if (i + half < S - 1 && i + half < plan.partials()) {
      run_partial(i + half, numbers(kPart));
      add(numbers(kSlot), numbers(kPart), all);
    }
    add(total, numbers(kSlot), all);
  }
}

void Workspace::run_partial(std::int64_t partial, float* to) {
  const AccumulationPlan& plan = problem_.plan;
  if (!plan.fast() || partial >= plan.partials()) std::fill_n(to, strips() * strip_numbers(), 0.0F);
  if (partial >= plan.partials()) return;
  if (plan.fast()) return run_chain(plan.chain(partial, 0), to, nullptr);
  for (std::int64_t i = 0; i < plan.chains(partial); ++i)
    run_chain(plan.chain(partial, i), numbers(kChain), to);
}

// From +0. The results go to `accumulators`, or are added to `sums` where that is given.
void Workspace::run_chain(const Chain& chain, float* accumulators, float* sums) {
  const auto block = static_cast<int>(problem_.preset.nfma);
  const int most = kChunk / block * block;
  // Where the results are added at once, one strip's accumulators do for all.
  const std::int64_t distance = sums != nullptr && chain.length <= most ? 0 : strip_numbers();
  const ScopedFloatEnvironment environment(Rounding::toward_zero);
  for (std::int64_t first = 0; first < chain.length; first += most) {
    const Blocks blocks{static_cast<int>(std::min<std::int64_t>(most, chain.length - first)), block};
    const bool last = first + blocks.elements == chain.length;
    pack_rows(chain, first, blocks);
    for (std::int64_t strip = 0; strip < strips(); ++strip) {
      float* const at = accumulators + strip * distance;
      if (first == 0) std::fill_n(at, strip_numbers(), 0.0F);
      run_blocks(strip, blocks, strip_codes(strip, chain, first, blocks.elements), at);
      if (last && sums != nullptr) add(sums + strip * strip_numbers(), at, strip_numbers());
    }
  }
}

void Workspace::pack_rows(const Chain& chain, std::int64_t first, const Blocks& blocks) {
  const OperandView& a = problem_.a;
  const bool one_run = first % chain.width + blocks.elements <= chain.width;
  const bool in_place = a.depth_stride == 1 && one_run && blocks.elements % strip_ == 0;
  const std::int64_t k = chain.begin + first / chain.width * chain.stride + first % chain.width;
  if (!in_place) std::fill_n(staging_.get(), kChunk, std::uint8_t{0});
  for (std::int64_t r = 0; r < tile_.rows; ++r) {
    const std::uint8_t* codes = staging_.get();
    if (in_place)
      codes = code_at(a, tile_.row + r, k);
    else
      copy_elements(a, tile_.row + r, chain, first, blocks.elements, staging_.get());
    const bool non_finite =
        problem_.kernels.pack_row(a.format, blocks, codes, rows_[static_cast<std::size_t>(r)]);
    row_non_finite_[static_cast<std::size_t>(r)] |= static_cast<std::uint8_t>(non_finite);
  }
}

OperandView Workspace::strip_rows(std::int64_t strip) const {
  const std::int64_t column = strip * strip_;
  return rows_from(problem_.b, tile_.column + column, std::min<std::int64_t>(strip_, tile_.columns - column));
}

StripCodes Workspace::packed_codes(std::int64_t strip, const Chain& chain, std::int64_t first, int elements) {
  const std::int64_t column = tile_.column + strip * strip_;
  const std::uint8_t* const from =
      problem_.b_strips + column / kMaxStrip * kMaxStrip * problem_.b.depth + column % kMaxStrip;
  const std::int64_t in_run = first % chain.width;
  if (in_run + elements <= chain.width) {
    const std::int64_t k = chain.begin + first / chain.width * chain.stride + in_run;
    return {from + k * kMaxStrip, kMaxStrip};
  }
  for_each_run(chain, first, elements, [&](std::int64_t k, std::int64_t length, std::int64_t at) {
    for (std::int64_t i = 0; i < length; ++i)
      std::memcpy(strip_codes_->codes + (at + i) * strip_, from + (k + i) * kMaxStrip,
                  static_cast<std::size_t>(strip_));
  });
  return {strip_codes_->codes, strip_};
}

StripCodes Workspace::strip_codes(std::int64_t strip, const Chain& chain, std::int64_t first, int elements) {
  if (problem_.b_strips != nullptr) return packed_codes(strip, chain, first, elements);
  const OperandView b = strip_rows(strip);
  std::uint8_t* const codes = strip_codes_->codes;
  if (b.row_stride == 1) {
    for_each_run(chain, first, elements, [&](std::int64_t k, std::int64_t length, std::int64_t at) {
      for (std::int64_t i = 0; i < length; ++i) {
        std::uint8_t* const to = codes + (at + i) * strip_;
        std::memcpy(to, code_at(b, 0, k + i), static_cast<std::size_t>(b.rows));
        std::fill(to + b.rows, to + strip_, std::uint8_t{0});
      }
    });
    return {codes, strip_};
  }
  const bool one_run = first % chain.width + elements <= chain.width;
  const bool in_place = b.depth_stride == 1 && one_run && elements % strip_ == 0;
  const std::int64_t k = chain.begin + first / chain.width * chain.stride + first % chain.width;
  const std::uint8_t* columns[kMaxStrip];
  for (std::int64_t c = 0; c < strip_; ++c) {
    std::uint8_t* const staged = staging_.get() + c * kChunk;
    columns[c] = c >= b.rows ? kNoCodes : in_place ? code_at(b, c, k) : staged;
    if (c >= b.rows) continue;
    __builtin_prefetch(code_at(b, c, k + kPrefetch));
    if (!in_place) copy_elements(b, c, chain, first, elements, staged);
  }
  problem_.kernels.transpose(columns, elements, codes);
  return {codes, strip_};
}

void Workspace::run_blocks(std::int64_t strip, const Blocks& blocks, StripCodes codes, float* accumulators) {
  const Kernels& kernels = problem_.kernels;
  const Preset& preset = problem_.preset;
  const FormatId format = problem_.b.format;
  std::uint8_t* const non_finite = column_non_finite_.get() + strip * strip_;
  ChainArguments g{.rows = rows_.get(),
                   .row_count = static_cast<int>(std::min<std::int64_t>(kernels.rows, tile_.rows)),
                   .strip = packed_strip_.get(),
                   .accumulators = accumulators,
                   .blocks = blocks,
                   .kept_bits = kept_bits(preset.frac_out),
                   .least_exponent = static_cast<std::uint8_t>(std::max(0, preset.min_exp + 127))};
  if (tile_.rows <= kernels.code_rows && blocks.words() == 1)
    return kernels.chain_codes(g, format, codes, non_finite);
  kernels.pack_strip(format, blocks, codes, *packed_strip_, non_finite);
  for (std::int64_t r = 0; r < tile_.rows; r += kernels.rows) {
    g.rows = rows_.get() + r;
    g.row_count = static_cast<int>(std::min<std::int64_t>(kernels.rows, tile_.rows - r));
    g.accumulators = accumulators + r * strip_;
    kernels.chain(g);
  }
}

void Workspace::add(float* sums, const float* terms, std::int64_t count) const {
  const ScopedFloatEnvironment environment(kOutsideChains);
  problem_.kernels.add(sums, terms, count);
}

void Workspace::apply_non_finite(float* accumulators) {
  const auto marked = [](const std::uint8_t* marks, std::int64_t count) {
    return std::any_of(marks, marks + count, [](std::uint8_t mark) { return mark != 0; });
  };
  const bool rows = marked(row_non_finite_.get(), tile_.rows);
  const bool columns = marked(column_non_finite_.get(), tile_.columns);
  if (!rows && !columns) return;
  const OperandView a = rows_from(problem_.a, tile_.row, tile_.rows);
  const OperandView b = rows_from(problem_.b, tile_.column, tile_.columns);
  std::fill_n(states_.get(), tile_.rows * tile_.columns, std::uint8_t{0});
  for (std::int64_t m = 0; m < tile_.rows; ++m)
    if (row_non_finite_[static_cast<std::size_t>(m)] != 0)
      note_non_finite(a, m, b, states_.get() + m * tile_.columns, 1);
  for (std::int64_t n = 0; n < tile_.columns; ++n)
    if (column_non_finite_[static_cast<std::size_t>(n)] != 0)
      note_non_finite(b, n, a, states_.get() + n, tile_.columns);
  for (std::int64_t m = 0; m < tile_.rows; ++m) {
    for (std::int64_t n = 0; n < tile_.columns; ++n) {
      const std::uint8_t state = states_[static_cast<std::size_t>(m * tile_.columns + n)];
      if (state == 0) continue;
      const std::int64_t c = n % strip_;
      float* const row = accumulators + n / strip_ * strip_numbers() + m * strip_;
      row[c % 4 * problem_.kernels.lanes + c / 4] = std::bit_cast<float>(non_finite_value(state));
    }
  }
}

void Workspace::write_results(const float* accumulators) {
  const ScopedFloatEnvironment environment(kOutsideChains);
  alignas(kVectorAlignment) std::uint32_t codes[kMaxStrip];
  const ResultView& out = problem_.out;
  const int bytes = format(out.format).bytes();
  for (std::int64_t strip = 0; strip < strips(); ++strip) {
    const std::int64_t column = tile_.column + strip * strip_;
    const std::int64_t count = std::min<std::int64_t>(strip_, tile_.columns - strip * strip_);
    for (std::int64_t r = 0; r < tile_.rows; ++r) {
      problem_.kernels.finish(problem_.finish, accumulators + strip * strip_numbers() + r * strip_, codes);
      void* const at = static_cast<char*>(out.data) +
                       ((tile_.row + r) * out.row_stride + column * out.column_stride) * bytes;
      if (bytes == 1)
        write_codes<std::uint8_t>(codes, count, out.column_stride, at);
      else if (bytes == 2)
        write_codes<std::uint16_t>(codes, count, out.column_stride, at);
      else
        write_codes<std::uint32_t>(codes, count, out.column_stride, at);
    }
  }
}

}  // namespace mmaemu::cpu
