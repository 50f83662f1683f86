// cuBLASLt through dlopen: whether a device is a profile's, and what its heuristic chooses. Types and
// constants are the C ABI of cublasLt.h (12.x), declared here so that building does not need it.
#include "platform/live_query.h"

#include <array>
#include <charconv>
#include <climits>
#include <dlfcn.h>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/driver.h"
#include "platform/environment.h"
#include "platform/files.h"

namespace mmaemu {
namespace {

constexpr int kMultiprocessorCount = 16;  // cuda.h: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

// ---- library_types.h, cublas_api.h, cublasLt.h
using LtStatus = int;  // cublasStatus_t, 0: success
using Opaque = void*;  // cublasLtHandle_t and descriptors
enum DataType : int { kR32F = 0, kR16F = 2, kR16BF = 14, kR8FE4M3 = 28, kR8FE5M2 = 29 };
constexpr int kCompute32F = 68;
constexpr std::int32_t kOpN = 0;
constexpr std::int32_t kOpT = 1;
enum DescAttribute : int {
  kTransA = 3,
  kTransB = 4,
  kAScalePointer = 17,
  kBScalePointer = 18,
  kFastAccum = 25
};
enum PreferenceAttribute : int { kMaxWorkspaceBytes = 1, kMinAlignmentA = 5, kMinAlignmentD = 8 };
enum AlgoAttribute : int { kAlgoId = 0, kTileId = 1, kSplitKNum = 2, kCustomOption = 5 };

struct Algo {
  std::uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  std::size_t workspace_size;
  LtStatus state;
  float waves;
  int reserved[4];
};

DataType data_type(std::string_view dtype) {
  static const std::map<std::string_view, DataType> types{
      {"e4m3", kR8FE4M3}, {"e5m2", kR8FE5M2},   {"float8_e4m3fn", kR8FE4M3}, {"float8_e5m2", kR8FE5M2},
      {"float16", kR16F}, {"bfloat16", kR16BF}, {"float32", kR32F}};
  return types.at(dtype);
}

// A symbol of a library. Sets `complete` to false where it is missing.
template <class Function>
void find_symbol(void* library, const char* name, Function*& function, bool& complete) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  complete = complete && function != nullptr;
}

struct CublasLt {
  LtStatus (*create)(Opaque*) = nullptr;
  LtStatus (*destroy)(Opaque) = nullptr;
  LtStatus (*get_property)(int, int*) = nullptr;
  LtStatus (*desc_create)(Opaque*, int, int) = nullptr;
  LtStatus (*desc_destroy)(Opaque) = nullptr;
  LtStatus (*desc_set)(Opaque, int, const void*, std::size_t) = nullptr;
  LtStatus (*layout_create)(Opaque*, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  LtStatus (*layout_destroy)(Opaque) = nullptr;
  LtStatus (*preference_create)(Opaque*) = nullptr;
  LtStatus (*preference_destroy)(Opaque) = nullptr;
  LtStatus (*preference_set)(Opaque, int, const void*, std::size_t) = nullptr;
  // The results are an array of HeuristicResult.
  LtStatus (*get_heuristic)(Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, int, void*,
                            int*) = nullptr;
  LtStatus (*config_get)(const void*, int, void*, std::size_t, std::size_t*) = nullptr;
};

// The parts of "12.8.3.14"; empty for anything that is not numbers and dots.
std::vector<int> version_parts(std::string_view text) {
  std::vector<int> parts;
  while (true) {
    int part = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), part);
    if (error != std::errc()) return {};
    parts.push_back(part);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return parts;
    if (text.front() != '.') return {};
    text.remove_prefix(1);
  }
}

// The cuBLASLt of the given major version. Not kept when missing: a later import may bring it in.
std::optional<CublasLt> load_cublaslt(int major) {
  const std::string name = "libcublasLt.so." + std::to_string(major);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  CublasLt lt;
  bool complete = true;
  find_symbol(library, "cublasLtCreate", lt.create, complete);
  find_symbol(library, "cublasLtDestroy", lt.destroy, complete);
  find_symbol(library, "cublasLtGetProperty", lt.get_property, complete);
  find_symbol(library, "cublasLtMatmulDescCreate", lt.desc_create, complete);
  find_symbol(library, "cublasLtMatmulDescDestroy", lt.desc_destroy, complete);
  find_symbol(library, "cublasLtMatmulDescSetAttribute", lt.desc_set, complete);
  find_symbol(library, "cublasLtMatrixLayoutCreate", lt.layout_create, complete);
  find_symbol(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy, complete);
  find_symbol(library, "cublasLtMatmulPreferenceCreate", lt.preference_create, complete);
  find_symbol(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy, complete);
  find_symbol(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set, complete);
  find_symbol(library, "cublasLtMatmulAlgoGetHeuristic", lt.get_heuristic, complete);
  find_symbol(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.config_get, complete);
  if (!complete) return std::nullopt;
  return lt;
}

