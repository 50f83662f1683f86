#include "targets.h"

#include <bit>
#include <cstring>
#include <ostream>

#include "base/parallel.h"
#include "model/model.h"

namespace mmaemu::testing {
namespace {

void store(const ResultView& out, std::int64_t m, std::int64_t n, std::uint32_t code) {
  static_assert(std::endian::native == std::endian::little);
  const int bytes = format(out.format).bytes();
  char* at = static_cast<char*>(out.data) + (m * out.row_stride + n * out.column_stride) * bytes;
  std::memcpy(at, &code, static_cast<std::size_t>(bytes));
}

// The judge itself, whatever engine the entry points choose: it takes valid calls only.
template <class Finish>
Status model_gemm(const OperandView& a, const OperandView& b, const Accumulation& how, const ResultView& out,
                  const Execution& execution, Finish finish) {
  const Result<AccumulationPlan> plan = AccumulationPlan::make(how.preset, a.depth, how.fast, how.split);
  if (!plan.ok()) return plan.error();
  const model::Accumulator accumulator(a, b, how.preset, plan.value());
  parallel_for(out.rows, execution.threads, [&](std::int64_t m) {
    for (std::int64_t n = 0; n < out.columns; ++n) store(out, m, n, finish(accumulator(m, n)));
  });
  return {};
}

Status model_accumulate(const OperandView& a, const OperandView& b, const Accumulation& how,
                        const ResultView& out, const Execution& execution) {
  return model_gemm(a, b, how, out, execution, [](std::uint32_t acc) { return acc; });
}

Status model_scaled_mm(const OperandView& a, const OperandView& b, const Accumulation& how,
                       const Epilogue& epilogue, const ResultView& out, const Execution& execution) {
  return model_gemm(a, b, how, out, execution, [&](std::uint32_t acc) {
    return a.depth == 0 ? 0U : model::apply_epilogue(acc, epilogue, format(out.format));
  });
}

Status model_dot(const OperandView& a, const OperandView& b, const float* c, const Preset& preset, float* d,
                 const Execution& /*execution*/) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::uint32_t start = c == nullptr ? 0 : std::bit_cast<std::uint32_t>(c[r]);
    d[r] = std::bit_cast<float>(model::dot(a, b, r, start, preset));
  }
  return {};
}

// The entry points on a CPU target; "": the one they choose.
Target entry_points(const std::string& label, std::string_view name) {
  const auto on = [name](Execution execution) {
    execution.target = name;
    return execution;
  };
  return {label,
          [on](const OperandView& a, const OperandView& b, const Accumulation& how, const ResultView& out,
               const Execution& execution) { return accumulate(a, b, how, out, on(execution)); },
          [on](const OperandView& a, const OperandView& b, const Accumulation& how, const Epilogue& epilogue,
               const ResultView& out,
               const Execution& execution) { return scaled_mm(a, b, how, epilogue, out, on(execution)); },
          [on](const OperandView& a, const OperandView& b, const float* c, const Preset& preset, float* d,
               const Execution& execution) { return dot(a, b, c, preset, d, on(execution)); }};
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> all{
        entry_points("api", ""),
        {"model", &model_accumulate, &model_scaled_mm, &model_dot},
    };
    for (const std::string_view name : cpu_targets())
      all.push_back(entry_points("cpu_" + std::string(name), name));
    return all;
  }();
  return kTargets;
}

void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}

}  // namespace mmaemu::testing
