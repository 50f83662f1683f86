// The entry points of gemm.h: checks the views, plans, and has an engine compute: src/cpu what it covers, the
// model everything else.
#include "mmaemu/gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "base/memory.h"
#include "base/parallel.h"
#include "cpu/gemm.h"
#include "model/model.h"
#include "platform/environment.h"

namespace mmaemu {
namespace {

constexpr std::string_view kModel = "model";

// About 5 ms of the model's time: fine enough to share among threads and to answer a cancellation.
constexpr std::int64_t kProductsPerTask = std::int64_t{1} << 20;

// Results with more elements than this have no addresses, and their counts may overflow.
constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 8;

std::string size_text(std::int64_t rows, std::int64_t columns) {
  std::string text = "[";
  text += std::to_string(rows);
  text += ", ";
  text += std::to_string(columns);
  text += "]";
  return text;
}

Status check_operand(std::string_view name, const OperandView& v) {
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorKind::value_error, std::string(name) + ": " + what};
  };
  if (!format(v.format).operand)
    return refuse("format " + std::string(format(v.format).name) +
                  " is not an operand format; e4m3 and e5m2 are");
  if (v.rows < 0 || v.depth < 0)
    return refuse("sizes " + size_text(v.rows, v.depth) + " must not be negative");
  if (v.data == nullptr && v.rows > 0 && v.depth > 0)
    return refuse("data is null for sizes " + size_text(v.rows, v.depth));
  return {};
}

Status check_product(const OperandView& a, const OperandView& b) {
  if (Status s = check_operand("a", a); !s.ok()) return s;
  if (Status s = check_operand("b", b); !s.ok()) return s;
  if (a.depth != b.depth)
    return Error{ErrorKind::value_error, "a " + size_text(a.rows, a.depth) + " and b " +
                                             size_text(b.rows, b.depth) +
                                             " must agree in K, their second size"};
  return {};
}

Status check_result(const OperandView& a, const OperandView& b, const ResultView& out) {
  if (out.rows != a.rows || out.columns != b.rows)
    return Error{ErrorKind::value_error, "out is " + size_text(out.rows, out.columns) + "; the product is " +
                                             size_text(a.rows, b.rows)};
  if (b.rows > 0 && a.rows > kMostElements / b.rows)
    return Error{ErrorKind::value_error,
                 "the product has " + size_text(a.rows, b.rows) + " elements, too many to address"};
  if (out.data == nullptr && out.rows > 0 && out.columns > 0)
    return Error{ErrorKind::value_error, "out: data is null"};
  return {};
}

void store(const ResultView& out, std::int64_t m, std::int64_t n, std::uint32_t code) {
  const int bytes = format(out.format).bytes();
  char* at = static_cast<char*>(out.data) + (m * out.row_stride + n * out.column_stride) * bytes;
  const auto u8 = static_cast<std::uint8_t>(code);
  const auto u16 = static_cast<std::uint16_t>(code);
  switch (bytes) {
    case 1:
      std::memcpy(at, &u8, 1);
      break;
    case 2:
      std::memcpy(at, &u16, 2);
      break;
    default:
      std::memcpy(at, &code, 4);
      break;
  }
}

Error cancelled() {
  return {ErrorKind::cancelled, "the call was cancelled"};
}

// Runs body(i) for each i in [0, count), several to a task, each costing about `products`.
Status for_each_output(std::int64_t count, std::int64_t products, const Execution& execution,
                       const std::function<void(std::int64_t)>& body) {
  const std::int64_t per_task =
      std::max<std::int64_t>(1, kProductsPerTask / std::max<std::int64_t>(1, products));
  const std::int64_t tasks = count / per_task + (count % per_task != 0 ? 1 : 0);
  const auto task = [&](std::int64_t t) {
    const std::int64_t end = std::min(count, (t + 1) * per_task);
    for (std::int64_t i = t * per_task; i < end; ++i) body(i);
  };
  if (!parallel_for(tasks, execution.threads, task, execution.cancelled)) return cancelled();
  return {};
}

