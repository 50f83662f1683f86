// The arithmetic of one tensor-core instruction: every number that defines it. docs/semantics.md, section 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mmaemu/export.h"
#include "mmaemu/status.h"

namespace mmaemu {

struct Preset {
  std::string name;
  std::int64_t nfma = 16;  // products per block; >= 1
  int frac = 13;           // fraction bits kept of each aligned term; 1..40
  int frac_out = 13;       // fraction bits kept of the block result; 1..23
  int min_exp = -132;      // floor of the block exponent
  bool late_c = false;     // add c after the block sum, in fp32, instead of inside the alignment
  std::optional<std::int64_t> slow_chunk =
      128;                          // elements per slow chain; none: slow and split GEMMs unsupported
  std::string maturity = "custom";  // "validated", "experimental", "custom"
  std::string validated_scope;
  std::vector<std::string> evidence;

  friend bool operator==(const Preset&, const Preset&) = default;
};

// ValueError unless every field is in the range its comment gives.
MMAEMU_API Status validate(const Preset& preset);

// The shipped presets, sorted by name: ada, b200_mma_sync, hopper.
MMAEMU_API const std::vector<Preset>& shipped_presets();

// The shipped preset called `name`; "blackwell" is an alias of b200_mma_sync. KeyError with the known names
// otherwise, and with the reason for the refused names (sm_120, rtx_blackwell, ...; any case).
MMAEMU_API Result<Preset> find_preset(std::string_view name);

}  // namespace mmaemu