// The library reports major.minor.patch; the build stands only in the name of its file, where it is installed
// under the full one (libcublasLt.so.12.8.3.14).
std::vector<int> loaded_version(const CublasLt& lt) {
  std::vector<int> version(3);
  for (int part = 0; part < 3; ++part)
    if (lt.get_property(part, &version[static_cast<std::size_t>(part)]) != 0) return {};
  const std::string file = file_of(reinterpret_cast<const void*>(lt.create));
  const std::size_t suffix = file.rfind(".so.");
  if (suffix == std::string::npos) return version;
  const std::vector<int> named = version_parts(std::string_view(file).substr(suffix + 4));
  if (named.size() == 4 && std::equal(version.begin(), version.end(), named.begin())) return named;
  return version;
}

std::string version_text(const std::vector<int>& version) {
  std::string text;
  for (const int part : version) {
    if (!text.empty()) text += '.';
    text += std::to_string(part);
  }
  return text;
}

// A device that is the profile's, with its cuBLASLt, or why it is not.
struct Match {
  std::optional<CublasLt> lt;
  CudaDevice device = 0;
  std::string reason;
};

Match match(const Profile& profile, std::optional<int> ordinal) {
  const auto no = [](std::string reason) { return Match{std::nullopt, 0, std::move(reason)}; };
  if (!profile.gpu_name || !profile.sm_count || !profile.cublaslt_version)
    return no("the profile has no device to compare with");
  const std::vector<int> wanted = version_parts(*profile.cublaslt_version);
  if (wanted.size() < 3) return no("the profile's cuBLASLt version is not major.minor.patch");
  const Driver& cuda = cuda_driver();
  if (!cuda.usable) return no("there is no usable CUDA driver to ask its cuBLASLt");
  const std::optional<CudaDevice> device = find_cuda_device(cuda, ordinal);
  if (!device) return no("there is no such CUDA device");
  std::array<char, 256> gpu{};
  int multiprocessors = 0;
  if (cuda.device_get_name(gpu.data(), static_cast<int>(gpu.size()) - 1, *device) != 0 ||
      cuda.device_get_attribute(&multiprocessors, kMultiprocessorCount, *device) != 0)
    return no("the CUDA device does not tell its name and size");
  if (*profile.gpu_name != gpu.data() || *profile.sm_count != multiprocessors) {
    return no("the CUDA device is a " + std::string(gpu.data()) + " with " + std::to_string(multiprocessors) +
              " SMs, not the profile's");
  }
  std::optional<CublasLt> lt = load_cublaslt(wanted.front());
  if (!lt) return no("libcublasLt.so." + std::to_string(wanted.front()) + " cannot be loaded");
  const std::vector<int> found = loaded_version(*lt);
  if (found.size() < 3) return no("cuBLASLt does not tell its version");
  const std::size_t compared = std::min(found.size(), wanted.size());
  if (!std::equal(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(compared), found.begin()))
    return no("the loaded cuBLASLt is " + version_text(found) + ", not the profile's");
  return {std::move(lt), *device, ""};
}

// A cuBLASLt object that is destroyed with its function.
class Owned {
 public:
  Owned(Opaque object, LtStatus (*destroy)(Opaque)) : object_(object), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (object_ != nullptr) destroy_(object_);
  }
  Opaque get() const { return object_; }

 private:
  Opaque object_;
  LtStatus (*destroy_)(Opaque);
};

// One heuristic query. The first call that fails makes the rest void, and status() is what it returned.
class Heuristic {
 public:
  explicit Heuristic(const CublasLt& lt) : lt_(lt) {}

  // Column major: m = N, n = M, k = K. A is mat2 transposed, B is mat1, both with K as leading dimension.
  LiveAnswer choose(const SplitQuery& query, const Profile& profile) {
    const auto M = static_cast<std::uint64_t>(query.M);
    const auto N = static_cast<std::uint64_t>(query.N);
    const auto K = static_cast<std::uint64_t>(query.K);
    const Owned handle = make(lt_.destroy, lt_.create);
    const Owned desc = make(lt_.desc_destroy, lt_.desc_create, kCompute32F, static_cast<int>(kR32F));
    // The heuristic looks at whether the pointers are set and never reads through them.
    static const float scale = 1;
    const void* const scale_pointer = &scale;
    set(lt_.desc_set, desc, kTransA, kOpT);
    set(lt_.desc_set, desc, kTransB, kOpN);
    set(lt_.desc_set, desc, kAScalePointer, scale_pointer);
    set(lt_.desc_set, desc, kBScalePointer, scale_pointer);
    set(lt_.desc_set, desc, kFastAccum, static_cast<std::int8_t>(query.fast ? 1 : 0));
    const DataType out = data_type(query.out_dtype);
    const bool fp8_out = out == kR8FE4M3 || out == kR8FE5M2;
    const Owned a = layout(data_type(query.b_format), K, N);
    const Owned b = layout(data_type(query.a_format), K, M);
    const Owned c = layout(fp8_out ? kR16F : out, N, M);
    const Owned d = layout(out, N, M);
    const Owned preference = make(lt_.preference_destroy, lt_.preference_create);
    set(lt_.preference_set, preference, kMaxWorkspaceBytes,
        static_cast<std::uint64_t>(profile.workspace_bytes.value_or(0)));
    if (profile.align) {
      for (int operand = kMinAlignmentA; operand <= kMinAlignmentD; ++operand)
        set(lt_.preference_set, preference, operand, static_cast<std::uint32_t>(*profile.align));
    }
    HeuristicResult result{};
    int returned = 0;
    call(lt_.get_heuristic, handle.get(), desc.get(), a.get(), b.get(), c.get(), d.get(), preference.get(), 1,
         static_cast<void*>(&result), &returned);
    if (status_ != 0)
      return {std::nullopt, "cuBLASLt's heuristic fails with status " + std::to_string(status_)};
    if (returned < 1 || result.state != 0) return {std::nullopt, "cuBLASLt has no algorithm for it"};
    return read(result.algo);
  }

