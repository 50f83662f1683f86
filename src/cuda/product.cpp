// Chains, their sums, the combination of the splits and the epilogue, band by band of the result. Which
// chains there are and in which order they are added is model/plan.cpp's matter.
#include "cuda/product.h"

#include <algorithm>
#include <limits>
#include <string>

#include "cuda/launcher.h"

namespace mmaemu::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of the operands' rows
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

Error value_error(std::string message) {
  return {ErrorKind::value_error, std::move(message)};
}

Status check_operand(std::string_view name, const OperandView& v) {
  const auto refuse = [&](const std::string& what) { return value_error(std::string(name) + ": " + what); };
  if (v.rows < 1 || v.depth < 1 || v.data == nullptr) return refuse("it has no elements");
  if (v.rows > kMostRows || v.depth > kMostRows)
    return refuse("sizes of 2^31 and more are too large for a CUDA kernel");
  if (v.depth % kAlignment != 0 || v.depth_stride != 1 || v.row_stride != v.depth ||
      reinterpret_cast<std::uintptr_t>(v.data) % kAlignment != 0)
    return refuse("a CUDA kernel needs contiguous rows, aligned to 16 bytes, and K a multiple of 16");
  return {};
}

// The parts of the workspace, each at a multiple of 256 bytes.
struct Layout {
  std::int64_t band_rows = 0;
  std::int64_t band_columns = 0;
  // Offsets. fp32 numbers of a band each: its sums, a partial, a chain's result, a pairwise slot.
  std::size_t sums = 0, partial = 0, chain = 0, slot = 0;
  std::size_t gathered_a = 0, gathered_b = 0;  // codes of a chain
  std::size_t flags_a = 0, flags_b = 0;        // a word a row of the band
  std::size_t bytes = 0;
};

AccumulationPlan plan_of(const Product& p) {
  return AccumulationPlan::make(p.how.preset, p.a.depth, p.how.fast, p.how.split).value();
}

bool whole_rows(const AccumulationPlan& plan) {
  return plan.partials() == 1 && plan.fast();
}

std::int64_t longest_chain(const AccumulationPlan& plan) {
  std::int64_t longest = 0;
  for (std::int64_t p = 0; p < plan.partials(); ++p) longest = std::max(longest, plan.chain(p, 0).length);
  return longest;
}

Layout layout(const AccumulationPlan& plan, std::int64_t rows, std::int64_t columns) {
  Layout l;
  l.band_rows = rows;
  l.band_columns = columns;
  const auto place = [&](std::int64_t bytes) {
    const std::size_t at = l.bytes;
    l.bytes += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    return at;
  };
  const std::int64_t numbers = rows * columns * static_cast<std::int64_t>(sizeof(float));
  const bool split = plan.partials() > 1;
  l.sums = place(numbers);
  if (split) l.partial = place(numbers);
  if (!plan.fast()) l.chain = place(numbers);
  if (split && plan.split().scheme == SplitScheme::pairwise) l.slot = place(numbers);
  if (!whole_rows(plan)) {
    l.gathered_a = place(rows * longest_chain(plan));
    l.gathered_b = place(columns * longest_chain(plan));
  }
  l.flags_a = place(rows * 4);
  l.flags_b = place(columns * 4);
  return l;
}

// The largest band whose layout fits: all rows and columns where they do, else halves of the longer side.
Layout layout_of(const Product& p, const AccumulationPlan& plan) {
  std::int64_t rows = p.a.rows;
  std::int64_t columns = p.b.rows;
  while (true) {
    Layout l = layout(plan, rows, columns);
    if (l.bytes <= kMostCudaWorkspace || (rows == 1 && columns == 1)) return l;
    std::int64_t& longer = rows >= columns ? rows : columns;
    longer = longer / 2 + longer % 2;
  }
}

// The launches of one band.
class Band {
 public:
  Band(Launcher& launcher, const AccumulationPlan& plan, const Layout& l, DeviceAddress workspace,
       const DeviceRows& a, const DeviceRows& b)
      : launcher_(launcher), plan_(plan), layout_(l), workspace_(workspace), a_(a), b_(b) {}

  DeviceAddress sums() {
    const DeviceAddress sums = at(layout_.sums);
    if (plan_.partials() == 1) {
      partial(0, sums);
    } else if (plan_.split().scheme == SplitScheme::pairwise) {
      pairwise(sums);
    } else {
      partial(0, sums);
      for (std::int64_t s = 1; s < plan_.partials(); ++s) {
        partial(s, at(layout_.partial));
        add(sums, at(layout_.partial));
      }
    }
    return sums;
  }

  DeviceAddress at(std::size_t offset) const { return workspace_ + offset; }

 private:
  void add(DeviceAddress sum, DeviceAddress part) { launcher_.add(sum, part, a_.rows * b_.rows); }

  void chain(const Chain& c, DeviceAddress result) {
    if (whole_rows(plan_)) return launcher_.chain(a_, b_, result);
    DeviceRows a{at(layout_.gathered_a), a_.format, a_.rows, c.length};
    DeviceRows b{at(layout_.gathered_b), b_.format, b_.rows, c.length};
    launcher_.gather(a_, c, a.address);
    launcher_.gather(b_, c, b.address);
    launcher_.chain(a, b, result);
  }

