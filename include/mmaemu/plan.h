// How a GEMM's K products are laid out in chains, and in which order the chain results are added.
// docs/semantics.md, section 3. A plan is O(1) memory whatever K and S are.
#pragma once

#include <cstdint>
#include <string_view>

#include "mmaemu/export.h"
#include "mmaemu/preset.h"
#include "mmaemu/status.h"

namespace mmaemu {

enum class SplitScheme : std::uint8_t { none, serial, pairwise, contiguous };

MMAEMU_API std::string_view name(SplitScheme scheme);
MMAEMU_API std::optional<SplitScheme> find_scheme(std::string_view name);
MMAEMU_API Result<SplitScheme> parse_scheme(const std::string& name);  // ValueError with the known names

// An explicit split of K in S parts. S = 1 goes with scheme none, S > 1 with one of the others.
struct SplitK {
  std::int64_t S = 1;
  SplitScheme scheme = SplitScheme::none;
  friend bool operator==(const SplitK&, const SplitK&) = default;
};

// ValueError unless S >= 1 and the scheme fits S.
MMAEMU_API Status validate(const SplitK& split);

// One chain: element i (0 <= i < length) is K index begin + (i / width) * stride + i % width. Every index is
// < K.
struct Chain {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t width = 0;   // run of consecutive indices
  std::int64_t stride = 0;  // from the start of one run to the start of the next
};

class MMAEMU_API AccumulationPlan {
 public:
  // ValueError where the preset does not take the scheme (ada: serial, pairwise; hopper: contiguous; custom
  // presets: any). UnsupportedFeatureError for slow accumulation or S > 1 where the preset has no slow_chunk;
  // that is checked first.
  static Result<AccumulationPlan> make(const Preset& preset, std::int64_t depth, bool fast, SplitK split);

  std::int64_t partials() const { return partials_; }  // splits that own at least one element
  std::int64_t chains(std::int64_t partial) const;     // chains of a partial, added in order from +0
  Chain chain(std::int64_t partial, std::int64_t index) const;
  bool fast() const { return fast_; }  // one chain a partial: its result is the partial itself
  SplitK split() const { return split_; }
  std::int64_t depth() const { return depth_; }

 private:
  std::int64_t owned(std::int64_t partial) const;  // K elements that a partial owns

  std::int64_t depth_ = 0;
  bool fast_ = true;
  SplitK split_;
  std::int64_t chunk_ = 0;      // elements of a slow chain
  std::int64_t per_split_ = 0;  // contiguous: elements of a full split
  std::int64_t partials_ = 0;
};

}  // namespace mmaemu
