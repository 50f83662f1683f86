// mmaemu.h over the C++ API: pointers, names and status codes; no arithmetic and no policy.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mmaemu/call.h"
#include "mmaemu/gemm.h"
#include "mmaemu/mmaemu.h"
#include "mmaemu/platform.h"
#include "mmaemu/report.h"

#include "base/memory.h"

struct mmaemu_packed {
  mmaemu::PackedOperand operand;
};

namespace mmaemu {
namespace {

thread_local std::string t_last_error;

mmaemu_status code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::type_error:
      return MMAEMU_TYPE_ERROR;
    case ErrorKind::value_error:
      return MMAEMU_VALUE_ERROR;
    case ErrorKind::key_error:
      return MMAEMU_KEY_ERROR;
    case ErrorKind::out_of_memory:
      return MMAEMU_OUT_OF_MEMORY;
    case ErrorKind::cancelled:
      return MMAEMU_CANCELLED;
    case ErrorKind::mmaemu_error:
      return MMAEMU_ERROR;
    case ErrorKind::reference_rejects:
      return MMAEMU_REFERENCE_REJECTS;
    case ErrorKind::unsupported_feature:
      return MMAEMU_UNSUPPORTED_FEATURE;
    case ErrorKind::split_unknown:
      return MMAEMU_SPLIT_UNKNOWN;
    case ErrorKind::backend_unavailable:
      return MMAEMU_BACKEND_UNAVAILABLE;
  }
  return MMAEMU_ERROR;
}

mmaemu_status failed(const Error& error) {
  t_last_error = error.message;
  return code_of(error.kind);
}

// Runs the body of a C function; no exception leaves it.
template <class Body>
mmaemu_status guarded(Body body) noexcept {
  try {
    t_last_error.clear();
    const Status status = body();
    return status.ok() ? MMAEMU_OK : failed(status.error());
  } catch (...) {
    try {
      return failed(out_of_memory());
    } catch (...) {
      return MMAEMU_ERROR;  // an exception of a caller's function
    }
  }
}

Error refused(std::string message) {
  return {ErrorKind::value_error, std::move(message)};
}

Error null_argument(std::string_view name) {
  return refused(std::string(name) + " is null");
}

// Sizes that a version of the structure may have: whole words, so that no pointer is cut in two.
template <class T>
Status check_size(std::string_view name, const T* given) {
  if (given->size >= sizeof(std::size_t) && given->size <= 16 * sizeof(T) && given->size % alignof(T) == 0)
    return {};
  return refused(std::string(name) + "->size is " + std::to_string(given->size) + ", not sizeof(mmaemu_" +
                 std::string(name) + "); start from its _INIT macro");
}

// A caller's structure, whose size field tells how much of it there is; what is not there keeps its default,
// and what this version does not know must be zero.
template <class T>
Result<T> read_sized(std::string_view name, const T* given, const T& defaults) {
  T value = defaults;
  if (given == nullptr) return value;
  if (Status s = check_size(name, given); !s.ok()) return s.error();
  std::memcpy(&value, given, std::min(given->size, sizeof value));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min(given->size, sizeof value), bytes + given->size,
                  [](unsigned char byte) { return byte != 0; }))
    return Error{ErrorKind::unsupported_feature, std::string(name) + " sets fields that version " +
                                                     std::string(version()) +
                                                     " of the library does not know"};
  return value;
}

Result<mmaemu_options> read_options(const mmaemu_options* options) {
  return read_sized("options", options, MMAEMU_OPTIONS_INIT);
}

Result<FormatId> read_format(std::string_view argument, const char* name) {
  if (name == nullptr) return null_argument(std::string(argument) + "->format");
  if (const std::optional<FormatId> id = find_format(name)) return *id;
  return Error{ErrorKind::type_error, std::string(argument) + "->format \"" + name +
                                          "\" is not a format; the formats are e4m3, e5m2, float16, "
                                          "bfloat16 and float32"};
}

Result<OperandView> read_operand(std::string_view argument, const mmaemu_operand* given) {
  if (given == nullptr) return null_argument(argument);
  const Result<FormatId> id = read_format(argument, given->format);
  if (!id.ok()) return id.error();
  return OperandView{given->data,  id.value(),        given->rows,
                     given->depth, given->row_stride, given->depth_stride};
}

