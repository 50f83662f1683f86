// The shipped presets and the rules for custom ones.
#include "mmaemu/preset.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/memory.h"

namespace mmaemu {
namespace {

constexpr std::string_view kBlackwellAlias = "blackwell";

// Names that people look for, and that no recording of this project describes.
constexpr std::array<std::string_view, 6> kRefusedNames{"sm_120",        "sm120",     "rtx_blackwell",
                                                        "rtx-blackwell", "rtx5070ti", "rtx_5070_ti"};

Error out_of_range(std::string_view field, const std::string& found, std::string_view needed) {
  return {ErrorKind::value_error,
          "Preset: " + std::string(field) + " is " + found + "; it must be " + std::string(needed)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

Status validate(const Preset& p) try {
  if (p.nfma < 1) return out_of_range("nfma", std::to_string(p.nfma), "at least 1");
  if (p.frac < 1 || p.frac > 40) return out_of_range("frac", std::to_string(p.frac), "in 1..40");
  if (p.frac_out < 1 || p.frac_out > 23)
    return out_of_range("frac_out", std::to_string(p.frac_out), "in 1..23");
  if (p.slow_chunk && *p.slow_chunk < 1)
    return out_of_range("slow_chunk", std::to_string(*p.slow_chunk), "None or at least 1");
  return {};
} catch (...) {
  return out_of_memory();
}

const std::vector<Preset>& shipped_presets() {
  static const std::vector<Preset> presets{
      {.name = "ada",
       .nfma = 16,
       .frac = 13,
       .frac_out = 13,
       .min_exp = -132,
       .late_c = false,
       .slow_chunk = 128,
       .maturity = "validated",
       .validated_scope = "RTX 4060: sm_89 mma.sync m16n8k32 (E4M3, E5M2) and cuBLASLt 12.8.3.14 FP8 GEMM",
       .evidence = {"1,844 cases with 10,338 outputs recorded on a GeForce RTX 4060",
                    "MATLAB Tensor Core toolbox vectors of Ada and L40S"}},
      {.name = "b200_mma_sync",
       .nfma = 32,
       .frac = 25,
       .frac_out = 23,
       .min_exp = -133,
       .late_c = true,
       .slow_chunk = std::nullopt,
       .maturity = "experimental",
       .validated_scope = "fits recorded B200 mma.sync vectors; not B200 cuBLAS, not sm_120",
       .evidence = {"MATLAB Tensor Core toolbox vectors of B200"}},
      {.name = "hopper",
       .nfma = 32,
       .frac = 13,
       .frac_out = 13,
       .min_exp = -132,
       .late_c = false,
       .slow_chunk = 128,
       .maturity = "validated",
       .validated_scope = "H100 PCIe cuBLAS FP8 GEMM, through an oracle that replays H100 recordings; not "
                          "the sm_90 mma.sync instruction",
       .evidence = {"600 calls answered by an oracle that replays H100 PCIe recordings bit for bit",
                    "MATLAB Tensor Core toolbox vectors of H100 and H200 (wgmma, c = 0)"}},
  };
  return presets;
}

Result<Preset> find_preset(std::string_view name) try {
  const std::string_view wanted = name == kBlackwellAlias ? "b200_mma_sync" : name;
  for (const Preset& p : shipped_presets())
    if (p.name == wanted) return p;
  if (std::ranges::find(kRefusedNames, lower(name)) != kRefusedNames.end())
    return Error{ErrorKind::key_error,
                 "preset \"" + std::string(name) +
                     "\" is refused: no recording of sm_120 (RTX 50) arithmetic is known, and "
                     "b200_mma_sync does not describe it"};
  std::string known;
  for (const Preset& p : shipped_presets()) known += p.name + ", ";
  return Error{ErrorKind::key_error, "unknown preset \"" + std::string(name) + "\"; the presets are " +
                                         known + "and the alias " + std::string(kBlackwellAlias)};
} catch (...) {
  return out_of_memory();
}

}  // namespace mmaemu
