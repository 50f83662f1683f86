// Chains and their order. docs/semantics.md, section 3.
#include "mmaemu/plan.h"

#include <algorithm>
#include <array>

#include "base/memory.h"

namespace mmaemu {
namespace {

// cuBLAS's k-tiles on the two platforms (r4.unverified_split_combos, c5.v0_ownership_probes;
// oracle/cases.jsonl).
constexpr std::int64_t kInterleavedTile = 64;
constexpr std::int64_t kContiguousTile = 128;
// A slow chain of an interleaved split takes this many of the split's own tiles, whatever the preset's
// slow_chunk.
constexpr std::int64_t kInterleavedChunkTiles = 2;

constexpr std::array<std::string_view, 4> kSchemeNames{"none", "serial", "pairwise", "contiguous"};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

bool interleaved(SplitScheme scheme) {
  return scheme == SplitScheme::serial || scheme == SplitScheme::pairwise;
}

// The schemes of a shipped preset; a custom one takes any.
bool takes_scheme(const Preset& preset, SplitScheme scheme) {
  if (preset.maturity == "custom") return true;
  return preset.name == "hopper" ? scheme == SplitScheme::contiguous : interleaved(scheme);
}

std::string schemes_of(const Preset& preset) {
  return preset.name == "hopper" ? "\"contiguous\"" : "\"serial\" and \"pairwise\"";
}

}  // namespace

std::string_view name(SplitScheme scheme) {
  return kSchemeNames[static_cast<std::size_t>(scheme)];
}

std::optional<SplitScheme> find_scheme(std::string_view name) {
  const auto* at = std::ranges::find(kSchemeNames, name);
  if (at == kSchemeNames.end()) return std::nullopt;
  return static_cast<SplitScheme>(at - kSchemeNames.begin());
}

Result<SplitScheme> parse_scheme(const std::string& name) {
  if (const std::optional<SplitScheme> scheme = find_scheme(name)) return *scheme;
  return Error{ErrorKind::value_error, "\"" + name +
                                           "\" is not a split scheme; the schemes are none, serial, pairwise "
                                           "and contiguous"};
}

Status validate(const SplitK& split) try {
  const std::string found =
      "SplitK(S=" + std::to_string(split.S) + ", scheme=\"" + std::string(name(split.scheme)) + "\")";
  if (split.S < 1) return Error{ErrorKind::value_error, found + ": S must be an integer >= 1"};
  if (split.S == 1 && split.scheme != SplitScheme::none)
    return Error{ErrorKind::value_error, found + ": S = 1 goes with scheme \"none\" only"};
  if (split.S > 1 && split.scheme == SplitScheme::none)
    return Error{ErrorKind::value_error, found +
                                             ": S > 1 needs scheme \"serial\" or \"pairwise\" (ada profiles) "
                                             "or \"contiguous\" (hopper profiles)"};
  return {};
} catch (...) {
  return out_of_memory();
}

Result<AccumulationPlan> AccumulationPlan::make(const Preset& preset, std::int64_t depth, bool fast,
                                                SplitK split) try {
  if (Status s = mmaemu::validate(preset); !s.ok()) return s.error();
  if (Status s = mmaemu::validate(split); !s.ok()) return s.error();
  if (depth < 0)
    return Error{ErrorKind::value_error, "K is " + std::to_string(depth) + "; it must be at least 0"};
  if (!preset.slow_chunk && (!fast || split.S > 1))
    return Error{ErrorKind::unsupported_feature,
                 "preset \"" + preset.name + "\" has no characterised GEMM level (slow_chunk is None): " +
                     (fast ? "S > 1" : "slow accumulation") +
                     " cannot be computed; pass use_fast_accum=True and splitk=1, or another profile"};
  if (split.S > 1 && !takes_scheme(preset, split.scheme))
    return Error{ErrorKind::value_error, "split scheme \"" + std::string(mmaemu::name(split.scheme)) +
                                             "\" does not belong to preset \"" + preset.name +
                                             "\", which takes " + schemes_of(preset)};
  AccumulationPlan plan;
  plan.depth_ = depth;
  plan.fast_ = fast;
  plan.split_ = split;
  if (split.scheme == SplitScheme::none) {
    plan.chunk_ = preset.slow_chunk.value_or(depth);
    plan.partials_ = depth > 0 ? 1 : 0;
  } else if (interleaved(split.scheme)) {
    plan.chunk_ = kInterleavedTile * kInterleavedChunkTiles;
    plan.partials_ = std::min(split.S, ceil_div(depth, kInterleavedTile));
  } else {
    plan.chunk_ = *preset.slow_chunk;
    const std::int64_t tiles = ceil_div(ceil_div(depth, kContiguousTile), split.S);
    // A split longer than K may be too long for the product.
    plan.per_split_ = tiles > depth / kContiguousTile ? depth : tiles * kContiguousTile;
    plan.partials_ = depth > 0 ? ceil_div(depth, plan.per_split_) : 0;
  }
  return plan;
} catch (...) {
  return out_of_memory();
}

std::int64_t AccumulationPlan::owned(std::int64_t partial) const {
  if (split_.scheme == SplitScheme::none) return depth_;
  if (!interleaved(split_.scheme)) return std::min(per_split_, depth_ - partial * per_split_);
  const std::int64_t tiles = ceil_div(depth_, kInterleavedTile);
  const std::int64_t own = ceil_div(tiles - partial, split_.S);
  const bool owns_last = (tiles - 1 - partial) % split_.S == 0;
  const std::int64_t padding = (kInterleavedTile - depth_ % kInterleavedTile) % kInterleavedTile;
  return own * kInterleavedTile - (owns_last ? padding : 0);
}

std::int64_t AccumulationPlan::chains(std::int64_t partial) const {
  return fast_ ? 1 : ceil_div(owned(partial), chunk_);
}

Chain AccumulationPlan::chain(std::int64_t partial, std::int64_t index) const {
  const std::int64_t first = fast_ ? 0 : index * chunk_;  // in the partial's own elements
  Chain c;
  c.length = fast_ ? owned(partial) : std::min(chunk_, owned(partial) - first);
  if (interleaved(split_.scheme)) {
    c.begin = (partial + first / kInterleavedTile * split_.S) * kInterleavedTile;
    c.width = kInterleavedTile;
    // A split that owns one tile has no next run; S may be too large for the product.
    c.stride = c.length > kInterleavedTile ? split_.S * kInterleavedTile : 0;
  } else {
    c.begin = (split_.scheme == SplitScheme::none ? 0 : partial * per_split_) + first;
    c.width = c.length;
  }
  return c;
}

}  // namespace mmaemu
