#include "differential.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <vector>

#include "mmaemu/gemm.h"

#include "model/model.h"
#include "operands.h"

namespace mmaemu::testing {
namespace {

constexpr std::uint8_t kGuard = 0xA5;

// Codes in memory of some layout.
struct Layout {
  std::vector<std::uint8_t> memory;
  std::int64_t offset = 0;  // of element (0, 0)
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  std::size_t at(std::int64_t r, std::int64_t c, std::int64_t bytes) const {
    return static_cast<std::size_t>((offset + r * row_stride + c * column_stride) * bytes);
  }
};

// Room for rows x columns elements in one of five layouts: rows or columns contiguous, with and without gaps,
// and every element apart with both strides negative.
Layout make_layout(std::int64_t rows, std::int64_t columns, std::int64_t bytes, Random& random) {
  Layout l;
  const std::int64_t gap = pick(random, 0, 3) == 0 ? pick(random, 1, 70) : 0;
  switch (pick(random, 0, 4)) {
    case 0:
    case 1:
      l.row_stride = columns + gap;
      l.column_stride = 1;
      break;
    case 2:
    case 3:
      l.row_stride = 1;
      l.column_stride = rows + gap;
      break;
    default:
      l.column_stride = -3;
      l.row_stride = -(3 * columns + gap);
      break;
  }
  const std::int64_t reach = (rows - 1) * std::abs(l.row_stride) + (columns - 1) * std::abs(l.column_stride);
  const std::int64_t lead = pick(random, 0, 40);
  l.offset = lead + (l.row_stride < 0 ? reach : 0);
  l.memory.assign(static_cast<std::size_t>((lead + reach + 1) * bytes), kGuard);
  return l;
}

Layout place(const std::vector<std::uint8_t>& codes, std::int64_t rows, std::int64_t columns,
             Random& random) {
  Layout l = make_layout(rows, columns, 1, random);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      l.memory[l.at(r, c, 1)] = codes[static_cast<std::size_t>(r * columns + c)];
  return l;
}

// min and max of the sizes below are likelier than a number between.
std::int64_t size_between(std::int64_t low, std::int64_t high, Random& random) {
  const std::int64_t kind = pick(random, 0, 9);
  if (kind == 0) return low;
  if (kind == 1) return high;
  return pick(random, low, high);
}

Preset random_preset(Random& random) {
  const std::int64_t kind = pick(random, 0, 9);
  if (kind < 4) return find_preset("hopper").value();
  if (kind < 7) return find_preset("ada").value();
  Preset p;
  p.name = "random";
  constexpr std::array<std::int64_t, 8> kBlocks{1, 2, 7, 16, 31, 33, 48, 64};
  p.nfma =
      pick(random, 0, 1) == 0 ? kBlocks[static_cast<std::size_t>(pick(random, 0, 7))] : pick(random, 1, 64);
  p.frac_out = pick(random, 0, 1) == 0 ? 13 : static_cast<int>(pick(random, 1, 13));
  if (pick(random, 0, 2) == 0) p.min_exp = static_cast<int>(pick(random, -60, 100));
  if (pick(random, 0, 9) == 0) p.min_exp = std::numeric_limits<int>::min();
  constexpr std::array<std::int64_t, 6> kChunks{1, 16, 100, 128, 200, 1000};
  p.slow_chunk = kChunks[static_cast<std::size_t>(pick(random, 0, 5))];
  return p;
}

SplitK random_split(const Preset& preset, Random& random) {
  if (pick(random, 0, 1) == 0) return {};
  const std::int64_t S = pick(random, 2, 9);
  std::array<SplitScheme, 3> schemes{SplitScheme::contiguous, SplitScheme::serial, SplitScheme::pairwise};
  if (preset.name == "hopper") return {S, SplitScheme::contiguous};
  if (preset.name == "ada") return {S, schemes[static_cast<std::size_t>(pick(random, 1, 2))]};
  return {S, schemes[static_cast<std::size_t>(pick(random, 0, 2))]};
}

float random_scale(Random& random) {
  switch (pick(random, 0, 7)) {
    case 0:
      return 1.0F;
    case 1:
      return std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // anything, NaN and infinity too
    default:
      return std::ldexp(std::uniform_real_distribution<float>(-2.0F, 2.0F)(random),
                        static_cast<int>(pick(random, -40, 10)));
  }
}

std::string hex(std::uint32_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

}  // namespace

std::uint64_t test_seed() {
  if (const char* text = std::getenv("MMAEMU_TEST_SEED")) return std::strtoull(text, nullptr, 0);
  return (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
}

std::int64_t test_cases(std::int64_t otherwise) {
  const char* text = std::getenv("MMAEMU_TEST_CASES");
  return text != nullptr ? std::strtoll(text, nullptr, 0) : otherwise;
}

struct DifferentialCase::State {
  std::uint64_t seed = 0;
  std::int64_t index = 0;
  OperandClass operand_class{};
  std::int64_t M = 0, N = 0, K = 0;
  Accumulation how;
  bool scaled = false;
  Epilogue epilogue;
  int threads = 1;
  bool packed = false;  // b is packed before
  Layout a, b, out;
  OperandView a_view, b_view;
  FormatId out_format = FormatId::float32;
  std::vector<std::uint32_t> expected;

  void compute_expected() {
    const AccumulationPlan plan = AccumulationPlan::make(how.preset, K, how.fast, how.split).value();
    const model::Accumulator accumulator(a_view, b_view, how.preset, plan);
    for (std::int64_t m = 0; m < M; ++m) {
      for (std::int64_t n = 0; n < N; ++n) {
        const std::uint32_t acc = accumulator(m, n);
        expected.push_back(scaled ? model::apply_epilogue(acc, epilogue, format(out_format)) : acc);
      }
    }
  }
};

DifferentialCase::DifferentialCase(std::uint64_t seed, std::int64_t index) : state_(new State) {
  State& s = *state_;
  s.seed = seed;
  s.index = index;
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(index)};
  Random random(sequence);
  s.operand_class = static_cast<OperandClass>(index % kOperandClasses);
  s.how.preset = random_preset(random);
  s.how.fast = pick(random, 0, 1) == 0;
  s.how.split = random_split(s.how.preset, random);
  // Few rows with many columns, or the other way round; K long, or all of them short.
  s.M = size_between(1, pick(random, 0, 3) == 0 ? 40 : 8, random);
  s.N = size_between(1, pick(random, 0, 3) == 0 ? 140 : 20, random);
  const std::int64_t deepest = std::max<std::int64_t>(8, 60'000 / (s.M * s.N));
  s.K = size_between(1, std::min<std::int64_t>(deepest, pick(random, 0, 5) == 0 ? 2500 : 300), random);
  const FormatId fa = pick(random, 0, 1) == 0 ? FormatId::e4m3 : FormatId::e5m2;
  const FormatId fb = pick(random, 0, 1) == 0 ? FormatId::e4m3 : FormatId::e5m2;
  const Operands codes =
      make_operands(s.operand_class, format(fa), format(fb), s.M, s.N, s.K, s.how.preset.nfma, random);
  s.a = place(codes.a, s.M, s.K, random);
  s.b = place(codes.b, s.N, s.K, random);
  s.a_view = {s.a.memory.data() + s.a.offset, fa, s.M, s.K, s.a.row_stride, s.a.column_stride};
  s.b_view = {s.b.memory.data() + s.b.offset, fb, s.N, s.K, s.b.row_stride, s.b.column_stride};
  s.scaled = pick(random, 0, 1) == 0;
  if (s.scaled) {
    s.out_format = kFormats[static_cast<std::size_t>(pick(random, 0, 4))].id;
    s.epilogue = {random_scale(random), random_scale(random), std::nullopt};
    if (pick(random, 0, 1) == 0) s.epilogue.scale_result = random_scale(random);
  }
  constexpr std::array<int, 3> kThreads{1, 2, 5};
  s.threads = kThreads[static_cast<std::size_t>(pick(random, 0, 2))];
  s.out = make_layout(s.M, s.N, format(s.out_format).bytes(), random);
  s.packed = pick(random, 0, 2) == 0;
}

DifferentialCase::~DifferentialCase() {
  delete state_;
}

std::string DifferentialCase::description() const {
  const State& s = *state_;
  std::ostringstream text;
  text << name(s.operand_class) << " " << format(s.a_view.format).name << " x "
       << format(s.b_view.format).name << " " << s.M << " x " << s.N << " x " << s.K << ", preset "
       << s.how.preset.name << " (nfma " << s.how.preset.nfma << ", frac_out " << s.how.preset.frac_out
       << ", min_exp " << s.how.preset.min_exp << "), " << (s.how.fast ? "fast" : "slow") << ", split "
       << s.how.split.S << " " << name(s.how.split.scheme) << ", strides " << s.a.row_stride << ","
       << s.a.column_stride << " " << s.b.row_stride << "," << s.b.column_stride << ", "
       << (s.scaled ? "scaled " : "accumulator ") << format(s.out_format).name << ", " << s.threads
       << " threads" << (s.packed ? ", b packed" : "") << "; again with MMAEMU_TEST_SEED=" << s.seed
       << ", case " << s.index;
  return text.str();
}

std::optional<std::string> DifferentialCase::difference(std::string_view target) {
  State& s = *state_;
  if (s.expected.empty()) s.compute_expected();
  Layout out = s.out;
  const std::int64_t bytes = format(s.out_format).bytes();
  const ResultView view{
      out.memory.data() + out.at(0, 0, bytes), s.out_format, s.M, s.N, out.row_stride, out.column_stride};
  Execution execution;
  execution.threads = s.threads;
  execution.target = target;
  const auto run = [&](const auto& b) {
    return s.scaled ? scaled_mm(s.a_view, b, s.how, s.epilogue, view, execution)
                    : accumulate(s.a_view, b, s.how, view, execution);
  };
  Status status;
  if (s.packed) {
    const Result<PackedOperand> b = PackedOperand::make(s.b_view, execution);
    status = b.ok() ? run(b.value()) : b.error();
  } else {
    status = run(s.b_view);
  }
  if (!status.ok()) return status.error().message;
  for (std::int64_t m = 0; m < s.M; ++m) {
    for (std::int64_t n = 0; n < s.N; ++n) {
      std::uint32_t got = 0;
      std::uint8_t* const at = out.memory.data() + out.at(m, n, bytes);
      std::memcpy(&got, at, static_cast<std::size_t>(bytes));
      std::memset(at, kGuard, static_cast<std::size_t>(bytes));
      const std::uint32_t want = s.expected[static_cast<std::size_t>(m * s.N + n)];
      if (got != want)
        return "output (" + std::to_string(m) + ", " + std::to_string(n) + ") is " + hex(got) + ", not " +
               hex(want);
    }
  }
  if (out.memory != s.out.memory) return "memory outside the result is written";
  return std::nullopt;
}

}  // namespace mmaemu::testing
