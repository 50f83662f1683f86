// Parses the JSON side of tests/data/golden.
#include "golden.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace mmaemu::testing::golden {

namespace {

using Json = nlohmann::json;

std::ifstream open_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + ": cannot be opened");
  return file;
}

// Calls `use` with every line of a .jsonl file.
template <class Use>
void for_each_line(const std::filesystem::path& path, Use use) {
  std::ifstream file = open_text(path);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    try {
      use(Json::parse(line));
    } catch (const std::exception& error) {
      throw std::runtime_error(path.string() + ":" + std::to_string(number) + ": " + error.what());
    }
  }
}

// The field, unless it is absent or null.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

FormatId operand_format(const Json& name) {
  const std::optional<FormatId> id = find_format(name.get<std::string>());
  if (!id) throw std::runtime_error("unknown format " + name.dump());
  return *id;
}

Preset named_preset(const std::string& name) {
  const Result<Preset> preset = find_preset(name);
  if (!preset.ok()) throw std::runtime_error(preset.error().message);
  return preset.value();
}

Preset preset_of(const Json& json) {
  if (json.is_string()) return named_preset(json.get<std::string>());
  Preset preset;
  preset.name = json.at("name");
  preset.nfma = json.at("nfma");
  preset.frac = json.at("frac");
  preset.frac_out = json.at("frac_out");
  preset.min_exp = json.at("min_exp");
  preset.late_c = json.at("late_c");
  preset.slow_chunk.reset();
  if (const Json* chunk = find(json, "slow_chunk")) preset.slow_chunk = chunk->get<std::int64_t>();
  return preset;
}

// [S, scheme]; unsplit calls were made with splitk=1.
SplitRequest split_of(const Json& json) {
  const std::optional<SplitScheme> scheme = find_scheme(json.at(1).get<std::string>());
  if (!scheme) throw std::runtime_error("unknown split scheme " + json.dump());
  const auto S = json.at(0).get<std::int64_t>();
  if (S == 1) return S;
  return SplitK{S, *scheme};
}

float float_of_bits(const Json& json) {
  return std::bit_cast<float>(json.get<std::uint32_t>());
}

// A JSON number, or one of Python's spellings "nan", "inf", "-inf".
float number_of(const Json& json) {
  if (!json.is_string()) return static_cast<float>(json.get<double>());
  const std::string text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<float>::infinity();
  if (text == "-inf") return -std::numeric_limits<float>::infinity();
  throw std::runtime_error("unknown number " + text);
}

// [archive, key] of the recordings.
ArrayRef recorded_array(const Json& json) {
  return {"rtx4060/" + json.at(0).get<std::string>(), json.at(1).get<std::string>()};
}

Expected expected_of(const Json& json) {
  Expected expected;
  if (json.contains("error")) {
    expected.error = json.at("error");
    return expected;
  }
  expected.bits = recorded_array(json.at("bits"));
  expected.shape = json.at("shape").get<std::vector<std::int64_t>>();
  return expected;
}

bool not_passed(const Json& call, const char* argument) {
  const Json* passed = find(call, argument);
  return passed != nullptr && *passed == false;
}

// An output of a case of kind "gemm".
Call gemm_call(const Json& gemm, const Json& json) {
  Call call;
  call.name = json.at("name");
  if (json.at("api") == "accumulate") call.api = Api::accumulate_then_epilogue;
  const Json* select = find(json, "out_select");
  call.diagonal = select != nullptr && *select == "diagonal";
  if (const Json* shape = find(json, "call_shape"); shape != nullptr && json.value("zero_operands", false))
    call.zero_operands = shape->get<std::vector<std::int64_t>>();
  call.input.dtype = format(operand_format(gemm.at("fmt_a"))).dtype;
  call.mat2.dtype = format(operand_format(gemm.at("fmt_b"))).dtype;
  if (const Json* scaling = find(json, "scaling"); scaling != nullptr && *scaling == "rowwise") {
    const std::vector<std::int64_t>& shape = call.zero_operands.value();
    call.scale_a.shape = {shape[0], 1};
    call.scale_b.shape = {1, shape[1]};
  } else {
    call.scale_a.value = float_of_bits(json.at("scale_a_bits"));
    call.scale_b.value = float_of_bits(json.at("scale_b_bits"));
  }
  if (const Json* bits = find(json, "scale_result_bits")) {
    call.scale_result.emplace();
    call.scale_result->value = float_of_bits(*bits);
  }
  call.splitk = split_of(json.at("splitk"));
  const Json how = json.value("call", Json::object());
  const std::string out_dtype = json.at("out_dtype");
  if (!not_passed(how, "out_dtype")) call.out_dtype = out_dtype;
  call.fast = !not_passed(how, "use_fast_accum") && json.at("fast").get<bool>();
  // The bias has N elements; -1 stands for that.
  if (how.contains("bias")) call.bias = BiasSpec{json.value("bias_dtype", "bfloat16"), -1};
  call.positional_bias = how.value("bias", "") == "positional";
  if (how.contains("out_fill")) call.out = OutSpec{out_dtype, {}, true};
  call.requires_grad = how.value("requires_grad", std::vector<std::string>{});
  call.expected = expected_of(json.at("expect"));
  return call;
}