Result<ResultView> read_result(const mmaemu_result* given) {
  if (given == nullptr) return null_argument("result");
  const Result<FormatId> id = read_format("result", given->format);
  if (!id.ok()) return id.error();
  return ResultView{given->data,    id.value(),        given->rows,
                    given->columns, given->row_stride, given->column_stride};
}

std::string_view name_or_empty(const char* name) {
  return name == nullptr ? std::string_view() : std::string_view(name);
}

Result<Profile> read_profile(const char* name) {
  return find_profile_or_default(name == nullptr ? std::nullopt : std::optional<std::string>(name));
}

// Into a SplitRequest, as g++ 12 sees uninitialised members in a Result of that variant.
Status read_split(const mmaemu_options& options, SplitRequest& split) {
  if (options.split == 0 && options.scheme != nullptr)
    return refused("options->scheme is \"" + std::string(options.scheme) +
                   "\", but options->split 0 leaves the split to the profile");
  if (options.scheme != nullptr)
    split = SplitAsWritten{options.split, options.scheme};
  else if (options.split != 0)
    split = options.split;
  return {};
}

Execution execution_of(const mmaemu_options& options) {
  Execution execution{.threads = options.threads, .target = name_or_empty(options.cpu_target)};
  if (options.cancelled != nullptr)
    execution.cancelled = [cancelled = options.cancelled, user = options.user] {
      return cancelled(user) != 0;
    };
  return execution;
}

void warn(const mmaemu_options& options, const std::vector<Warning>& warnings) {
  if (options.warn == nullptr) return;
  for (const Warning& w : warnings)
    options.warn(std::string(class_name(w.kind)).c_str(), w.message.c_str(), options.user);
}

// As a tensor of host memory; `transposed`: [depth, rows].
TensorDesc tensor_of(const OperandView& v, bool transposed) {
  // The offset counts from a 16-byte boundary; operands have one byte an element.
  const auto offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(v.data) % 16);
  TensorDesc tensor{.dtype = std::string(format(v.format).dtype),
                    .shape = {v.rows, v.depth},
                    .strides = {v.row_stride, v.depth_stride},
                    .offset = offset,
                    .device = "cpu"};
  if (transposed) {
    std::swap(tensor.shape[0], tensor.shape[1]);
    std::swap(tensor.strides[0], tensor.strides[1]);
  }
  return tensor;
}

Status check_shape(const CallPlan& plan, const ResultView& result) {
  if (result.rows == plan.M && result.columns == plan.N) return {};
  return refused("result has sizes [" + std::to_string(result.rows) + ", " + std::to_string(result.columns) +
                 "]; the product has [" + std::to_string(plan.M) + ", " + std::to_string(plan.N) + "]");
}

// What scaled_mm and accumulate are given alike.
struct ProductArguments {
  mmaemu_options options{};
  OperandView a;
  OperandView b;
  const PackedOperand* packed_b = nullptr;  // null: b is a view of the caller's memory
  ResultView result;
  Profile profile;
  SplitRequest split;

  bool fast() const { return options.fast != 0; }
};

Status read_product(const mmaemu_operand* a_given, const mmaemu_operand* b_given, const mmaemu_packed* packed,
                    const mmaemu_result* result_given, const mmaemu_options* options_given,
                    ProductArguments& to) {
  const Result<mmaemu_options> options = read_options(options_given);
  if (!options.ok()) return options.error();
  to.options = options.value();
  const Result<OperandView> a = read_operand("a", a_given);
  if (!a.ok()) return a.error();
  to.a = a.value();
  if (packed != nullptr) {
    to.packed_b = &packed->operand;
    to.b = packed->operand.view();
  } else {
    const Result<OperandView> b = read_operand("b", b_given);
    if (!b.ok()) return b.error();
    to.b = b.value();
  }
  const Result<ResultView> result = read_result(result_given);
  if (!result.ok()) return result.error();
  to.result = result.value();
  const Result<Profile> profile = read_profile(to.options.profile);
  if (!profile.ok()) return profile.error();
  to.profile = profile.value();
  return read_split(to.options, to.split);
}

// Warns, then how the planned product is summed: into `how`.
Status follow_plan(const CallPlan& plan, const ProductArguments& given, Accumulation& how) {
  warn(given.options, plan.warnings);
  if (plan.error) return *plan.error;
  if (Status s = check_shape(plan, given.result); !s.ok()) return s;
  const SplitK split = plan.split ? SplitK{plan.split->S, plan.split->scheme} : SplitK{};
  how = {given.profile.preset, given.fast(), split};
  return {};
}

