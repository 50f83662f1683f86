// Plans against lists of K indices written from docs/semantics.md, section 3, and plans of a K that no list
// can hold.
#include "mmaemu/plan.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "referee.h"

namespace mmaemu {
namespace {

using testing::referee::IndexLists;

constexpr std::int64_t kDeepest = std::numeric_limits<std::int64_t>::max();

Preset custom(std::optional<std::int64_t> slow_chunk) {
  Preset preset;
  preset.name = "mine";
  preset.slow_chunk = slow_chunk;
  return preset;
}

Preset shipped(std::string_view name) {
  return find_preset(name).value();
}

// The plan's chains as lists; splits without elements have none.
IndexLists lists_of(const AccumulationPlan& plan) {
  IndexLists lists(static_cast<std::size_t>(plan.split().S));
  for (std::int64_t s = 0; s < plan.partials(); ++s) {
    for (std::int64_t i = 0; i < plan.chains(s); ++i) {
      const Chain chain = plan.chain(s, i);
      std::vector<std::int64_t>& indices = lists[static_cast<std::size_t>(s)].emplace_back();
      for (std::int64_t k = 0; k < chain.length; ++k)
        indices.push_back(chain.begin + k / chain.width * chain.stride + k % chain.width);
    }
  }
  return lists;
}

void expect_documented(const Preset& preset, std::int64_t depth, bool fast, const SplitK& split) {
  SCOPED_TRACE(::testing::Message() << "K " << depth << (fast ? " fast" : " slow") << " S " << split.S << " "
                                    << name(split.scheme) << " slow_chunk "
                                    << preset.slow_chunk.value_or(-1));
  const Result<AccumulationPlan> plan = AccumulationPlan::make(preset, depth, fast, split);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan.value().depth(), depth);
  EXPECT_EQ(plan.value().fast(), fast);
  EXPECT_EQ(plan.value().split(), split);
  const IndexLists lists = lists_of(plan.value());
  EXPECT_EQ(lists, testing::referee::index_lists(preset, depth, fast, split));
  std::vector<int> owners(static_cast<std::size_t>(depth));
  for (const auto& chains : lists)
    for (const std::vector<std::int64_t>& indices : chains)
      for (const std::int64_t k : indices) ++owners.at(static_cast<std::size_t>(k));
  EXPECT_EQ(std::accumulate(owners.begin(), owners.end(), std::int64_t{0}), depth);
  EXPECT_TRUE(std::ranges::all_of(owners, [](int count) { return count == 1; })) << "K indices owned twice";
}

// Every K up to a few tiles, and the neighbourhood of larger multiples of the tiles.
std::vector<std::int64_t> depths() {
  std::vector<std::int64_t> all(300);
  std::iota(all.begin(), all.end(), 0);
  for (const std::int64_t multiple : {384, 512, 640, 1024, 1920})
    for (std::int64_t d = -1; d <= 1; ++d) all.push_back(multiple + d);
  return all;
}

TEST(Plan, UnsplitFastIsOneChain) {
  for (const std::int64_t depth : depths()) expect_documented(shipped("ada"), depth, true, {});
}

TEST(Plan, UnsplitSlowIsAChainPerChunk) {
  for (const std::int64_t depth : depths())
    for (const std::int64_t chunk : {1, 100, 128, 1000}) expect_documented(custom(chunk), depth, false, {});
}

TEST(Plan, InterleavedSplitsOwnEverySthTile) {
  for (const std::int64_t depth : depths())
    for (const SplitScheme scheme : {SplitScheme::serial, SplitScheme::pairwise})
      for (const std::int64_t S : {2, 3, 4, 7, 40})
        for (const bool fast : {true, false}) expect_documented(shipped("ada"), depth, fast, {S, scheme});
}

TEST(Plan, InterleavedSlowChainsIgnoreThePresetsChunk) {
  for (const std::int64_t depth : {500, 1024, 1337})
    for (const std::int64_t chunk : {1, 32, 1000})
      expect_documented(custom(chunk), depth, false, {3, SplitScheme::serial});
}

TEST(Plan, ContiguousSplitsOwnConsecutiveTiles) {
  for (const std::int64_t depth : depths())
    for (const std::int64_t S : {2, 3, 4, 7, 40})
      for (const bool fast : {true, false})
        expect_documented(shipped("hopper"), depth, fast, {S, SplitScheme::contiguous});
}

TEST(Plan, ContiguousSlowChainsRestartEveryChunkInsideASplit) {
  for (const std::int64_t depth : {500, 1024, 1337})
    for (const std::int64_t chunk : {1, 100, 128, 300})
      expect_documented(custom(chunk), depth, false, {3, SplitScheme::contiguous});
}

// Sums and bounds of what a plan of `depth` owns, without lists. The splits must be few.
void expect_sound(const Preset& preset, std::int64_t depth, bool fast, const SplitK& split) {
  SCOPED_TRACE(::testing::Message() << "K " << depth << (fast ? " fast" : " slow") << " S " << split.S << " "
                                    << name(split.scheme));
  const Result<AccumulationPlan> made = AccumulationPlan::make(preset, depth, fast, split);
  ASSERT_TRUE(made.ok());
  const AccumulationPlan& plan = made.value();
  ASSERT_GE(plan.partials(), 1);
  ASSERT_LE(plan.partials(), std::min(split.S, depth));
  __extension__ using Wide = __int128;
  Wide owned = 0;
  for (std::int64_t s = 0; s < plan.partials(); ++s) {
    const std::int64_t chains = plan.chains(s);
    ASSERT_GE(chains, 1);
    // All chains but the last are equally long.
    const Chain first = plan.chain(s, 0);
    const Chain last = plan.chain(s, chains - 1);
    owned += Wide{first.length} * (chains - 1) + last.length;
    for (const Chain& chain : {first, last}) {
      ASSERT_GE(chain.begin, 0);
      ASSERT_GE(chain.length, 1);
      const Wide end = chain.begin + Wide{(chain.length - 1) / chain.width} * chain.stride +
                       (chain.length - 1) % chain.width;
      ASSERT_LT(end, depth);
    }
  }
  EXPECT_EQ(owned, depth);
}

TEST(Plan, DeepestKDoesNotOverflow) {
  const SplitK unsplit;
  for (const std::int64_t depth :
       {std::int64_t{1} << 62, (std::int64_t{1} << 62) + 65, kDeepest - 128, kDeepest}) {
    for (const bool fast : {true, false}) {
      expect_sound(custom(128), depth, fast, unsplit);
      expect_sound(custom(kDeepest), depth, fast, unsplit);
      for (const std::int64_t S : {2, 3, 1000}) {
        expect_sound(custom(kDeepest), depth, fast, {S, SplitScheme::serial});
        expect_sound(custom(1), depth, fast, {S, SplitScheme::pairwise});
        expect_sound(custom(128), depth, fast, {S, SplitScheme::contiguous});
        expect_sound(custom(kDeepest), depth, fast, {S, SplitScheme::contiguous});
      }
    }
  }
}

TEST(Plan, DeepestKOwnsTheDocumentedRuns) {
  const AccumulationPlan serial =
      AccumulationPlan::make(shipped("ada"), kDeepest, true, {2, SplitScheme::serial}).value();
  // 2^57 tiles, the last one short of one element.
  EXPECT_EQ(serial.chain(0, 0).length, std::int64_t{1} << 62);
  EXPECT_EQ(serial.chain(1, 0).length, (std::int64_t{1} << 62) - 1);
  EXPECT_EQ(serial.chain(1, 0).begin, 64);
  EXPECT_EQ(serial.chain(1, 0).stride, 128);
  const AccumulationPlan contiguous =
      AccumulationPlan::make(shipped("hopper"), kDeepest, true, {2, SplitScheme::contiguous}).value();
  EXPECT_EQ(contiguous.chain(0, 0).length, std::int64_t{1} << 62);
  EXPECT_EQ(contiguous.chain(1, 0).begin, std::int64_t{1} << 62);
  EXPECT_EQ(contiguous.chain(1, 0).length, (std::int64_t{1} << 62) - 1);
}

TEST(Plan, MoreSplitsThanTilesLeaveTheRestEmpty) {
  for (const SplitScheme scheme : {SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous}) {
    for (const std::int64_t S : {std::int64_t{1} << 62, kDeepest}) {
      expect_sound(custom(128), 1000, true, {S, scheme});
      expect_sound(custom(128), 1, false, {S, scheme});
      const Result<AccumulationPlan> empty = AccumulationPlan::make(custom(128), 0, true, {S, scheme});
      EXPECT_EQ(empty.value().partials(), 0);
    }
  }
}

ErrorKind kind_of(const Result<AccumulationPlan>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? ErrorKind::cancelled : result.error().kind;
}

TEST(Plan, SchemeOfAnotherPresetIsRefused) {
  const auto make = [](std::string_view preset, SplitScheme scheme) {
    return AccumulationPlan::make(shipped(preset), 256, true, {2, scheme});
  };
  EXPECT_TRUE(make("ada", SplitScheme::serial).ok());
  EXPECT_TRUE(make("ada", SplitScheme::pairwise).ok());
  EXPECT_TRUE(make("hopper", SplitScheme::contiguous).ok());
  EXPECT_EQ(kind_of(make("ada", SplitScheme::contiguous)), ErrorKind::value_error);
  EXPECT_EQ(kind_of(make("hopper", SplitScheme::serial)), ErrorKind::value_error);
  EXPECT_EQ(kind_of(make("hopper", SplitScheme::pairwise)), ErrorKind::value_error);
  const std::string message = make("hopper", SplitScheme::serial).error().message;
  for (const char* part : {"\"serial\"", "\"hopper\"", "\"contiguous\""})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Plan, CustomPresetTakesAnyScheme) {
  for (const SplitScheme scheme : {SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous})
    EXPECT_TRUE(AccumulationPlan::make(custom(128), 256, true, {2, scheme}).ok());
}

TEST(Plan, PresetWithoutAGemmLevelIsUnsplitAndFast) {
  for (const Preset& preset : {shipped("b200_mma_sync"), custom(std::nullopt)}) {
    EXPECT_TRUE(AccumulationPlan::make(preset, 256, true, {}).ok());
    EXPECT_EQ(kind_of(AccumulationPlan::make(preset, 256, false, {})), ErrorKind::unsupported_feature);
    // Before the scheme, which does not belong to the preset either.
    EXPECT_EQ(kind_of(AccumulationPlan::make(preset, 256, true, {2, SplitScheme::contiguous})),
              ErrorKind::unsupported_feature);
  }
}

TEST(Plan, InvalidArgumentsAreValueErrors) {
  EXPECT_EQ(kind_of(AccumulationPlan::make(custom(128), -1, true, {})), ErrorKind::value_error);
  EXPECT_EQ(kind_of(AccumulationPlan::make(custom(0), 64, true, {})), ErrorKind::value_error);
  EXPECT_EQ(kind_of(AccumulationPlan::make(custom(128), 64, true, {0, SplitScheme::none})),
            ErrorKind::value_error);
  EXPECT_EQ(kind_of(AccumulationPlan::make(custom(128), 64, true, {2, SplitScheme::none})),
            ErrorKind::value_error);
  EXPECT_EQ(kind_of(AccumulationPlan::make(custom(128), 64, true, {1, SplitScheme::serial})),
            ErrorKind::value_error);
}

TEST(SplitSchemes, AreFoundByTheNamesTheyHave) {
  for (const SplitScheme scheme :
       {SplitScheme::none, SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous})
    EXPECT_EQ(find_scheme(name(scheme)), scheme);
  EXPECT_EQ(name(SplitScheme::pairwise), "pairwise");
  EXPECT_EQ(find_scheme("Serial"), std::nullopt);
  EXPECT_EQ(find_scheme(""), std::nullopt);
}

}  // namespace
}  // namespace mmaemu