OperandSpec operand_spec(const Json& json) {
  return {json.at("dtype"), json.at("layout") == "std", json.at("ld_pad"), json.at("offset")};
}

ScaleSpec scale_spec(const Json& json) {
  ScaleSpec scale;
  scale.dtype = json.at("dtype");
  scale.shape = json.at("shape").get<std::vector<std::int64_t>>();
  scale.rowwise = json.at("value") == "rowwise";
  if (!scale.rowwise) scale.value = number_of(json.at("value"));
  return scale;
}

// An output of a case of kind "call".
Call exact_call(const Json& how, const Json& json) {
  Call call;
  call.name = json.at("name");
  call.input = operand_spec(how.at("mat1"));
  call.mat2 = operand_spec(how.at("mat2"));
  call.scale_a = scale_spec(how.at("scale_a"));
  call.scale_b = scale_spec(how.at("scale_b"));
  if (const Json* scale = find(how, "scale_result")) call.scale_result = scale_spec(*scale);
  if (const Json* bias = find(how, "bias")) call.bias = BiasSpec{bias->at("dtype"), bias->at("len")};
  call.positional_bias = how.at("positional_bias");
  if (const Json* out = find(how, "out"))
    call.out =
        OutSpec{out->at("dtype"), out->at("shape").get<std::vector<std::int64_t>>(), out->at("contiguous")};
  if (const Json* dtype = find(json, "out_dtype")) call.out_dtype = dtype->get<std::string>();
  call.fast = json.at("fast");
  call.splitk = split_of(json.at("splitk"));
  if (const Json* grad = find(how, "grad")) {
    call.grad_mode = grad->at("mode") != "no_grad";
    for (const Json& name : grad->at("requires_grad"))
      call.requires_grad.push_back(name == "mat1" ? "input" : name.get<std::string>());
  }
  call.expected = expected_of(json.at("expect"));
  return call;
}

}  // namespace

std::filesystem::path directory() {
  return MMAEMU_GOLDEN_DIR;
}

const NpzArray& Archives::array(const ArrayRef& ref) {
  auto found = open_.find(ref.archive);
  if (found == open_.end())
    found = open_.emplace(ref.archive, Npz::open(directory() / (ref.archive + ".npz"))).first;
  return found->second.array(ref.key);
}

Rtx4060 load_rtx4060() {
  Rtx4060 loaded;
  for_each_line(directory() / "rtx4060" / "cases.jsonl", [&](const Json& json) {
    const std::string kind = json.at("kind");
    if (kind == "mma") {
      DotCase dot;
      dot.id = json.at("id");
      dot.preset = preset_of(json.at("preset"));
      dot.a_format = operand_format(json.at("fmt_a"));
      dot.b_format = operand_format(json.at("fmt_b"));
      dot.tile = json.at("layout") == "tile";
      dot.a = recorded_array(json.at("a"));
      dot.b = recorded_array(json.at("b"));
      dot.c = recorded_array(json.at("c"));
      dot.d = recorded_array(json.at("d"));
      loaded.dots.push_back(std::move(dot));
      return;
    }
    CallCase calls;
    calls.id = json.at("id");
    calls.profile = "ada";
    if (json.contains("a")) calls.a = recorded_array(json.at("a"));
    if (json.contains("b")) calls.b = recorded_array(json.at("b"));
    for (const Json& output : json.at("outputs")) {
      if (kind == "gemm") {
        calls.calls.push_back(gemm_call(json, output));
      } else {
        const Json* own = find(output, "call");
        calls.calls.push_back(exact_call(own != nullptr ? *own : json.at("call"), output));
      }
    }
    loaded.calls.push_back(std::move(calls));
  });
  return loaded;
}

