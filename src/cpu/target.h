// The instruction sets that the engine is compiled for, and which of them this processor has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mmaemu::cpu {

// Best first.
enum class Target : std::uint8_t { avx3_dl, avx3, avx2, neon, portable };

inline constexpr std::array<std::string_view, 5> kTargetNames{"avx3_dl", "avx3", "avx2", "neon", "portable"};

inline std::string_view name(Target target) {
  return kTargetNames[static_cast<std::size_t>(target)];
}

// The targets that are compiled in and that this processor has, best first; the portable one is always there.
const std::vector<Target>& available_targets();

}  // namespace mmaemu::cpu
