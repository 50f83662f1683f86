// The order of checks of a call and what it decides. The rules of a split are in platform/resolve_splitk.cpp,
// those of a plan in model/plan.cpp; which backend serves a call is in call/backend.h.
#include <algorithm>
#include <limits>
#include <utility>

#include "mmaemu/call.h"

#include "base/memory.h"
#include "call/backend.h"

namespace mmaemu {
namespace {

constexpr std::int64_t kAlignment = 16;  // cuBLASLt's FP8 kernels: of sizes, leading dimensions, addresses

Error rejected(std::string message) {
  return {ErrorKind::reference_rejects, std::move(message)};
}

Error unsupported(std::string message) {
  return {ErrorKind::unsupported_feature, std::move(message)};
}

std::string list(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (const std::int64_t v : values) text += (text.size() > 1 ? ", " : "") + std::to_string(v);
  return text + "]";
}

// Number of elements; the largest integer where it does not fit one.
std::int64_t elements(const TensorDesc& t) {
  std::int64_t count = 1;
  for (const std::int64_t size : t.shape) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(count, size, &count)) count = std::numeric_limits<std::int64_t>::max();
  }
  return count;
}

// Descriptions that no tensor has: ValueError.
std::optional<Error> malformed(std::string_view name, const TensorDesc& t) {
  if (t.strides.size() == t.shape.size() && std::ranges::all_of(t.shape, [](auto size) { return size >= 0; }))
    return std::nullopt;
  return Error{ErrorKind::value_error, std::string(name) +
                                           ": a shape of sizes that are not negative and as many "
                                           "strides are needed, not shape " +
                                           list(t.shape) + " and strides " + list(t.strides)};
}