 private:
  template <class... Parameters, class... Arguments>
  void call(LtStatus (*function)(Parameters...), Arguments... arguments) {
    if (status_ == 0) status_ = function(arguments...);
  }

  template <class... Parameters, class... Arguments>
  Owned make(LtStatus (*destroy)(Opaque), LtStatus (*create)(Opaque*, Parameters...),
             Arguments... arguments) {
    Opaque object = nullptr;
    call(create, &object, arguments...);
    return {object, destroy};
  }

  Owned layout(DataType type, std::uint64_t rows, std::uint64_t columns) {
    return make(lt_.layout_destroy, lt_.layout_create, static_cast<int>(type), rows, columns,
                static_cast<std::int64_t>(rows));
  }

  template <class T>
  void set(LtStatus (*setter)(Opaque, int, const void*, std::size_t), const Owned& object, int attribute,
           const T& value) {
    call(setter, object.get(), attribute, static_cast<const void*>(&value), sizeof(value));
  }

  std::uint32_t config(const Algo& algo, AlgoAttribute attribute) {
    std::uint32_t value = 0;
    std::size_t written = 0;
    call(lt_.config_get, static_cast<const void*>(&algo), static_cast<int>(attribute),
         static_cast<void*>(&value), sizeof(value), &written);
    return value;
  }

  LiveAnswer read(const Algo& algo) {
    AlgoChoice choice;
    choice.algo = config(algo, kAlgoId);
    choice.tile = config(algo, kTileId);
    choice.splits = config(algo, kSplitKNum);
    choice.custom = config(algo, kCustomOption);
    if (status_ != 0)
      return {std::nullopt, "cuBLASLt does not describe its algorithm: status " + std::to_string(status_)};
    if (choice.splits > INT_MAX) return {std::nullopt, "cuBLASLt reports a negative numSplitsK"};
    if (choice.splits == 0) choice.splits = 1;  // 0 and 1 both run unsplit
    return {choice, ""};
  }

  const CublasLt& lt_;
  LtStatus status_ = 0;
};

class CublasLtQuery final : public LiveQuery {
 public:
  Result<LiveAnswer> ask(const SplitQuery& query, const Profile& profile) override {
    const Result<bool> disabled = environment_flag("MMAEMU_DISABLE_CUDA");
    if (!disabled.ok()) return disabled.error();
    if (disabled.value()) return LiveAnswer{std::nullopt, "MMAEMU_DISABLE_CUDA=1 rules out asking a GPU"};
    const Match matched = match(profile, std::nullopt);
    if (!matched.lt) return LiveAnswer{std::nullopt, matched.reason};
    return Heuristic(*matched.lt).choose(query, profile);
  }
};

}  // namespace

LiveQuery& cublaslt_query() {
  static CublasLtQuery query;
  return query;
}

std::optional<std::string> cuda_device_name(std::optional<int> device) {
  const Result<bool> disabled = environment_flag("MMAEMU_DISABLE_CUDA");
  if (!disabled.ok() || disabled.value()) return std::nullopt;
  const Driver& cuda = cuda_driver();
  if (!cuda.usable) return std::nullopt;
  const std::optional<CudaDevice> found = find_cuda_device(cuda, device);
  std::array<char, 256> gpu{};
  if (!found || cuda.device_get_name(gpu.data(), static_cast<int>(gpu.size()) - 1, *found) != 0)
    return std::nullopt;
  return std::string(gpu.data());
}

bool matches_device(const Profile& profile, std::optional<int> device) {
  const Result<bool> disabled = environment_flag("MMAEMU_DISABLE_CUDA");
  if (!disabled.ok() || disabled.value()) return false;
  return match(profile, device).lt.has_value();
}

}  // namespace mmaemu