std::string target_list() {
  std::string names;
  for (const std::string_view name : cpu_targets()) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

// The target that runs a call; none: the model.
Result<std::optional<cpu::Target>> choose_target(const Execution& execution) {
  std::string wanted(execution.target);
  std::string where = "target=";
  if (wanted.empty()) {
    wanted = environment_text("MMAEMU_CPU_TARGET");
    where = "MMAEMU_CPU_TARGET=";
  }
  const std::vector<cpu::Target>& available = cpu::available_targets();
  if (wanted.empty()) return std::optional(available.front());
  if (wanted == kModel) return std::optional<cpu::Target>();
  for (const cpu::Target target : available)
    if (wanted == cpu::name(target)) return std::optional(target);
  const bool known = std::ranges::find(cpu::kTargetNames, wanted) != cpu::kTargetNames.end();
  return Error{ErrorKind::value_error, where + "\"" + wanted + "\" is " +
                                           (known ? "not available on this processor" : "not a CPU target") +
                                           "; the targets here are " + target_list()};
}

// Zeros, aligned for the engine's vectors.
std::shared_ptr<std::uint8_t[]> aligned_zeros(std::int64_t count) {
  constexpr std::align_val_t kAlignment{cpu::kVectorAlignment};
  auto* const bytes =
      static_cast<std::uint8_t*>(::operator new[](static_cast<std::size_t>(count), kAlignment));
  std::fill_n(bytes, count, std::uint8_t{0});
  return {bytes, [](std::uint8_t* memory) { ::operator delete[](memory, kAlignment); }};
}

// A product that is computed by whatever engine serves it. b_strips: null, or b as PackedOperand holds it.
// `scaled`: apply the epilogue.
Status run_gemm(const OperandView& a, const OperandView& b, const std::uint8_t* b_strips,
                const Accumulation& how, const ResultView& out, const Execution& execution,
                const Epilogue& epilogue, bool scaled) {
  if (Status s = check_product(a, b); !s.ok()) return s;
  if (Status s = check_result(a, b, out); !s.ok()) return s;
  const Result<AccumulationPlan> plan = AccumulationPlan::make(how.preset, a.depth, how.fast, how.split);
  if (!plan.ok()) return plan.error();
  const Result<std::optional<cpu::Target>> target = choose_target(execution);
  if (!target.ok()) return target.error();
  if (out.rows == 0 || out.columns == 0) return {};
  const Format& f = format(out.format);
  if (target.value() && cpu::covers(how.preset) && a.depth > 0) {
    const bool again = scaled && f.saturates && epilogue.scale_result;
    const cpu::FinishArguments finish{.scale = scaled,
                                      .scale_a = epilogue.scale_a,
                                      .scale_b = epilogue.scale_b,
                                      .scale_again = again,
                                      .scale_result = again ? *epilogue.scale_result : 1.0F,
                                      .format = out.format};
    if (!cpu::gemm(*target.value(), a, b, b_strips, how.preset, plan.value(), finish, out, execution))
      return cancelled();
    return {};
  }
  const model::Accumulator accumulator(a, b, how.preset, plan.value());
  return for_each_output(out.rows * out.columns, a.depth, execution, [&](std::int64_t i) {
    const std::int64_t m = i / out.columns;
    const std::int64_t n = i % out.columns;
    // K = 0 is not computed by cuBLAS: torch zeroes the result, whatever the scales (r6.zero_dims).
    std::uint32_t code = a.depth == 0 ? 0 : accumulator(m, n);
    if (scaled && a.depth != 0) code = model::apply_epilogue(code, epilogue, f);
    store(out, m, n, code);
  });
}

}  // namespace

std::vector<std::string_view> cpu_targets() {
  std::vector<std::string_view> names;
  for (const cpu::Target target : cpu::available_targets()) names.push_back(cpu::name(target));
  names.push_back(kModel);
  return names;
}

Result<std::string_view> cpu_target(const Execution& execution) try {
  const Result<std::optional<cpu::Target>> target = choose_target(execution);
  if (!target.ok()) return target.error();
  return target.value() ? cpu::name(*target.value()) : kModel;
} catch (...) {
  return out_of_memory();
}

namespace {

Status checked_accumulate(const OperandView& a, const OperandView& b, const std::uint8_t* b_strips,
                          const Accumulation& how, const ResultView& out, const Execution& execution) try {
  if (out.format != FormatId::float32)
    return Error{ErrorKind::value_error,
                 "out: an accumulator is float32, not " + std::string(format(out.format).name)};
  return run_gemm(a, b, b_strips, how, out, execution, {}, false);
} catch (...) {
  return out_of_memory();
}

Status checked_scaled_mm(const OperandView& a, const OperandView& b, const std::uint8_t* b_strips,
                         const Accumulation& how, const Epilogue& epilogue, const ResultView& out,
                         const Execution& execution) try {
  return run_gemm(a, b, b_strips, how, out, execution, epilogue, true);
} catch (...) {
  return out_of_memory();
}

}  // namespace

Status accumulate(const OperandView& a, const OperandView& b, const Accumulation& how, const ResultView& out,
                  const Execution& execution) {
  return checked_accumulate(a, b, nullptr, how, out, execution);
}