bool contiguous(const TensorDesc& t) {
  std::int64_t expected = 1;
  for (std::size_t d = t.shape.size(); d-- > 0;) {
    if (t.shape[d] == 0) return true;
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

// A matrix as cuBLAS sees it.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  bool contiguous = false;

  explicit Matrix(const TensorDesc& t)
      : rows(t.shape[0]),
        columns(t.shape[1]),
        row_stride(t.strides[0]),
        column_stride(t.strides[1]),
        contiguous(mmaemu::contiguous(t)) {}

  bool row_major() const {
    return contiguous || (column_stride == 1 && row_stride >= std::max<std::int64_t>(1, columns));
  }
  bool column_major() const {
    return !contiguous && row_stride == 1 && column_stride >= std::max<std::int64_t>(1, rows);
  }
};

TensorDesc transposed(TensorDesc t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

bool is_float8(const std::string& dtype) {
  return dtype.starts_with("float8_");
}

// PTX's name of an operand dtype.
std::string format_name(const std::string& dtype) {
  return std::string(format(*find_format(dtype)).name);
}

bool is_operand(const std::string& dtype) {
  const std::optional<FormatId> id = find_format(dtype);
  return id && format(*id).operand;
}

std::string operand_dtypes() {
  std::string names;
  for (const Format& f : kFormats)
    if (f.operand) names += (names.empty() ? "" : " or ") + std::string(f.dtype);
  return names;
}

bool known_device(const std::string& device) {
  return device == "cpu" || device == "cuda" || device.starts_with("cuda:");
}

// What the maturity of a profile and of its preset says to the user, once per process and name.
void warn_of_maturity(const Profile& profile, std::vector<Warning>& warnings) {
  if (std::optional<Warning> warning = maturity_warning(profile.preset)) {
    warnings.push_back(*std::move(warning));
  } else if (profile.maturity != "validated") {
    warnings.push_back({WarningKind::experimental_preset,
                        "profile \"" + profile.name + "\" is " + profile.maturity + ": preset \"" +
                            profile.preset.name + "\" is validated on " + profile.preset.validated_scope +
                            ", and no reference platform stands behind this profile",
                        "profile|" + profile.name});
  }
}

// The plan steps that scaled_mm and accumulate share: maturity, split, backend, plan. Returns whether the
// call may go on.
bool decide(CallPlan& plan, const SplitQuery& query, const Profile& profile, const SplitRequest& splitk,
            const BackendQuery& backend) {
  Result<SplitResolution> resolved = resolve_splitk(query, profile, splitk);
  if (!resolved.ok()) {
    plan.error = resolved.error();
    return false;
  }
  SplitResolution resolution = std::move(resolved).value();
  for (Warning& w : resolution.warnings) plan.warnings.push_back(std::move(w));

  Result<BackendChoice> choice = choose_backend(backend);
  if (!choice.ok()) {
    plan.error = choice.error();
    return false;
  }
  const Result<AccumulationPlan> accumulation = AccumulationPlan::make(
      profile.preset, query.K, query.fast, {resolution.decision.S, resolution.decision.scheme});
  if (!accumulation.ok()) {
    plan.error = accumulation.error();
    return false;
  }
  plan.split = std::move(resolution.decision);
  plan.backend = choice.value().name;
  plan.fallbacks = choice.value().fallbacks;
  for (const Warning& w : choice.value().warnings) plan.warnings.push_back(w);
  return true;
}

// One call of plan_scaled_mm, check by check. Golden ids r1.* and r6.* hold which calls are rejected.
class ScaledMmPlanner {
 public:
  explicit ScaledMmPlanner(const ScaledMmCall& call) : call_(call) {}

  CallPlan run() {
    plan_.error = steps();
    return std::move(plan_);
  }

 private:
  std::optional<Error> steps() {
    for (const auto& [name, t] : inputs())
      if (auto error = malformed(name, *t)) return error;
    if (call_.out)
      if (auto error = malformed("out", *call_.out)) return error;
    if (auto error = torch_checks()) return error;
    if (plan_.zero_size) {
      settle_out();
      warn_of_resize();
      plan_.backend = "none (zero-size result)";
      return std::nullopt;
    }
    if (auto error = cublas_checks()) return error;
    for (const Rejection& r : call_.profile.rejects) {
      if (r.a_format == format_name(call_.input.dtype) && r.b_format == format_name(call_.mat2.dtype) &&
          r.out_dtype == plan_.out_dtype)
        return rejected(r.message + " (profile " + call_.profile.name + ")");
    }
    if (auto error = scope_checks()) return error;
    warn_of_maturity(call_.profile, plan_.warnings);
    settle_out();
    if (plan_.out_action == OutAction::unchanged) {
      plan_.backend = "none (out= is returned unchanged)";
      return std::nullopt;
    }
    SplitQuery query{.M = plan_.M,
                     .N = plan_.N,
                     .K = plan_.K,
                     .a_format = call_.input.dtype,
                     .b_format = call_.mat2.dtype,
                     .out_dtype = plan_.out_dtype,
                     .fast = call_.use_fast_accum,
                     .layout_std = contiguous(call_.input) && contiguous(transposed(call_.mat2)),
                     .strict = std::nullopt};
    if (plan_.out_action == OutAction::transposed) {
      std::swap(query.M, query.N);
      std::swap(query.a_format, query.b_format);
    }
    if (decide(
            plan_, query, call_.profile, call_.splitk,
            {call_.backend, call_.input.device, call_.profile.preset, call_.input.dtype, call_.mat2.dtype}))
      warn_of_resize();
    return std::move(plan_.error);
  }

  std::optional<Error> torch_checks() {
    const TensorDesc& a = call_.input;
    const TensorDesc& b = call_.mat2;
    if (a.shape.size() != 2) return rejected("input must be a matrix [M, K], not of shape " + list(a.shape));
    if (b.shape.size() != 2) return rejected("mat2 must be a matrix [K, N], not of shape " + list(b.shape));
    if (a.shape[1] != b.shape[0])
      return rejected("input " + list(a.shape) + " and mat2 " + list(b.shape) +
                      " cannot be multiplied: K, the second size of input and the first of mat2, must agree");
    plan_.M = a.shape[0];
    plan_.N = b.shape[1];
    plan_.K = a.shape[1];
    if (auto error = scaling_check()) return error;
    if (call_.scale_result && (elements(*call_.scale_result) != 1 || call_.scale_result->dtype != "float32"))
      return rejected("scale_result must be one float32 element, not " + call_.scale_result->dtype + " " +
                      list(call_.scale_result->shape));
    if (call_.bias && elements(*call_.bias) != plan_.N)
      return rejected("bias must have N = " + std::to_string(plan_.N) + " elements, not " +
                      std::to_string(elements(*call_.bias)));
    for (const auto& [name, size] : {std::pair{"K", plan_.K}, std::pair{"N", plan_.N}}) {
      if (size % kAlignment != 0)
        return rejected(std::string(name) + " must be a multiple of 16, not " + std::to_string(size) +
                        " (input " + list(a.shape) + ", mat2 " + list(b.shape) + ")");
    }
    plan_.out_dtype = call_.out_dtype ? *call_.out_dtype : call_.out ? call_.out->dtype : a.dtype;
    if (call_.out && call_.out->dtype != plan_.out_dtype)
      return rejected("out_dtype is " + plan_.out_dtype + " but out= is " + call_.out->dtype +
                      "; they must be the same");
    for (const auto& [name, t] : {std::pair{"input", &a}, std::pair{"mat2", &b}}) {
      if (!is_float8(t->dtype))
        return rejected(std::string(name) + " must be a float8 matrix (" + operand_dtypes() + "), not " +
                        t->dtype);
    }
    if (a.dtype == "float8_e5m2" && b.dtype == "float8_e5m2")
      return rejected("input and mat2 are both float8_e5m2; at least one of them must be float8_e4m3fn");
    if (auto error = bias_check()) return error;
    for (const auto& [name, t] : others()) {
      if (t->device != a.device)
        return rejected("all tensors must be on one device: input is on " + a.device + ", " + name +
                        " is on " + t->device);
    }
    plan_.zero_size = plan_.M == 0 || plan_.N == 0 || plan_.K == 0;
    return std::nullopt;
  }

  std::optional<Error> scaling_check() {
    const TensorDesc& a = call_.scale_a;
    const TensorDesc& b = call_.scale_b;
    for (const auto& [name, t] : {std::pair{"scale_a", &a}, std::pair{"scale_b", &b}}) {
      if (t->dtype != "float32")
        return rejected(std::string(name) + " must be a float32 tensor, not " + t->dtype);
    }
    if (elements(a) == 1 && elements(b) == 1) return std::nullopt;
    const std::string found = "scale_a " + list(a.shape) + " and scale_b " + list(b.shape);
    if (a.shape != std::vector<std::int64_t>{plan_.M, 1} ||
        b.shape != std::vector<std::int64_t>{1, plan_.N}) {
      return rejected(found +
                      " are no scaling: tensor-wise scales have one element each, row-wise ones are [M, 1] "
                      "and [1, N], here " +
                      list({plan_.M, 1}) + " and " + list({1, plan_.N}));
    }
    if (!contiguous(a) || !contiguous(b))
      return rejected("row-wise scales must be contiguous; the strides are " + list(a.strides) + " and " +
                      list(b.strides));
    row_wise_ = true;
    return std::nullopt;
  }

  std::optional<Error> bias_check() const {
    if (!call_.bias) return std::nullopt;
    const std::string& bias = call_.bias->dtype;
    const std::string& out = plan_.out_dtype;
    if (out == "float32") return rejected("a bias cannot be added to a float32 result");
    if (bias != "bfloat16" && bias != "float16")
      return rejected("bias must be bfloat16 or float16, not " + bias);
    if ((out == "bfloat16" || out == "float16") && bias != out)
      return rejected("a " + out + " result takes a " + out + " bias, not " + bias);
    return std::nullopt;
  }

  std::optional<Error> cublas_checks() const {
    const TensorDesc& a = call_.input;
    const TensorDesc weight = transposed(call_.mat2);
    const Matrix input(a);
    const Matrix rows(weight);
    if (input.column_major())
      return rejected("input must be row-major; its strides " + list(a.strides) + " are column-major");
    if (!rows.row_major())
      return rejected(
          "mat2 must be column-major, as w.t() of a row-major [N, K] weight is; its strides are " +
          list(call_.mat2.strides));
    for (const auto& [name, t] : {std::pair{"input", &a}, std::pair{"mat2", &call_.mat2}}) {
      if (!is_operand(t->dtype))
        return rejected(std::string(name) + " is " + t->dtype + ", which cuBLAS does not multiply; " +
                        operand_dtypes() + " is needed");
    }
    const std::optional<FormatId> out = find_format(plan_.out_dtype);
    if (!out) return rejected("cuBLAS has no FP8 product with a " + plan_.out_dtype + " result");
    // torch copies an input of neither layout to a row-major one, and cuBLAS sees the copy.
    const bool copied = !input.row_major();
    if (!copied && a.offset % kAlignment != 0) return misaligned("input", a.offset);
    if (call_.mat2.offset % kAlignment != 0) return misaligned("mat2", call_.mat2.offset);
    const std::int64_t input_leading = copied || input.rows == 1 ? plan_.K : input.row_stride;
    const std::int64_t weight_leading = rows.rows == 1 ? plan_.K : rows.row_stride;
    for (const auto& [name, leading] :
         {std::pair{"input", input_leading}, std::pair{"mat2", weight_leading}}) {
      if (leading % kAlignment != 0)
        return rejected("the leading dimension of " + std::string(name) + " must be a multiple of 16, not " +
                        std::to_string(leading));
    }
    if (row_wise_ && plan_.out_dtype != "bfloat16")
      return rejected("row-wise scales need a bfloat16 result, not " + plan_.out_dtype);
    return std::nullopt;
  }

  static Error misaligned(const std::string& name, std::int64_t offset) {
    return rejected(name + " must start at a multiple of 16 bytes; it starts " + std::to_string(offset) +
                    " bytes past one");
  }

  std::optional<Error> scope_checks() const {
    if (call_.bias) return unsupported("bias is not supported; pass bias=None and add it to the result");
    if (row_wise_)
      return unsupported(
          "row-wise scales are not supported: no recording shows their arithmetic; pass "
          "one-element scale_a and scale_b");
    if (call_.grad_mode) {
      auto tensors = inputs();
      if (call_.out) tensors.emplace_back("out", &*call_.out);
      for (const auto& [name, t] : tensors) {
        if (t->requires_grad)
          return unsupported(std::string(name) +
                             " requires grad while grad mode is on, and the product has no gradient; call it "
                             "under torch.no_grad() or detach the tensor");
      }
    }
    if (!known_device(call_.input.device))
      return unsupported("tensors on device \"" + call_.input.device +
                         "\" are not supported; move them to cpu or cuda");
    return std::nullopt;
  }

  // torch's own warning; where the call raises, out= keeps its shape and nothing is said.
  void warn_of_resize() {
    if (plan_.out_action != OutAction::resize || elements(*call_.out) == 0) return;
    plan_.warnings.push_back(
        {WarningKind::user,
         "An output with one or more elements was resized since it had shape " + list(call_.out->shape) +
             ", which does not match the required output shape " + list({plan_.M, plan_.N}) +
             ". This behavior is deprecated: resize out= to zero elements first with t.resize_(0) to reuse "
             "it",
         ""});
  }

  // Decides what becomes of out=, once nothing before the split can reject the call any more.
  void settle_out() {
    if (!call_.out) return;
    const TensorDesc& out = *call_.out;
    if (out.shape != std::vector<std::int64_t>{plan_.M, plan_.N}) {
      plan_.out_action = OutAction::resize;
      return;
    }
    plan_.out_action = OutAction::write;
    if (plan_.zero_size) return;
    const Matrix matrix(out);
    if (matrix.row_major()) return;
    if (matrix.column_major()) {
      plan_.out_action = OutAction::transposed;
      return;
    }
    plan_.out_action = OutAction::unchanged;
    plan_.warnings.push_back(
        {WarningKind::user,
         "out= with strides " + list(out.strides) +
             " is neither row- nor column-major: torch 2.7.1 computes into a copy that it never copies "
             "back, and so out= is returned unchanged",
         ""});
  }

  std::vector<std::pair<std::string_view, const TensorDesc*>> inputs() const {
    std::vector<std::pair<std::string_view, const TensorDesc*>> all{{"input", &call_.input},
                                                                    {"mat2", &call_.mat2},
                                                                    {"scale_a", &call_.scale_a},
                                                                    {"scale_b", &call_.scale_b}};
    if (call_.bias) all.emplace_back("bias", &*call_.bias);
    if (call_.scale_result) all.emplace_back("scale_result", &*call_.scale_result);
    return all;
  }

  std::vector<std::pair<std::string, const TensorDesc*>> others() const {
    std::vector<std::pair<std::string, const TensorDesc*>> all;
    for (const auto& [name, t] : inputs())
      if (t != &call_.input) all.emplace_back(name, t);
    if (call_.out) all.emplace_back("out", &*call_.out);
    return all;
  }

  const ScaledMmCall& call_;
  CallPlan plan_;
  bool row_wise_ = false;
};

std::optional<Error> accumulate_checks(const AccumulateCall& call, CallPlan& plan) {
  const auto value_error = [](std::string message) {
    return Error{ErrorKind::value_error, std::move(message)};
  };
  for (const auto& [name, t] : {std::pair{"a", &call.a}, std::pair{"b", &call.b}})
    if (auto error = malformed(name, *t)) return error;
  for (const auto& [name, t] : {std::pair{"a", &call.a}, std::pair{"b", &call.b}}) {
    if (!is_operand(t->dtype))
      return Error{ErrorKind::type_error,
                   std::string(name) + " must be " + operand_dtypes() + ", not " + t->dtype};
  }
  if (!find_format(call.out_dtype_for_split))
    return Error{ErrorKind::type_error,
                 "out_dtype_for_split must be the dtype of a result, not " + call.out_dtype_for_split};
  for (const auto& [name, t] : {std::pair{"a [M, K]", &call.a}, std::pair{"b [N, K]", &call.b}}) {
    if (t->shape.size() != 2)
      return value_error(std::string(name) + " must have two dimensions, not shape " + list(t->shape));
  }
  if (call.a.shape[1] != call.b.shape[1])
    return value_error("a " + list(call.a.shape) + " and b " + list(call.b.shape) +
                       " must agree in K, their second size");
  plan.M = call.a.shape[0];
  plan.N = call.b.shape[0];
  plan.K = call.a.shape[1];
  if (call.a.device != call.b.device)
    return value_error("a is on " + call.a.device + " and b on " + call.b.device +
                       "; they must be on one device");
  if (call.grad_mode && (call.a.requires_grad || call.b.requires_grad))
    return unsupported(std::string(call.a.requires_grad ? "a" : "b") +
                       " requires grad while grad mode is on, and the product has no gradient; call it under "
                       "torch.no_grad() or detach the tensor");
  if (!known_device(call.a.device))
    return unsupported("tensors on device \"" + call.a.device +
                       "\" are not supported; move them to cpu or cuda");
  return std::nullopt;
}

CallPlan failed(Error error) {
  CallPlan plan;
  plan.error = std::move(error);
  return plan;
}

}  // namespace

CallPlan plan_scaled_mm(const ScaledMmCall& call) try {
  ScaledMmPlanner planner(call);
  return planner.run();
} catch (...) {
  return failed(out_of_memory());
}

CallPlan plan_accumulate(const AccumulateCall& call) try {
  CallPlan plan;
  plan.out_dtype = "float32";
  plan.error = accumulate_checks(call, plan);
  if (plan.error) return plan;
  plan.zero_size = plan.M == 0 || plan.N == 0 || plan.K == 0;
  if (plan.zero_size) {
    plan.backend = "none (zero-size result)";
    return plan;
  }
  warn_of_maturity(call.profile, plan.warnings);
  decide(plan,
         {.M = plan.M,
          .N = plan.N,
          .K = plan.K,
          .a_format = call.a.dtype,
          .b_format = call.b.dtype,
          .out_dtype = call.out_dtype_for_split,
          .fast = call.use_fast_accum,
          .layout_std = contiguous(call.a) && contiguous(call.b),
          .strict = std::nullopt},
         call.profile, call.splitk,
         {call.backend, call.a.device, call.profile.preset, call.a.dtype, call.b.dtype});
  return plan;
} catch (...) {
  return failed(out_of_memory());
}

}  // namespace mmaemu