Status run_scaled_mm(const mmaemu_operand* a, const mmaemu_operand* b, const mmaemu_packed* packed,
                     float scale_a, float scale_b, const float* scale_result, const mmaemu_result* result,
                     const mmaemu_options* options) {
  ProductArguments given;
  if (Status s = read_product(a, b, packed, result, options, given); !s.ok()) return s;
  const TensorDesc scalar{.dtype = "float32", .shape = {}, .strides = {}};
  ScaledMmCall call{.input = tensor_of(given.a, false),
                    .mat2 = tensor_of(given.b, true),
                    .scale_a = scalar,
                    .scale_b = scalar,
                    .bias = {},
                    .scale_result = {},
                    .out_dtype = std::string(format(given.result.format).dtype),
                    .use_fast_accum = given.fast(),
                    .out = {},
                    .profile = given.profile,
                    .splitk = given.split,
                    .backend = "reference"};
  if (scale_result != nullptr) call.scale_result = scalar;
  Accumulation how;
  if (Status s = follow_plan(plan_scaled_mm(call), given, how); !s.ok()) return s;
  const Epilogue epilogue{scale_a, scale_b,
                          scale_result == nullptr ? std::nullopt : std::optional(*scale_result)};
  const Execution execution = execution_of(given.options);
  if (given.packed_b != nullptr)
    return scaled_mm(given.a, *given.packed_b, how, epilogue, given.result, execution);
  return scaled_mm(given.a, given.b, how, epilogue, given.result, execution);
}

Status run_accumulate(const mmaemu_operand* a, const mmaemu_operand* b, const mmaemu_packed* packed,
                      const mmaemu_result* result, const mmaemu_options* options) {
  ProductArguments given;
  if (Status s = read_product(a, b, packed, result, options, given); !s.ok()) return s;
  const char* const out_dtype = given.options.out_dtype_for_split;
  const AccumulateCall call{.a = tensor_of(given.a, false),
                            .b = tensor_of(given.b, false),
                            .use_fast_accum = given.fast(),
                            .profile = given.profile,
                            .splitk = given.split,
                            .backend = "reference",
                            .out_dtype_for_split = dtype_named(out_dtype == nullptr ? "float32" : out_dtype)};
  Accumulation how;
  if (Status s = follow_plan(plan_accumulate(call), given, how); !s.ok()) return s;
  const Execution execution = execution_of(given.options);
  if (given.packed_b != nullptr) return accumulate(given.a, *given.packed_b, how, given.result, execution);
  return accumulate(given.a, given.b, how, given.result, execution);
}

// A text that mmaemu_free_text frees.
Status hand_out(const Result<std::string>& text, char** to) {
  if (!text.ok()) return text.error();
  char* const copy = static_cast<char*>(std::malloc(text.value().size() + 1));
  if (copy == nullptr) return Error{ErrorKind::out_of_memory, "out of memory"};
  std::memcpy(copy, text.value().c_str(), text.value().size() + 1);
  *to = copy;
  return {};
}

// Names of the library end with a zero, being literals.
const char* scheme_name(SplitScheme scheme) {
  return name(scheme).data();
}

}  // namespace
}  // namespace mmaemu

using namespace mmaemu;

const char* mmaemu_status_name(mmaemu_status status) {
  if (status == MMAEMU_OK) return "OK";
  constexpr std::array kKinds{ErrorKind::type_error,        ErrorKind::value_error,
                              ErrorKind::key_error,         ErrorKind::out_of_memory,
                              ErrorKind::cancelled,         ErrorKind::mmaemu_error,
                              ErrorKind::reference_rejects, ErrorKind::unsupported_feature,
                              ErrorKind::split_unknown,     ErrorKind::backend_unavailable};
  for (const ErrorKind kind : kKinds)
    if (code_of(kind) == status) return class_name(kind).data();
  return "unknown status";
}

const char* mmaemu_last_error(void) {
  return t_last_error.c_str();
}

void mmaemu_free_text(char* text) {
  std::free(text);
}

const char* mmaemu_version(void) {
  return version().data();
}