Status accumulate(const OperandView& a, const PackedOperand& b, const Accumulation& how,
                  const ResultView& out, const Execution& execution) {
  return checked_accumulate(a, b.view(), b.strips(), how, out, execution);
}

Status scaled_mm(const OperandView& a, const OperandView& b, const Accumulation& how,
                 const Epilogue& epilogue, const ResultView& out, const Execution& execution) {
  return checked_scaled_mm(a, b, nullptr, how, epilogue, out, execution);
}

Status scaled_mm(const OperandView& a, const PackedOperand& b, const Accumulation& how,
                 const Epilogue& epilogue, const ResultView& out, const Execution& execution) {
  return checked_scaled_mm(a, b.view(), b.strips(), how, epilogue, out, execution);
}

Result<PackedOperand> PackedOperand::make(const OperandView& operand, const Execution& execution) try {
  if (Status s = check_operand("operand", operand); !s.ok()) return s.error();
  const std::int64_t strips = operand.rows / cpu::kMaxStrip + (operand.rows % cpu::kMaxStrip != 0 ? 1 : 0);
  if (operand.depth > 0 && strips > std::numeric_limits<std::int64_t>::max() / cpu::kMaxStrip / operand.depth)
    return Error{ErrorKind::value_error,
                 "operand: sizes " + size_text(operand.rows, operand.depth) + " are too large to pack"};
  PackedOperand packed;
  packed.view_ = {nullptr, operand.format, operand.rows, operand.depth, operand.depth, 1};
  packed.codes_ = std::make_shared<std::uint8_t[]>(static_cast<std::size_t>(operand.rows * operand.depth));
  packed.strips_ = aligned_zeros(strips * cpu::kMaxStrip * operand.depth);
  packed.view_.data = packed.codes_.get();
  const auto pack_strip = [&](std::int64_t strip) {
    std::uint8_t* const to = packed.strips_.get() + strip * cpu::kMaxStrip * operand.depth;
    const std::int64_t first = strip * cpu::kMaxStrip;
    for (std::int64_t r = first; r < std::min(first + cpu::kMaxStrip, operand.rows); ++r) {
      const auto* codes = static_cast<const std::uint8_t*>(operand.data) + r * operand.row_stride;
      for (std::int64_t k = 0; k < operand.depth; ++k) {
        const std::uint8_t code = codes[k * operand.depth_stride];
        packed.codes_[static_cast<std::size_t>(r * operand.depth + k)] = code;
        to[k * cpu::kMaxStrip + r - first] = code;
      }
    }
  };
  if (!parallel_for(strips, execution.threads, pack_strip, execution.cancelled)) return cancelled();
  return packed;
} catch (...) {
  return out_of_memory();
}

Status dot(const OperandView& a, const OperandView& b, const float* c, const Preset& preset, float* d,
           const Execution& execution) try {
  if (Status s = validate(preset); !s.ok()) return s;
  if (Status s = check_product(a, b); !s.ok()) return s;
  if (a.rows != b.rows)
    return Error{ErrorKind::value_error, "a " + size_text(a.rows, a.depth) + " and b " +
                                             size_text(b.rows, b.depth) + " must have the same sizes"};
  if (a.rows > kMostElements)
    return Error{ErrorKind::value_error,
                 "d has " + std::to_string(a.rows) + " elements, too many to address"};
  if (d == nullptr && a.rows > 0) return Error{ErrorKind::value_error, "d is null"};
  if (const auto target = choose_target(execution); !target.ok()) return target.error();
  return for_each_output(a.rows, a.depth, execution, [&](std::int64_t r) {
    const std::uint32_t start = c == nullptr ? 0 : std::bit_cast<std::uint32_t>(c[r]);
    d[r] = std::bit_cast<float>(model::dot(a, b, r, start, preset));
  });
} catch (...) {
  return out_of_memory();
}

bool flush_to_zero_active() {
  // One probe for results (x86: FTZ; Arm: FZ), one for inputs (DAZ).
  volatile float least_normal = std::numeric_limits<float>::min();
  volatile float subnormal = std::numeric_limits<float>::denorm_min();
  volatile float half = 0.5F;
  volatile float large = 0x1p100F;
  volatile float small_result = least_normal * half;
  volatile float large_result = subnormal * large;
  return std::bit_cast<std::uint32_t>(static_cast<float>(small_result)) == 0 ||
         std::bit_cast<std::uint32_t>(static_cast<float>(large_result)) == 0;
}

}  // namespace mmaemu
