// The shipped profiles, as rows. What a profile's table says is in data/splitk; a preset's numbers are in
// preset.h.
#include <algorithm>
#include <array>

#include "mmaemu/platform.h"

#include "base/memory.h"
#include "platform/environment.h"

namespace mmaemu {
namespace {

constexpr std::string_view kDefaultProfile = "hopper";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// A machine whose answers were recorded.
struct Reference {
  std::string_view gpu_name;
  int sm_count;
  std::string_view cublaslt_version;
  std::string_view torch_version;
  std::string_view splitk_table;
};

constexpr Reference kRtx4060{"NVIDIA GeForce RTX 4060", 24, "12.8.3.14", "2.7.1+cu128",
                             "heur_rtx4060_lt12.8.3.14"};
constexpr Reference kH100Pcie{"NVIDIA H100 PCIe", 114, "12.8.3.14", "2.7.1+cu128",
                              "heur_h100pcie_lt12.8.3.14"};

struct Row {
  std::string_view name;
  std::string_view preset;
  const Reference* reference;  // null: no machine stands behind the profile
  std::pair<int, int> capability;
  std::optional<std::int64_t> workspace_bytes;
  std::optional<int> align;
  std::string_view caller;
  std::string_view maturity;
  std::optional<std::string_view> splitk_maturity;
};

constexpr std::string_view kTorch = "torch._scaled_mm";
constexpr std::string_view kTransformerEngine = "transformer_engine";

// clang-format off
constexpr std::array<Row, 8> kRows{{
    {"ada",         "ada",    &kRtx4060,  {8, 9}, 1 * kMiB,  std::nullopt, kTorch,             "validated", "validated"},
    {"ada-te",      "ada",    &kRtx4060,  {8, 9}, 4 * kMiB,  256,          kTransformerEngine, "validated", "experimental"},
    {"ada-ws0",     "ada",    &kRtx4060,  {8, 9}, 0,         std::nullopt, kTorch,             "validated", "validated"},
    {"hopper",      "hopper", &kH100Pcie, {9, 0}, 1 * kMiB,  std::nullopt, kTorch,             "validated", "validated"},
    {"hopper-te",   "hopper", &kH100Pcie, {9, 0}, 32 * kMiB, 256,          kTransformerEngine, "validated", "experimental"},
    {"hopper-ws0",  "hopper", &kH100Pcie, {9, 0}, 0,         std::nullopt, kTorch,             "validated", "validated"},
    {"hopper-experimental",        "hopper",        nullptr, {9, 0},  std::nullopt, std::nullopt, kTorch, "experimental", std::nullopt},
    {"b200-mma-sync-experimental", "b200_mma_sync", nullptr, {10, 0}, std::nullopt, std::nullopt, kTorch, "experimental", std::nullopt},
}};
// clang-format on

// Golden ids c3.gemm_fp8out/e4m3xe4m3/s0_e5m2_*. Mixed operands do run with this output.
Rejection e4m3_to_e5m2() {
  return {"e4m3", "e4m3", "float8_e5m2",
          "cuBLAS has no FP8 matrix product of e4m3 by e4m3 with a float8_e5m2 output"};
}

Profile make_profile(const Row& row) {
  Profile profile;
  profile.name = row.name;
  profile.preset = *std::ranges::find(shipped_presets(), row.preset, &Preset::name);
  profile.capability = row.capability;
  profile.caller = row.caller;
  profile.workspace_bytes = row.workspace_bytes;
  profile.align = row.align;
  profile.maturity = row.maturity;
  if (row.splitk_maturity) profile.splitk_maturity = std::string(*row.splitk_maturity);
  if (row.reference != nullptr) {
    profile.gpu_name = std::string(row.reference->gpu_name);
    profile.sm_count = row.reference->sm_count;
    profile.cublaslt_version = std::string(row.reference->cublaslt_version);
    profile.torch_version = std::string(row.reference->torch_version);
    profile.splitk_table = std::string(row.reference->splitk_table);
    profile.rejects.push_back(e4m3_to_e5m2());
  }
  return profile;
}

}  // namespace

const std::vector<Profile>& shipped_profiles() {
  static const std::vector<Profile> profiles = [] {
    std::vector<Profile> made;
    for (const Row& row : kRows) made.push_back(make_profile(row));
    return made;
  }();
  return profiles;
}

Result<Profile> find_profile(std::string_view name) try {
  const std::string from_environment = name.empty() ? environment_text("MMAEMU_PROFILE") : std::string();
  const std::string_view wanted = !name.empty()              ? name
                                  : from_environment.empty() ? kDefaultProfile
                                                             : std::string_view(from_environment);
  std::string known;
  for (const Profile& profile : shipped_profiles()) {
    if (profile.name == wanted) return profile;
    known += (known.empty() ? "" : ", ") + profile.name;
  }
  return Error{ErrorKind::key_error, "unknown profile \"" + std::string(wanted) + "\"" +
                                         (name.empty() ? " in MMAEMU_PROFILE" : "") +
                                         "; known profiles: " + known};
} catch (...) {
  return out_of_memory();
}

Result<Profile> find_profile_or_default(const std::optional<std::string>& name) {
  return find_profile(!name ? "" : name->empty() ? "\"\"" : *name);
}

}  // namespace mmaemu