mmaemu_status mmaemu_scaled_mm(const mmaemu_operand* a, const mmaemu_operand* b, float scale_a, float scale_b,
                               const float* scale_result, const mmaemu_result* result,
                               const mmaemu_options* options) {
  return guarded(
      [&] { return run_scaled_mm(a, b, nullptr, scale_a, scale_b, scale_result, result, options); });
}

mmaemu_status mmaemu_scaled_mm_packed(const mmaemu_operand* a, const mmaemu_packed* b, float scale_a,
                                      float scale_b, const float* scale_result, const mmaemu_result* result,
                                      const mmaemu_options* options) {
  return guarded([&]() -> Status {
    if (b == nullptr) return null_argument("b");
    return run_scaled_mm(a, nullptr, b, scale_a, scale_b, scale_result, result, options);
  });
}

mmaemu_status mmaemu_accumulate(const mmaemu_operand* a, const mmaemu_operand* b, const mmaemu_result* result,
                                const mmaemu_options* options) {
  return guarded([&] { return run_accumulate(a, b, nullptr, result, options); });
}

mmaemu_status mmaemu_accumulate_packed(const mmaemu_operand* a, const mmaemu_packed* b,
                                       const mmaemu_result* result, const mmaemu_options* options) {
  return guarded([&]() -> Status {
    if (b == nullptr) return null_argument("b");
    return run_accumulate(a, nullptr, b, result, options);
  });
}

mmaemu_status mmaemu_pack(const mmaemu_operand* operand, mmaemu_packed** packed) {
  return guarded([&]() -> Status {
    if (packed == nullptr) return null_argument("packed");
    const Result<OperandView> view = read_operand("operand", operand);
    if (!view.ok()) return view.error();
    Result<PackedOperand> made = PackedOperand::make(view.value());
    if (!made.ok()) return made.error();
    *packed = new mmaemu_packed{std::move(made).value()};
    return {};
  });
}

void mmaemu_free_packed(mmaemu_packed* packed) {
  delete packed;
}

mmaemu_status mmaemu_find_preset(const char* name, mmaemu_preset* preset) {
  return guarded([&]() -> Status {
    if (name == nullptr) return null_argument("name");
    if (preset == nullptr) return null_argument("preset");
    if (Status s = check_size("preset", preset); !s.ok()) return s;
    const Result<Preset> found = find_preset(name);
    if (!found.ok()) return found.error();
    const Preset& p = found.value();
    const mmaemu_preset filled{preset->size, p.nfma, p.frac, p.frac_out, p.min_exp, p.late_c ? 1 : 0};
    std::memcpy(preset, &filled, std::min(preset->size, sizeof filled));
    return {};
  });
}

mmaemu_status mmaemu_dot(const mmaemu_operand* a, const mmaemu_operand* b, const float* c,
                         const mmaemu_preset* preset, float* d, const mmaemu_options* options) {
  return guarded([&]() -> Status {
    if (preset == nullptr) return null_argument("preset");
    const Result<mmaemu_preset> numbers = read_sized<mmaemu_preset>("preset", preset, MMAEMU_PRESET_INIT);
    if (!numbers.ok()) return numbers.error();
    const Result<mmaemu_options> how = read_options(options);
    if (!how.ok()) return how.error();
    const Result<OperandView> left = read_operand("a", a);
    if (!left.ok()) return left.error();
    const Result<OperandView> right = read_operand("b", b);
    if (!right.ok()) return right.error();
    Preset custom;
    custom.name = "custom";
    custom.nfma = numbers.value().nfma;
    custom.frac = numbers.value().frac;
    custom.frac_out = numbers.value().frac_out;
    custom.min_exp = numbers.value().min_exp;
    custom.late_c = numbers.value().late_c != 0;
    return dot(left.value(), right.value(), c, custom, d, execution_of(how.value()));
  });
}

