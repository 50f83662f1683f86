// What the recordings say about shapes that are not in them: sizes above which no split was ever seen.
// The data comes from a split-K table (split_table.h); when the envelope is asked is resolve_splitk.cpp's
// matter.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace mmaemu {

// The part of a key that is neither size nor workspace, in a table's codes.
struct SplitSetting {
  std::uint8_t out = 0;
  bool fast = false;
  std::uint8_t a = 0;
  std::uint8_t b = 0;
  friend auto operator<=>(const SplitSetting&, const SplitSetting&) = default;
};

struct WorkspaceSetting {
  std::uint8_t workspace = 0;
  SplitSetting setting;
  friend auto operator<=>(const WorkspaceSetting&, const WorkspaceSetting&) = default;
};

// Unsplit above margin times the largest M*N that split in the setting. 0: the setting has rows, none split.
struct AreaEnvelope {
  std::uint64_t margin = 0;
  std::map<WorkspaceSetting, std::uint64_t> largest_split;
};

// Unsplit above a bound on M*N that depends on K: the bound of the smallest recorded K that is not below K.
struct GridEnvelope {
  struct HeldOut {
    bool validated = false;
    std::uint64_t tested = 0;
    std::uint64_t split_above_bound = 0;
  };
  std::vector<std::uint64_t> grid;  // ascending
  std::map<WorkspaceSetting, std::vector<std::uint64_t>> bounds;
  std::map<std::uint8_t, HeldOut> held_out;  // by workspace
};

using Envelope = std::variant<AreaEnvelope, GridEnvelope>;

struct EnvelopeVerdict {
  bool unsplit = false;
  bool validated = false;
  std::string text;  // why S = 1, or why nothing is inferred; names the bound where there is one
};

// Sizes are at least 1.
EnvelopeVerdict infer(const Envelope& envelope, const WorkspaceSetting& setting, std::int64_t M,
                      std::int64_t N, std::int64_t K);

}  // namespace mmaemu
