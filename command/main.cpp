// The command `mmaemu`: its options, what it prints, and its exit status. docs/command_line.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <unistd.h>
#include <variant>

#include "mmaemu/gemm.h"
#include "mmaemu/report.h"

#include "compare.h"
#include "files.h"
#include "product.h"

namespace mmaemu::command {
namespace {

using Json = nlohmann::ordered_json;

enum Exit : int {
  kOk = 0,
  kFailed = 1,   // a refused call, or a difference
  kUsage = 2,    // wrong options, or files that cannot be used
  kNothing = 4,  // nothing could be said
};

bool on_terminal(int file) {
  const char* const term = std::getenv("TERM");
  return isatty(file) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string paint(const std::string& text, const char* colour) {
  const char* const no_color = std::getenv("NO_COLOR");
  if (!on_terminal(STDOUT_FILENO) || (no_color != nullptr && *no_color != '\0')) return text;
  return std::string("\x1b[") + colour + "m" + text + "\x1b[0m";
}

constexpr const char* kGreen = "32";
constexpr const char* kRed = "31";

// Lines of a label and a text, in two columns.
class Table {
 public:
  void add(std::string label, std::string text) { rows_.emplace_back(std::move(label), std::move(text)); }
  std::string text() const {
    std::size_t width = 0;
    for (const auto& [label, text] : rows_) width = std::max(width, label.size());
    std::string all;
    for (const auto& [label, text] : rows_)
      all += label + std::string(width - label.size() + 2, ' ') + text + "\n";
    return all;
  }

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

// To people, and as JSON where that is asked for: on standard output instead.
void report(const std::string& json_path, const std::string& json, const std::string& text) {
  if (!json_path.empty()) write_text(json_path, json + "\n");
  if (json_path != "-") std::fputs(text.c_str(), stdout);
}

int refuse(const std::string& json_path, const Error& error) {
  const std::string text = std::string(class_name(error.kind)) + ": " + error.message;
  if (!json_path.empty())
    write_text(json_path, Json{{"error", {class_name(error.kind), error.message}}}.dump(2, ' ', true) + "\n");
  std::fprintf(stderr, "mmaemu: %s\n", text.c_str());
  return error.kind == ErrorKind::key_error ? kUsage : kFailed;
}

void warn(const std::vector<Warning>& warnings) {
  for (const Warning& w : warnings)
    std::fprintf(stderr, "%s: %s\n", std::string(class_name(w.kind)).c_str(), w.message.c_str());
}

// A bar on standard error; none where that is no terminal or the work is short.
Progress progress_bar(double products) {
  if (!on_terminal(STDERR_FILENO) || products < 2e10) return {};
  return [](double share) {
    const std::string bar(static_cast<std::size_t>(40 * share), '#');
    std::fprintf(stderr, "\r[%-40s] %3.0f%%", bar.c_str(), 100 * share);
    if (share >= 1) std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  };
}

SplitRequest parse_split(const std::string& text) {
  if (text == "auto") return SplitAuto{};
  std::int64_t S = 0;
  const char* const end = text.data() + text.size();
  const auto [next, problem] = std::from_chars(text.data(), end, S);
  if (problem == std::errc{} && next == end) return S;
  const std::string scheme = next == end ? "" : std::string(next + 1, end);
  if (problem != std::errc{} || *next != ',' || scheme.find(',') != std::string::npos)
    throw CLI::ValidationError("--splitk",
                               "'" + text + "' is not auto, 1, or S,contiguous, S,serial or S,pairwise");
  return SplitAsWritten{S, scheme};
}

FormatId parse_format(const std::string& option, const std::string& name) {
  if (const std::optional<FormatId> id = find_format(dtype_named(name))) return *id;
  throw CLI::ValidationError(option,
                             "'" + name + "' is not e4m3, e5m2, bf16, fp16 or fp32, nor torch's name of one");
}

std::optional<FormatId> parse_format(const std::string& option, const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return parse_format(option, *name);
}

std::string split_text(const std::optional<SplitDecision>& split) {
  if (!split) return "none";
  std::string text = "S = " + std::to_string(split->S);
  if (split->S > 1) text += ", " + std::string(name(split->scheme));
  text += " (from " + split->source + ", " + (split->verified ? "verified" : "not verified");
  return text + (split->note.empty() ? ")" : "; " + split->note + ")");
}

std::string rate_text(double products, double seconds) {
  char text[80];
  std::snprintf(text, sizeof text, "%.3g ms, %.3g GMAC/s", 1e3 * seconds, products / seconds / 1e9);
  return text;
}

std::string size_text(std::int64_t M, std::int64_t N, std::int64_t K) {
  return std::to_string(M) + " x " + std::to_string(N) + " x " + std::to_string(K);
}

double work(std::int64_t M, std::int64_t N, std::int64_t K) {
  return static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K);
}

// What gemm, compare and bench share.
struct ProductArguments {
  std::string splitk = "auto";
  std::string scale_a = "1";
  std::string scale_b = "1";
  std::optional<std::string> scale_result;
  std::optional<std::string> a_format;
  std::optional<std::string> b_format;
  ProductOptions options;

  void add_arithmetic(CLI::App& app) {
    app.add_flag("--fast", options.fast, "use_fast_accum=True");
    app.add_option("--profile", options.profile, "platform; default: $MMAEMU_PROFILE or hopper");
    app.add_option("--splitk", splitk, "auto, 1, or S,contiguous, S,serial, S,pairwise")
        ->capture_default_str();
    app.add_option("--threads", options.threads, "threads; 0: as many as the process may run on")
        ->check(CLI::Range(0, 4096))
        ->capture_default_str();
    app.add_option("--target", options.target, "CPU target; default: $MMAEMU_CPU_TARGET or the best");
  }
  void add_operands(CLI::App& app) {
    app.add_option("--a-format", a_format, "what the integers of a .npy file A are codes of: e4m3 or e5m2");
    app.add_option("--b-format", b_format, "likewise of B");
    app.add_option("--scale-a", scale_a, "a number, or a file with one float32")->capture_default_str();
    app.add_option("--scale-b", scale_b, "likewise")->capture_default_str();
    app.add_option("--scale-result", scale_result, "likewise; for FP8 results");
  }
  void parse() { options.splitk = parse_split(splitk); }

  // The product of two files, with its warnings said. out: none for the format of a.
  Result<Product> compute(const std::string& a_path, const std::string& b_path, std::optional<FormatId> out) {
    const Matrix a = read_matrix(a_path, parse_format("--a-format", a_format));
    const Matrix b = read_matrix(b_path, parse_format("--b-format", b_format));
    options.scale_a = read_scale(scale_a);
    options.scale_b = read_scale(scale_b);
    if (scale_result) options.scale_result = read_scale(*scale_result);
    const Progress bar = progress_bar(work(a.rows, b.rows, a.columns));
    Result<Product> product = multiply(a, b, out.value_or(a.format), options, bar);
    if (product.ok()) warn(product.value().plan.warnings);
    return product;
  }
};

Json product_json(const Product& product, const ProductArguments& arguments) {
  const CallPlan& plan = product.plan;
  Json warnings = Json::array();
  for (const Warning& w : plan.warnings) warnings.push_back(w.message);
  Json split;
  if (plan.split)
    split = {{"S", plan.split->S},
             {"scheme", name(plan.split->scheme)},
             {"source", plan.split->source},
             {"verified", plan.split->verified}};
  return {{"M", plan.M},
          {"N", plan.N},
          {"K", plan.K},
          {"profile", product.profile},
          {"out_dtype", plan.out_dtype},
          {"fast", arguments.options.fast},
          {"split", std::move(split)},
          {"warnings", std::move(warnings)},
          {"seconds", product.seconds}};
}

class Gemm {
 public:
  explicit Gemm(CLI::App& parent)
      : app(*parent.add_subcommand("gemm", "compute A B^T as a GPU does; A [M, K], B [N, K]")) {
    app.add_option("A", a_path, "a .npy file of uint8 codes, or FILE.safetensors[:NAME]")->required();
    app.add_option("B", b_path, "likewise: the N rows of the weight")->required();
    app.add_option("-o,--output", output, "result: a .npy or .safetensors file")->required();
    app.add_option("--out", out, "bf16, fp16, fp32, e4m3 or e5m2; default: the format of A");
    arguments.add_operands(app);
    arguments.add_arithmetic(app);
    app.add_option("--json", json, "also say what was done as JSON; - for standard output");
  }
  int run() {
    arguments.parse();
    const Result<Product> product = arguments.compute(a_path, b_path, parse_format("--out", out));
    if (!product.ok()) return refuse(json, product.error());
    const Product& done = product.value();
    const CallPlan& plan = done.plan;
    write_matrix(output, done.result);
    Table table;
    table.add("product", size_text(plan.M, plan.N, plan.K) + ", profile " + done.profile);
    table.add("split", split_text(plan.split));
    table.add("time", rate_text(work(plan.M, plan.N, plan.K), done.seconds));
    table.add("result", output + ", " + plan.out_dtype);
    report(json, product_json(done, arguments).dump(2, ' ', true), table.text());
    return kOk;
  }
  CLI::App& app;

 private:
  std::string a_path, b_path, output, json;
  std::optional<std::string> out;
  ProductArguments arguments;
};

class Compare {
 public:
  explicit Compare(CLI::App& parent)
      : app(*parent.add_subcommand("compare", "compare a result with another, or with a recomputation")) {
    app.add_option("RESULT", path, "a .npy or .safetensors file")->required();
    app.add_option("OTHER", other_path, "another result; else give --a and --b");
    app.add_option("--format", result_format,
                   "what the integers of .npy results are codes of: e4m3, e5m2, bf16");
    app.add_option("--a", a_path, "recompute: the operands, as of gemm");
    app.add_option("--b", b_path, "likewise");
    arguments.add_operands(app);
    arguments.add_arithmetic(app);
    app.add_option("--json", json, "also as JSON; - for standard output");
  }
  int run() {
    arguments.parse();
    const bool recompute = !a_path.empty() || !b_path.empty();
    if (recompute == !other_path.empty() || a_path.empty() != b_path.empty())
      throw CLI::ValidationError("compare", "give either OTHER, or both --a and --b");
    const auto codes_as = parse_format("--format", result_format);
    const Matrix result = read_matrix(path, codes_as);
    Matrix other;
    if (recompute) {
      Result<Product> product = arguments.compute(a_path, b_path, result.format);
      if (!product.ok()) return refuse(json, product.error());
      other = std::move(product).value().result;
    } else {
      other = read_matrix(other_path, codes_as);
    }
    if (result.format != other.format || result.rows != other.rows || result.columns != other.columns)
      throw FileError(path + " holds " + described(result) + ", " +
                      (recompute ? "the product is " : other_path + " ") + described(other));
    const Comparison found = compare(result, other);
    report(json, found.to_json().dump(2, ' ', true), found.text());
    return found.different() == 0 ? kOk : kFailed;
  }
  CLI::App& app;

 private:
  static std::string described(const Matrix& m) {
    return std::to_string(m.rows) + " x " + std::to_string(m.columns) + " " +
           std::string(format(m.format).dtype);
  }
  std::string path, other_path, a_path, b_path, json;
  std::optional<std::string> result_format;
  ProductArguments arguments;
};

class Explain {
 public:
  explicit Explain(CLI::App& parent)
      : app(*parent.add_subcommand("explain", "say what a call of scaled_mm would do")) {
    const CLI::Range size(std::int64_t{0}, std::numeric_limits<std::int64_t>::max());
    app.add_option("M", request.M, "rows of a")->required()->check(size);
    app.add_option("N", request.N, "rows of b")->required()->check(size);
    app.add_option("K", request.K, "products summed")->required()->check(size);
    const CLI::IsMember formats({"e4m3", "e5m2"});
    app.add_option("--a", request.a, "format of a")->check(formats)->capture_default_str();
    app.add_option("--b", request.b, "format of b")->check(formats)->capture_default_str();
    app.add_option("--out", request.out, "result type; default: the format of a")
        ->check(CLI::IsMember({"e4m3", "e5m2", "bf16", "fp16", "fp32", "float8_e4m3fn", "float8_e5m2",
                               "bfloat16", "float16", "float32"}));
    app.add_flag("--fast", request.fast, "use_fast_accum=True");
    app.add_option("--scale-a", request.scale_a);
    app.add_option("--scale-b", request.scale_b);
    app.add_option("--scale-result", request.scale_result);
    app.add_option("--profile", request.profile, "platform; default: $MMAEMU_PROFILE or hopper");
    app.add_option("--splitk", splitk, "auto, 1, or S,contiguous, S,serial, S,pairwise")
        ->capture_default_str();
    app.add_option("--backend", request.backend)->capture_default_str();
    app.add_option("--device", request.device, "auto, cpu, or cuda:N")->capture_default_str();
    app.add_option("--json", json, "also as JSON; - for standard output");
  }
  int run() {
    request.splitk = parse_split(splitk);
    if (request.device == "cuda") request.device = "cuda:0";
    const Explanation explanation = explain(request);
    const Result<std::string> text = to_json(request, explanation);
    if (!text.ok()) return refuse(json, text.error());
    if (explanation.unavailable) {
      report(json, text.value(), *explanation.unavailable + "\n");
      return kNothing;
    }
    report(json, text.value(), shown(explanation));
    return explanation.plan.error ? kFailed : kOk;
  }
  CLI::App& app;

 private:
  static std::string shown(const Explanation& explanation) {
    const CallPlan& plan = explanation.plan;
    Table table;
    if (plan.error)
      table.add("validation", paint("would raise ", kRed) + std::string(class_name(plan.error->kind)) + ": " +
                                  plan.error->message);
    else
      table.add("validation", paint("ok", kGreen));
    if (explanation.profile) {
      table.add("profile", explanation.profile->name);
      table.add("preset",
                explanation.profile->preset.name + " (" + explanation.profile->preset.maturity + ")");
    }
    if (plan.error) return table.text();
    if (plan.split) table.add("split", split_text(plan.split));
    table.add("backend", plan.backend);
    for (const std::string& fallback : plan.fallbacks) table.add("fallback", fallback);
    for (const Warning& w : plan.warnings) table.add("warning", w.message);
    return table.text();
  }
  ExplainRequest request;
  std::string splitk = "auto";
  std::string json;
};

class Info {
 public:
  explicit Info(CLI::App& parent)
      : app(*parent.add_subcommand("info", "platforms, presets, CPU targets and backends")) {
    app.add_option("--device", device, "a CUDA device's index")
        ->check(CLI::Range(0, std::numeric_limits<int>::max()));
    app.add_option("--json", json, "also as JSON; - for standard output");
  }
  int run() {
    const Result<std::string> text = info_json(device);
    if (!text.ok()) return refuse(json, text.error());
    const Json value = Json::parse(text.value());
    Table table;
    table.add("mmaemu", value["mmaemu"]);
    table.add("machine",
              value["machine"].get<std::string>() + ", " + value["processors"].dump() + " processors");
    table.add("cpu targets", joined(value["cpu_targets"], {}));
    const std::string on = value["device"];
    table.add("device",
              on + " (" +
                  (value["gpu"].is_null() ? "no usable CUDA device" : value["gpu"].get<std::string>()) + ")");
    table.add("profiles", joined(value["profiles"], value["default_profile"]));
    const std::string matching = joined(value["matching_profiles"], {});
    table.add("this GPU is", matching.empty() ? "none of the profiles' platforms" : matching);
    table.add("presets", joined(value["presets"], {}));
    for (const Json& backend : value["backends"]) {
      std::string reason = backend["reason"];
      const bool available = backend["available"];
      if (available && !backend["gates"].empty())
        reason = backend["source"].get<std::string>() + ", passed " + joined(backend["gates"], {}) +
                 (reason.empty() ? "" : "; " + reason);
      table.add(backend["name"], (available ? paint("available", kGreen) : "no") + ": " + reason);
    }
    for (const auto& [variable, setting] : value["environment"].items()) table.add(variable, setting);
    report(json, text.value(), table.text());
    return kOk;
  }
  CLI::App& app;

 private:
  static std::string joined(const Json& things, const std::string& standard) {
    std::string text;
    for (const Json& thing : things) {
      const std::string name = thing.is_object() ? thing["name"] : thing;
      text += (text.empty() ? "" : ", ") + name + (name == standard ? " (default)" : "");
    }
    return text;
  }
  std::optional<int> device;
  std::string json;
};

class Bench {
 public:
  explicit Bench(CLI::App& parent)
      : app(*parent.add_subcommand("bench", "time products of random operands")) {
    const CLI::Range size(std::int64_t{1}, std::int64_t{1} << 24);
    app.add_option("M", M)->required()->check(size);
    app.add_option("N", N)->required()->check(size);
    app.add_option("K", K)->required()->check(size);
    app.add_option("--a", a_format, "format of a")->capture_default_str();
    app.add_option("--b", b_format, "format of b")->capture_default_str();
    app.add_option("--out", out, "result type")->capture_default_str();
    app.add_option("--repeat", repeat, "runs, of which the best counts")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    arguments.splitk = "1";
    arguments.add_arithmetic(app);
    app.add_option("--json", json, "also as JSON; - for standard output");
  }
  int run() {
    arguments.parse();
    const Matrix a = random(parse_format("--a", a_format), M, 1);
    const Matrix b = random(parse_format("--b", b_format), N, 2);
    const FormatId format = parse_format("--out", out);
    double best = std::numeric_limits<double>::infinity();
    const Progress bar = progress_bar(work(M, N, K) * repeat);
    Json last;
    for (int i = 0; i < repeat; ++i) {
      const Result<Product> product = multiply(a, b, format, arguments.options, {});
      if (!product.ok()) return refuse(json, product.error());
      if (i == 0) warn(product.value().plan.warnings);
      best = std::min(best, product.value().seconds);
      last = product_json(product.value(), arguments);
      if (bar) bar((i + 1.0) / repeat);
    }
    const Result<std::string_view> target =
        cpu_target({.threads = 0, .cancelled = {}, .target = arguments.options.target});
    last["seconds"] = best;
    last["GMAC/s"] = work(M, N, K) / best / 1e9;
    last["runs"] = repeat;
    last["cpu_target"] = target.ok() ? target.value() : "";
    Table table;
    table.add("product", size_text(M, N, K) + ", profile " + last["profile"].get<std::string>());
    table.add("cpu target", last["cpu_target"]);
    table.add("best of " + std::to_string(repeat), rate_text(work(M, N, K), best));
    report(json, last.dump(2, ' ', true), table.text());
    return kOk;
  }
  CLI::App& app;

 private:
  Matrix random(FormatId id, std::int64_t rows, unsigned seed) const {
    std::mt19937 generator(seed);
    Matrix matrix{id, rows, K, std::vector<std::uint8_t>(static_cast<std::size_t>(rows * K))};
    const Format& f = format(id);
    for (std::uint8_t& code : matrix.bytes) do
        code = static_cast<std::uint8_t>(generator());
      while (decode(f, code).kind > NumberClass::finite);
    return matrix;
  }
  std::int64_t M = 0, N = 0, K = 0;
  std::string a_format = "e4m3", b_format = "e4m3", out = "bf16", json;
  int repeat = 5;
  ProductArguments arguments;
};

int run(int argc, char** argv) {
  CLI::App app("The exact bits of FP8 tensor-core matrix products.", "mmaemu");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  Gemm gemm(app);
  Compare compare(app);
  Explain explain(app);
  Info info(app);
  Bench bench(app);
  try {
    app.parse(argc, argv);
    if (gemm.app.parsed()) return gemm.run();
    if (compare.app.parsed()) return compare.run();
    if (explain.app.parsed()) return explain.run();
    if (info.app.parsed()) return info.run();
    return bench.run();
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? kOk : kUsage;
  } catch (const FileError& problem) {
    std::fprintf(stderr, "mmaemu: %s\n", problem.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fputs("mmaemu: out of memory\n", stderr);
    return kFailed;
  } catch (const std::length_error&) {  // a container beyond any memory
    std::fputs("mmaemu: out of memory\n", stderr);
    return kFailed;
  }
}

}  // namespace
}  // namespace mmaemu::command

int main(int argc, char** argv) {
  const int status = mmaemu::command::run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::perror("mmaemu: standard output");
  return mmaemu::command::kUsage;
}
