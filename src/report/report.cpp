// The JSON of report.h. Facts come from the public API; what a call does is decided in src/call.
#include "mmaemu/report.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <type_traits>

#include "mmaemu/gemm.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "platform/environment.h"

namespace mmaemu {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& value) {
  return value.dump(2, ' ', true, Json::error_handler_t::replace);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// JSON has no infinities and no NaN: strings.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

Json written(const SplitRequest& splitk) {
  return std::visit(
      [](const auto& split) -> Json {
        using Split = std::decay_t<decltype(split)>;
        if constexpr (std::is_same_v<Split, SplitAuto>)
          return "auto";
        else if constexpr (std::is_same_v<Split, std::int64_t>)
          return split;
        else if constexpr (std::is_same_v<Split, SplitK>)
          return Json::array({split.S, name(split.scheme)});
        else
          return Json::array({split.S, split.scheme});
      },
      splitk);
}

Json described(const Preset& preset) {
  return {{"name", preset.name},
          {"nfma", preset.nfma},
          {"frac", preset.frac},
          {"frac_out", preset.frac_out},
          {"min_exp", preset.min_exp},
          {"late_c", preset.late_c},
          {"slow_chunk", or_null(preset.slow_chunk)},
          {"maturity", preset.maturity},
          {"validated_scope", preset.validated_scope},
          {"evidence", preset.evidence}};
}

Json described(const Profile& profile) {
  Json rejects = Json::array();
  for (const Rejection& r : profile.rejects)
    rejects.push_back({{"a_format", r.a_format},
                       {"b_format", r.b_format},
                       {"out_dtype", r.out_dtype},
                       {"message", r.message}});
  Json capability;
  if (profile.capability) capability = Json::array({profile.capability->first, profile.capability->second});
  return {{"name", profile.name},
          {"preset", profile.preset.name},
          {"gpu_name", or_null(profile.gpu_name)},
          {"capability", std::move(capability)},
          {"sm_count", or_null(profile.sm_count)},
          {"cublaslt_version", or_null(profile.cublaslt_version)},
          {"caller", profile.caller},
          {"torch_version", or_null(profile.torch_version)},
          {"workspace_bytes", or_null(profile.workspace_bytes)},
          {"align", or_null(profile.align)},
          {"splitk_table", or_null(profile.splitk_table)},
          {"rejects", std::move(rejects)},
          {"maturity", profile.maturity},
          {"splitk_maturity", profile.splitk_maturity.value_or("none")}};
}

Json described(const BackendStatus& status) {
  return {{"name", status.name},
          {"available", status.available},
          {"source", status.source.empty() ? Json(nullptr) : Json(status.source)},
          {"validated_here", status.validated_here},
          {"gates", status.gates},
          {"reason", status.reason}};
}

Json described(const std::optional<SplitDecision>& split) {
  if (!split) return nullptr;
  return {{"S", split->S},
          {"scheme", name(split->scheme)},
          {"source", split->source},
          {"verified", split->verified},
          {"table_id", or_null(split->table_id)},
          {"note", split->note}};
}

Json described(const CallPlan& plan, const std::optional<Profile>& profile) {
  Json value{{"validation", "ok"},
             {"profile", profile ? profile->name : ""},
             {"preset", profile ? profile->preset.name : ""},
             {"preset_maturity", profile ? profile->preset.maturity : ""},
             {"split", nullptr},
             {"backend", ""},
             {"fallbacks", Json::array()},
             {"warnings", Json::array()}};
  if (plan.error) {
    value["validation"] = Json::array({class_name(plan.error->kind), plan.error->message});
    return value;
  }
  value["split"] = described(plan.split);
  value["backend"] = plan.backend;
  value["fallbacks"] = plan.fallbacks;
  for (const Warning& w : plan.warnings) value["warnings"].push_back(w.message);
  return value;
}

template <class T>
Result<std::string> text_of(const T& value) try {
  return text(described(value));
} catch (...) {
  return out_of_memory();
}

// N of "cuda:N".
std::optional<int> cuda_index(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  device.remove_prefix(kPrefix.size());
  int index = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), index);
  if (error != std::errc{} || end != device.data() + device.size() || index < 0) return std::nullopt;
  return index;
}

CallPlan failed(Error error) {
  CallPlan plan;
  plan.error = std::move(error);
  return plan;
}

}  // namespace

std::string_view version() {
  return MMAEMU_VERSION;
}

std::string dtype_named(std::string_view name) {
  if (name == "bf16") return "bfloat16";
  if (name == "fp16") return "float16";
  if (name == "fp32") return "float32";
  const std::optional<FormatId> id = find_format(name);
  return std::string(id ? format(*id).dtype : name);
}