std::vector<CallCase> load_oracle() {
  std::vector<CallCase> loaded;
  const auto array = [](const Json& key) { return ArrayRef{"oracle/arrays", key.get<std::string>()}; };
  for_each_line(directory() / "oracle" / "cases.jsonl", [&](const Json& json) {
    Call call;
    call.name = "y";
    call.input.dtype = format(operand_format(json.at("fmt_a"))).dtype;
    call.mat2.dtype = format(operand_format(json.at("fmt_b"))).dtype;
    call.scale_a.value = float_of_bits(json.at("scale_a_bits"));
    call.scale_b.value = float_of_bits(json.at("scale_b_bits"));
    if (const Json* bits = find(json, "scale_result_bits")) {
      call.scale_result.emplace();
      call.scale_result->value = float_of_bits(*bits);
    }
    call.out_dtype = json.at("out_dtype").get<std::string>();
    call.fast = json.at("fast");
    call.splitk = split_of(json.at("splitk"));
    call.expected.bits = array(json.at("y"));
    Call accumulator = call;
    accumulator.name = "acc";
    accumulator.api = Api::accumulate;
    accumulator.out_dtype = "float32";
    accumulator.expected.bits = array(json.at("acc"));
    CallCase recorded;
    recorded.id = json.at("id");
    recorded.profile = json.at("profile");
    recorded.a = array(json.at("a"));
    recorded.b = array(json.at("b"));
    recorded.calls = {std::move(call), std::move(accumulator)};
    loaded.push_back(std::move(recorded));
  });
  return loaded;
}

std::vector<CallCase> load_auto() {
  std::vector<CallCase> loaded;
  for_each_line(directory() / "oracle" / "auto.jsonl", [&](const Json& json) {
    Call call;
    call.name = "y";
    call.input.dtype = format(operand_format(json.at("fmt_a"))).dtype;
    call.mat2.dtype = format(operand_format(json.at("fmt_b"))).dtype;
    call.scale_a.value = 0x1p-9F;  // the same for every line
    call.scale_b.value = 0.75F;
    call.out_dtype = json.at("out_dtype").get<std::string>();
    call.fast = json.at("fast");
    call.splitk = SplitAuto{};
    call.expected.sha256 = json.at("sha256");
    call.expected.resolved = json.at("S").get<std::int64_t>();
    CallCase recorded;
    recorded.id = std::to_string(loaded.size());
    recorded.profile = json.at("profile");
    recorded.seeded = SeededOperands{json.at("seed"), json.at("M"), json.at("N"), json.at("K")};
    recorded.calls = {std::move(call)};
    loaded.push_back(std::move(recorded));
  });
  return loaded;
}

std::vector<DotCase> load_dots() {
  std::vector<DotCase> loaded;
  const auto array = [](const Json& key) { return ArrayRef{"oracle/dot_arrays", key.get<std::string>()}; };
  for_each_line(directory() / "oracle" / "dot.jsonl", [&](const Json& json) {
    DotCase dot;
    dot.id = json.at("id");
    dot.preset = preset_of(json.at("preset"));
    dot.a_format = operand_format(json.at("fmt_a"));
    dot.b_format = operand_format(json.at("fmt_b"));
    dot.a = array(json.at("a"));
    dot.b = array(json.at("b"));
    if (const Json* c = find(json, "c")) dot.c = array(*c);
    dot.d = array(json.at("d"));
    loaded.push_back(std::move(dot));
  });
  return loaded;
}

std::vector<ToolboxSet> load_toolbox() {
  const std::filesystem::path path = directory() / "toolbox" / "sets.json";
  std::ifstream file = open_text(path);
  std::vector<ToolboxSet> loaded;
  const auto array = [](const Json& key) { return ArrayRef{"toolbox/vectors", key.get<std::string>()}; };
  for (const Json& json : Json::parse(file)) {
    const std::string gpu = json.at("gpu");
    ToolboxSet set;
    set.id = gpu + "_" + json.at("fmt").get<std::string>();
    set.zero_c = gpu == "H100" || gpu == "H200";
    set.preset = named_preset(set.zero_c ? "hopper" : gpu == "B200" ? "b200_mma_sync" : "ada");
    set.format = operand_format(json.at("fmt"));
    set.a = array(json.at("a"));
    set.b = array(json.at("b"));
    set.c = array(json.at("c"));
    set.d = array(json.at("d"));
    loaded.push_back(std::move(set));
  }
  return loaded;
}

}  // namespace mmaemu::testing::golden
