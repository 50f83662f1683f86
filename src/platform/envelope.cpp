// The two envelope rules.
#include "platform/envelope.h"

#include <algorithm>
#include <optional>

namespace mmaemu {
namespace {

// M*N > bound, without the product, which may not fit 64 bits.
bool area_above(std::int64_t M, std::int64_t N, std::uint64_t bound) {
  return static_cast<std::uint64_t>(M) > bound / static_cast<std::uint64_t>(N);
}

std::string area_text(std::int64_t M, std::int64_t N, bool above, const std::string& bound) {
  return "M*N = " + std::to_string(M) + "*" + std::to_string(N) + (above ? " is above " : " is not above ") +
         bound;
}

// The largest M*N that split in the setting. A setting without rows takes the union over output dtypes.
std::optional<std::uint64_t> largest_split(const AreaEnvelope& envelope, const WorkspaceSetting& wanted) {
  if (const auto found = envelope.largest_split.find(wanted); found != envelope.largest_split.end())
    return found->second;
  std::optional<std::uint64_t> largest;
  for (const auto& [key, area] : envelope.largest_split) {
    WorkspaceSetting same = key;
    same.setting.out = wanted.setting.out;
    if (same == wanted) largest = std::max(largest.value_or(0), area);
  }
  return largest;
}

EnvelopeVerdict infer_area(const AreaEnvelope& envelope, const WorkspaceSetting& setting, std::int64_t M,
                           std::int64_t N) {
  const std::optional<std::uint64_t> largest = largest_split(envelope, setting);
  if (!largest) return {false, false, "no call with these formats was recorded, so there is no bound"};
  if (*largest == 0) return {true, true, "no recorded call of this setting splits"};
  const std::uint64_t bound = envelope.margin * *largest;
  const bool above = area_above(M, N, bound);
  return {above, above,
          area_text(M, N, above,
                    "the bound " + std::to_string(bound) + ", " + std::to_string(envelope.margin) +
                        " times the largest recorded M*N that splits")};
}

EnvelopeVerdict infer_grid(const GridEnvelope& envelope, const WorkspaceSetting& setting, std::int64_t M,
                           std::int64_t N, std::int64_t K) {
  const auto bounds = envelope.bounds.find(setting);
  const auto held_out = envelope.held_out.find(setting.workspace);
  if (bounds == envelope.bounds.end() || held_out == envelope.held_out.end())
    return {false, false, "there is no bound for this workspace and these formats"};
  const std::vector<std::uint64_t>& grid = envelope.grid;
  const auto k = static_cast<std::uint64_t>(K);
  if (k < grid.front() || k > grid.back()) {
    return {false, false,
            "K = " + std::to_string(K) + " is outside the range of the bounds, " +
                std::to_string(grid.front()) + " to " + std::to_string(grid.back())};
  }
  const auto at = std::lower_bound(grid.begin(), grid.end(), k);
  const std::uint64_t bound = bounds->second[static_cast<std::size_t>(at - grid.begin())];
  const bool above = area_above(M, N, bound);
  std::string text =
      area_text(M, N, above, "the bound " + std::to_string(bound) + " for K up to " + std::to_string(*at));
  const GridEnvelope::HeldOut& test = held_out->second;
  if (above && !test.validated) {
    text += "; in the held-out test of this workspace " + std::to_string(test.split_above_bound) + " of " +
            std::to_string(test.tested) + " calls split above its bound";
  }
  return {above, above && test.validated, std::move(text)};
}

}  // namespace

EnvelopeVerdict infer(const Envelope& envelope, const WorkspaceSetting& setting, std::int64_t M,
                      std::int64_t N, std::int64_t K) {
  if (const auto* area = std::get_if<AreaEnvelope>(&envelope)) return infer_area(*area, setting, M, N);
  return infer_grid(std::get<GridEnvelope>(envelope), setting, M, N, K);
}

}  // namespace mmaemu