mmaemu_status mmaemu_resolve_splitk(const mmaemu_split_query* query, const mmaemu_options* options,
                                    int64_t* S, const char** scheme, char** json) {
  return guarded([&]() -> Status {
    if (query == nullptr) return null_argument("query");
    if (S == nullptr) return null_argument("S");
    if (scheme == nullptr) return null_argument("scheme");
    const Result<mmaemu_split_query> given =
        read_sized<mmaemu_split_query>("split_query", query, MMAEMU_SPLIT_QUERY_INIT);
    if (!given.ok()) return given.error();
    const Result<mmaemu_options> how = read_options(options);
    if (!how.ok()) return how.error();
    const Result<Profile> profile = read_profile(how.value().profile);
    if (!profile.ok()) return profile.error();
    SplitRequest wanted;
    if (Status s = read_split(how.value(), wanted); !s.ok()) return s;
    const mmaemu_split_query& q = given.value();
    const std::string_view out = name_or_empty(q.out_dtype == nullptr ? q.a_format : q.out_dtype);
    const SplitQuery asked{.M = q.M,
                           .N = q.N,
                           .K = q.K,
                           .a_format = std::string(name_or_empty(q.a_format)),
                           .b_format = std::string(name_or_empty(q.b_format)),
                           .out_dtype = dtype_named(out),
                           .fast = how.value().fast != 0,
                           .layout_std = q.nonstandard == 0,
                           .strict = q.strict < 0 ? std::nullopt : std::optional(q.strict > 0)};
    const Result<SplitResolution> found = resolve_splitk(asked, profile.value(), wanted);
    if (!found.ok()) return found.error();
    const SplitDecision& split = found.value().decision;
    if (json != nullptr)
      if (Status s = hand_out(to_json(split), json); !s.ok()) return s;
    warn(how.value(), found.value().warnings);
    *S = split.S;
    *scheme = scheme_name(split.scheme);
    return {};
  });
}

mmaemu_status mmaemu_explain(const mmaemu_explain_request* request, const mmaemu_options* options,
                             char** json) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("request");
    if (json == nullptr) return null_argument("json");
    const Result<mmaemu_explain_request> given =
        read_sized<mmaemu_explain_request>("explain_request", request, MMAEMU_EXPLAIN_REQUEST_INIT);
    if (!given.ok()) return given.error();
    const Result<mmaemu_options> how = read_options(options);
    if (!how.ok()) return how.error();
    SplitRequest split;
    if (Status s = read_split(how.value(), split); !s.ok()) return s;
    const mmaemu_explain_request& r = given.value();
    ExplainRequest asked{.M = r.M,
                         .N = r.N,
                         .K = r.K,
                         .a = std::string(name_or_empty(r.a_format)),
                         .b = std::string(name_or_empty(r.b_format)),
                         .out = {},
                         .fast = how.value().fast != 0,
                         .scale_result = {},
                         .profile = {},
                         .splitk = split,
                         .backend = std::string(name_or_empty(r.backend)),
                         .device = std::string(name_or_empty(r.device))};
    if (r.out_dtype != nullptr) asked.out = r.out_dtype;
    if (r.has_scale_result != 0) asked.scale_result = 1.0;
    if (how.value().profile != nullptr) asked.profile = how.value().profile;
    return hand_out(to_json(asked, explain(asked)), json);
  });
}

mmaemu_status mmaemu_info(int device, char** json) {
  return guarded([&]() -> Status {
    if (json == nullptr) return null_argument("json");
    return hand_out(info_json(device < 0 ? std::nullopt : std::optional(device)), json);
  });
}

size_t mmaemu_profile_count(void) {
  return shipped_profiles().size();
}

const char* mmaemu_profile_name(size_t index) {
  return index < shipped_profiles().size() ? shipped_profiles()[index].name.c_str() : nullptr;
}

size_t mmaemu_preset_count(void) {
  return shipped_presets().size();
}

const char* mmaemu_preset_name(size_t index) {
  return index < shipped_presets().size() ? shipped_presets()[index].name.c_str() : nullptr;
}

size_t mmaemu_cpu_target_count(void) {
  return cpu_targets().size();
}

const char* mmaemu_cpu_target_name(size_t index) {
  const std::vector<std::string_view> targets = cpu_targets();
  return index < targets.size() ? targets[index].data() : nullptr;
}

mmaemu_status mmaemu_profile_json(const char* name, char** json) {
  return guarded([&]() -> Status {
    if (json == nullptr) return null_argument("json");
    const Result<Profile> profile = read_profile(name);
    if (!profile.ok()) return profile.error();
    return hand_out(to_json(profile.value()), json);
  });
}

mmaemu_status mmaemu_preset_json(const char* name, char** json) {
  return guarded([&]() -> Status {
    if (json == nullptr) return null_argument("json");
    if (name == nullptr) return null_argument("name");
    const Result<Preset> preset = find_preset(name);
    if (!preset.ok()) return preset.error();
    return hand_out(to_json(preset.value()), json);
  });
}