Explanation explain(const ExplainRequest& request) try {
  Explanation explanation{.device = request.device, .unavailable = {}, .profile = {}, .plan = {}};
  if (explanation.device == "auto") explanation.device = cuda_device_name() ? "cuda:0" : "cpu";
  if (explanation.device != "cpu") {
    const std::optional<int> index = cuda_index(explanation.device);
    if (!index || !cuda_device_name(index)) {
      explanation.unavailable = "explain is unavailable on " + explanation.device +
                                ": there is no usable CUDA device of that index; try --device cpu";
      return explanation;
    }
  }
  Result<Profile> profile = find_profile_or_default(request.profile);
  if (!profile.ok()) {
    explanation.plan = failed(profile.error());
    return explanation;
  }
  explanation.profile = std::move(profile).value();
  const auto operand = [&](const std::string& format_name, std::vector<std::int64_t> shape,
                           std::vector<std::int64_t> strides) {
    return TensorDesc{.dtype = dtype_named(format_name),
                      .shape = std::move(shape),
                      .strides = std::move(strides),
                      .offset = 0,
                      .device = explanation.device};
  };
  const TensorDesc scalar{.dtype = "float32", .shape = {}, .strides = {}, .device = explanation.device};
  ScaledMmCall call{.input = operand(request.a, {request.M, request.K}, {request.K, 1}),
                    .mat2 = operand(request.b, {request.K, request.N}, {1, request.K}),
                    .scale_a = scalar,
                    .scale_b = scalar,
                    .bias = {},
                    .scale_result = {},
                    .out_dtype = {},
                    .use_fast_accum = request.fast,
                    .out = {},
                    .profile = *explanation.profile,
                    .splitk = request.splitk,
                    .backend = request.backend};
  if (request.scale_result) call.scale_result = scalar;
  if (request.out) call.out_dtype = dtype_named(*request.out);
  explanation.plan = plan_scaled_mm(call);
  return explanation;
} catch (...) {
  return {.device = {}, .unavailable = {}, .profile = {}, .plan = failed(out_of_memory())};
}

Result<std::string> to_json(const ExplainRequest& request, const Explanation& explanation) try {
  if (explanation.unavailable) return text(Json{{"error", *explanation.unavailable}});
  const Json call{{"M", request.M},
                  {"N", request.N},
                  {"K", request.K},
                  {"a", request.a},
                  {"b", request.b},
                  {"out", or_null(request.out)},
                  {"fast", request.fast},
                  {"scale_a", number(request.scale_a)},
                  {"scale_b", number(request.scale_b)},
                  {"scale_result", request.scale_result ? number(*request.scale_result) : Json(nullptr)},
                  {"splitk", written(request.splitk)},
                  {"backend", request.backend},
                  {"profile", explanation.profile ? explanation.profile->name : ""},
                  {"device", explanation.device}};
  return text(Json{{"call", call}, {"plan", described(explanation.plan, explanation.profile)}});
} catch (...) {
  return out_of_memory();
}

Result<std::string> to_json(const Profile& profile) {
  return text_of(profile);
}

Result<std::string> to_json(const Preset& preset) {
  return text_of(preset);
}

Result<std::string> to_json(const SplitDecision& split) {
  return text_of(std::optional(split));
}

Result<std::string> info_json(std::optional<int> device) try {
  const Result<Profile> standard = find_profile("");
  if (!standard.ok()) return standard.error();
  const std::optional<std::string> gpu = cuda_device_name(device);
  const std::string name = !device && !gpu ? "cpu" : "cuda:" + std::to_string(device.value_or(0));
  utsname machine{};
  uname(&machine);
  Json profiles = Json::array();
  Json matching = Json::array();
  for (const Profile& profile : shipped_profiles()) {
    profiles.push_back(described(profile));
    if (matches_device(profile, device)) matching.push_back(profile.name);
  }
  Json presets = Json::array();
  for (const Preset& preset : shipped_presets()) presets.push_back(described(preset));
  Json backends = Json::array();
  for (const BackendStatus& status : backends_status(name)) backends.push_back(described(status));
  Json environment = Json::object();
  for (const auto& [variable, value] : environment_settings()) environment[variable] = value;
  return text(Json{{"mmaemu", version()},
                   {"python", nullptr},
                   {"torch", nullptr},
                   {"numpy", nullptr},
                   {"machine", std::string(machine.machine)},
                   {"processors", available_threads()},
                   {"cpu_targets", cpu_targets()},
                   {"device", name},
                   {"gpu", or_null(gpu)},
                   {"default_profile", standard.value().name},
                   {"profiles", std::move(profiles)},
                   {"presets", std::move(presets)},
                   {"matching_profiles", std::move(matching)},
                   {"backends", std::move(backends)},
                   {"environment", std::move(environment)}});
} catch (...) {
  return out_of_memory();
}

}  // namespace mmaemu