  void partial(std::int64_t s, DeviceAddress result) {
    chain(plan_.chain(s, 0), result);
    for (std::int64_t i = 1; i < plan_.chains(s); ++i) {
      chain(plan_.chain(s, i), at(layout_.chain));
      add(result, at(layout_.chain));
    }
  }

  // model/model.cpp. Splits without elements are +0, which changes no sum; where the last one is such, the
  // sum begins with the first slot.
  void pairwise(DeviceAddress sums) {
    const std::int64_t S = plan_.split().S;
    const std::int64_t half = S / 2 + S % 2;
    bool begun = S <= plan_.partials();
    if (begun) partial(S - 1, sums);
    for (std::int64_t i = 0; i < half && i < plan_.partials(); ++i) {
      const DeviceAddress slot = begun ? at(layout_.slot) : sums;
      partial(i, slot);
      if (i + half < S - 1 && i + half < plan_.partials()) {
        partial(i + half, at(layout_.partial));
        add(slot, at(layout_.partial));
      }
      if (begun) add(sums, slot);
      begun = true;
    }
  }

  Launcher& launcher_;
  const AccumulationPlan& plan_;
  const Layout& layout_;
  DeviceAddress workspace_;
  const DeviceRows& a_;
  const DeviceRows& b_;
};

DeviceAddress address(const void* pointer) {
  return reinterpret_cast<DeviceAddress>(pointer);
}

DeviceRows band_of(const OperandView& v, std::int64_t first, std::int64_t rows) {
  return {address(v.data) + static_cast<DeviceAddress>(first * v.depth), v.format, rows, v.depth};
}

}  // namespace

Status check(const Product& p) {
  if (Status s = check_operand("a", p.a); !s.ok()) return s;
  if (Status s = check_operand("b", p.b); !s.ok()) return s;
  if (p.a.depth != p.b.depth) return value_error("a and b must agree in K, their second size");
  if (p.out.rows != p.a.rows || p.out.columns != p.b.rows || p.out.data == nullptr)
    return value_error("out must be of the product's size, with memory");
  if (p.out.column_stride != 1 || p.out.row_stride < p.out.columns)
    return value_error("out: a CUDA kernel needs contiguous rows");
  if (p.scales == nullptr && p.out.format != FormatId::float32)
    return value_error("out: an accumulator is float32, not " + std::string(format(p.out.format).name));
  const std::string name = "backend \"" + p.kernel.backend() + "\"";
  if (!p.kernel.has_arithmetic_of(p.how.preset) || !p.kernel.serves(p.a.format, p.b.format))
    return Error{ErrorKind::backend_unavailable, name + " does not serve preset " + p.how.preset.name +
                                                     " with " + std::string(format(p.a.format).name) + " x " +
                                                     std::string(format(p.b.format).name)};
  const Result<AccumulationPlan> plan =
      AccumulationPlan::make(p.how.preset, p.a.depth, p.how.fast, p.how.split);
  if (!plan.ok()) return plan.error();
  if (const std::int64_t longest = longest_chain(plan.value()); longest >= p.kernel.depth_limit)
    return value_error("K: a chain of " + std::to_string(longest) + " products is too long for " + name +
                       ", which takes fewer than " + std::to_string(p.kernel.depth_limit) +
                       "; backend=\"reference\" takes any");
  return {};
}

std::size_t workspace_bytes(const Product& p) {
  return layout_of(p, plan_of(p)).bytes;
}

Status launch(const DeviceRuntime& runtime, const KernelState& loaded, const Product& p,
              const CudaQueue& queue) {
  const AccumulationPlan plan = plan_of(p);
  const Layout l = layout_of(p, plan);
  Launcher launcher(runtime, p.kernel, loaded, queue.stream);
  const auto element = static_cast<std::int64_t>(format(p.out.format).bytes());
  for (std::int64_t m = 0; m < p.a.rows && launcher.status().ok(); m += l.band_rows) {
    const DeviceRows a = band_of(p.a, m, std::min(l.band_rows, p.a.rows - m));
    launcher.flag(a, address(queue.workspace) + l.flags_a);
    for (std::int64_t n = 0; n < p.b.rows && launcher.status().ok(); n += l.band_columns) {
      const DeviceRows b = band_of(p.b, n, std::min(l.band_columns, p.b.rows - n));
      Band band(launcher, plan, l, address(queue.workspace), a, b);
      launcher.flag(b, band.at(l.flags_b));
      Finish f{.sums = band.sums(),
               .a = a,
               .b = b,
               .flags_a = band.at(l.flags_a),
               .flags_b = band.at(l.flags_b),
               .out = address(p.out.data) + static_cast<DeviceAddress>((m * p.out.row_stride + n) * element),
               .format = p.out.format,
               .stride = p.out.row_stride,
               .scales = {}};
      if (p.scales != nullptr)
        f.scales = {address(p.scales->a), address(p.scales->b), address(p.scales->result)};
      launcher.finish(f);
    }
  }
  return launcher.status();
}

}  // namespace mmaemu::cuda
