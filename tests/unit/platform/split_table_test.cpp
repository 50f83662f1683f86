// The packed split-K tables against the recordings, against damage, and against the clock.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <iostream>
#include <random>
#include <unordered_set>

#include "platform/embedded_tables.h"
#include "unit/platform/recorded_rows.h"

namespace mmaemu {
namespace {

using testing::RecordedTable;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeader = 28;    // magic, version, body size, checksum
constexpr std::size_t kChecksum = 20;  // where the checksum stands

struct Named {
  const char* file;
  const char* id;
};
constexpr Named kRtx4060{"rtx4060", "heur_rtx4060_lt12.8.3.14"};
constexpr Named kH100Pcie{"h100pcie", "heur_h100pcie_lt12.8.3.14"};

void PrintTo(const Named& named, std::ostream* out) {
  *out << named.file;
}

std::span<const std::byte> embedded_bytes(std::string_view id) {
  for (const EmbeddedTable& table : embedded_tables())
    if (table.id == id) return table.bytes;
  return {};
}

const SplitTable& table_of(const Named& named) {
  return embedded_table(named.id)->value();
}

std::uint64_t shape_key(std::int64_t M, std::int64_t N, std::int64_t K) {
  return static_cast<std::uint64_t>(M << 42 | N << 21 | K);
}

// All keys of one shape, in the table's codes.
std::vector<WorkspaceSetting> all_settings() {
  std::vector<WorkspaceSetting> all;
  for (std::uint8_t ws = 0; ws < 4; ++ws)
    for (std::uint8_t out = 0; out < 5; ++out)
      for (const bool fast : {false, true})
        for (std::uint8_t a = 0; a < 2; ++a)
          for (std::uint8_t b = 0; b < 2; ++b) all.push_back({ws, {out, fast, a, b}});
  return all;
}

class RecordedSplitTable : public ::testing::TestWithParam<Named> {
 protected:
  RecordedSplitTable() : recorded_(GetParam().file) {}

  template <class Visit>
  void for_each_row(Visit visit) {
    const auto M = recorded_.column<std::int32_t>("M");
    const auto N = recorded_.column<std::int32_t>("N");
    const auto K = recorded_.column<std::int32_t>("K");
    const auto fa = recorded_.column<std::uint8_t>("fa");
    const auto fb = recorded_.column<std::uint8_t>("fb");
    const auto out = recorded_.column<std::uint8_t>("out");
    const auto fast = recorded_.column<std::uint8_t>("fast");
    const auto ws = recorded_.column<std::uint8_t>("ws");
    for (std::size_t i = 0; i < M.size(); ++i)
      visit(i, M[i], N[i], K[i], WorkspaceSetting{ws[i], {out[i], fast[i] != 0, fa[i], fb[i]}});
  }

  RecordedTable recorded_;
};

TEST_P(RecordedSplitTable, GivesEveryRowAsRecorded) {
  const SplitTable& table = table_of(GetParam());
  const auto algo = recorded_.column<std::int16_t>("algo");
  const auto tile = recorded_.column<std::int16_t>("tile");
  const auto splits = recorded_.column<std::uint8_t>("splitK");
  const auto custom = recorded_.column<std::uint8_t>("custom");
  std::size_t rows = 0;
  std::size_t wrong = 0;
  for_each_row(
      [&](std::size_t i, std::int64_t M, std::int64_t N, std::int64_t K, const WorkspaceSetting& at) {
        const AlgoChoice expected{static_cast<std::uint32_t>(algo[i]), static_cast<std::uint32_t>(tile[i]),
                                  splits[i], custom[i]};
        if (table.find(M, N, K, at) != expected) ++wrong;
        ++rows;
      });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(rows, recorded_.meta["rows"].get<std::size_t>());
  EXPECT_EQ(table.rows(), rows);
}

// With the test above: a key has an answer exactly where it has a row.
TEST_P(RecordedSplitTable, HasNoAnswerWhereThereIsNoRow) {
  const SplitTable& table = table_of(GetParam());
  std::unordered_set<std::uint64_t> shapes;
  for_each_row([&](std::size_t, std::int64_t M, std::int64_t N, std::int64_t K, const WorkspaceSetting&) {
    shapes.insert(shape_key(M, N, K));
  });
  const std::vector<WorkspaceSetting> settings = all_settings();
  std::size_t answers = 0;
  std::size_t neighbours = 0;
  std::size_t wrong = 0;
  for (const std::uint64_t key : shapes) {
    const auto M = static_cast<std::int64_t>(key >> 42);
    const auto N = static_cast<std::int64_t>(key >> 21 & 0x1FFFFF);
    const auto K = static_cast<std::int64_t>(key & 0x1FFFFF);
    for (const WorkspaceSetting& at : settings) answers += table.find(M, N, K, at).has_value();
    const std::array<std::array<std::int64_t, 3>, 9> around{{{M - 1, N, K},
                                                             {M + 1, N, K},
                                                             {M, N - 1, K},
                                                             {M, N + 1, K},
                                                             {M, N, K - 1},
                                                             {M, N, K + 1},
                                                             {M, N - 1, K + (1 << 21)},
                                                             {M - 1, N + (1 << 21), K},
                                                             {N, M, K}}};
    for (const auto& [m, n, k] : around) {
      const bool is_shape = n < (1 << 21) && k < (1 << 21) && shapes.contains(shape_key(m, n, k));
      if (is_shape) continue;
      ++neighbours;
      wrong += table.find(m, n, k, settings[neighbours % settings.size()]).has_value();
    }
  }
  EXPECT_EQ(answers, table.rows());
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(neighbours, shapes.size());
}

TEST_P(RecordedSplitTable, HasNoAnswerForSizesThatItCannotHold) {
  const SplitTable& table = table_of(GetParam());
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 21, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(table.find(size, 128, 1024, {}), std::nullopt);
    EXPECT_EQ(table.find(128, size, 1024, {}), std::nullopt);
    EXPECT_EQ(table.find(128, 128, size, {}), std::nullopt);
  }
}

TEST_P(RecordedSplitTable, KnowsTheCodesOfTheRecordings) {
  const SplitTable& table = table_of(GetParam());
  const auto& codes = recorded_.meta["codes"];
  for (std::size_t i = 0; i < codes["ws"].size(); ++i)
    EXPECT_EQ(table.workspace(codes["ws"][i].get<std::int64_t>()), i);
  EXPECT_EQ(table.workspace(2 << 20), std::nullopt);
  EXPECT_EQ(table.workspace(-1), std::nullopt);
  for (std::uint8_t out = 0; out < codes["out"].size(); ++out) {
    const auto name = codes["out"][out].get<std::string>();
    EXPECT_EQ(table.setting(name, true, "e5m2", "e4m3"), (SplitSetting{out, true, 1, 0})) << name;
  }
  EXPECT_EQ(table.setting("float64", true, "e4m3", "e4m3"), std::nullopt);
  EXPECT_EQ(table.setting("float32", true, "e4m3", "e8m0"), std::nullopt);
}

TEST_P(RecordedSplitTable, KnowsExactlyTheReplayedCombinations) {
  const SplitTable& table = table_of(GetParam());
  for (const auto& entry : recorded_.meta["replayed_combinations"]) {
    const auto pair = entry["fmt_pair"].get<std::string>();
    const auto setting = table.setting(entry["out"].get<std::string>(), entry["fast"].get<bool>(),
                                       pair.substr(0, 4), pair.substr(5));
    EXPECT_TRUE(table.replayed(setting.value(), entry["S"].get<std::int64_t>(),
                               find_scheme(entry["scheme"].get<std::string>()).value()))
        << entry;
  }
  std::size_t known = 0;
  for (const WorkspaceSetting& at : all_settings()) {
    if (at.workspace != 0) continue;
    for (std::int64_t S = 0; S < 300; ++S)
      for (const SplitScheme scheme :
           {SplitScheme::none, SplitScheme::serial, SplitScheme::pairwise, SplitScheme::contiguous})
        known += table.replayed(at.setting, S, scheme);
  }
  EXPECT_EQ(known, recorded_.meta["replayed_combinations"].size());
}

TEST_P(RecordedSplitTable, KnowsTheSchemesOfTheCustomOptions) {
  const SplitTable& table = table_of(GetParam());
  const auto& codes = recorded_.meta["codes"];
  const auto& unlisted = codes["custom_unlisted_scheme"];
  for (std::uint32_t custom = 0; custom < 20; ++custom) {
    const auto key = std::to_string(custom);
    const bool listed = codes["custom_to_scheme"].contains(key);
    EXPECT_EQ(table.lists(custom), listed) << custom;
    const auto& expected = listed ? codes["custom_to_scheme"][key] : unlisted;
    if (expected.is_null()) {
      EXPECT_EQ(table.scheme(custom), std::nullopt) << custom;
    } else {
      EXPECT_EQ(table.scheme(custom), find_scheme(expected.get<std::string>())) << custom;
    }
  }
}

TEST_P(RecordedSplitTable, AnswersWithinAMicrosecond) {
  const SplitTable& table = table_of(GetParam());
  struct Key {
    std::int64_t M, N, K;
    WorkspaceSetting at;
  };
  std::vector<Key> keys;
  for_each_row(
      [&](std::size_t i, std::int64_t M, std::int64_t N, std::int64_t K, const WorkspaceSetting& at) {
        if (i % 7 == 0) keys.push_back({M, N, K, at});
      });
  std::shuffle(keys.begin(), keys.end(), std::mt19937(1));
  const auto begin = Clock::now();
  std::size_t found = 0;
  for (const Key& key : keys) found += table.find(key.M, key.N, key.K, key.at).has_value();
  const double each =
      std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / double(keys.size());
  EXPECT_EQ(found, keys.size());
  std::cout << GetParam().file << ": " << each << " ns a lookup, keys shuffled\n";
  EXPECT_LT(each,
            10'000);  // 1 microsecond on an idle machine with optimisation; this also holds under sanitizers
}

TEST_P(RecordedSplitTable, IsReadyWithinTwentyMilliseconds) {
  const auto bytes = embedded_bytes(GetParam().id);
  const auto begin = Clock::now();
  const Result<SplitTable> table = SplitTable::parse(GetParam().id, bytes);
  const double time = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  EXPECT_TRUE(table.ok());
  std::cout << GetParam().file << ": " << bytes.size() << " bytes verified and parsed in " << time << " ms\n";
  EXPECT_LT(time, 200);  // 20 ms on an idle machine with optimisation; this also holds under sanitizers
}

// Damaged copies of a table.
class CorruptSplitTable : public ::testing::TestWithParam<Named> {
 protected:
  CorruptSplitTable() {
    const auto bytes = embedded_bytes(GetParam().id);
    bytes_.assign(bytes.begin(), bytes.end());
  }

  // The table that damaged bytes give, in memory of exactly their size.
  static Result<SplitTable> parse(const std::vector<std::byte>& bytes) {
    return SplitTable::parse(GetParam().id, std::span(bytes));
  }

  void put_u64(std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) bytes_[at + i] = static_cast<std::byte>(value >> (8 * i));
  }

  // Makes the checksum and the size fit whatever the body is now.
  void seal() {
    put_u64(12, bytes_.size() - kHeader);
    const std::span<const std::byte> all(bytes_);
    put_u64(kChecksum, crc64(all.subspan(kHeader), crc64(all.first(kChecksum))));
  }

  static void expect_refusal(const Result<SplitTable>& table, const std::string& what) {
    ASSERT_FALSE(table.ok()) << what;
    EXPECT_EQ(table.error().kind, ErrorKind::mmaemu_error) << what;
    EXPECT_NE(table.error().message.find("split-K table " + std::string(GetParam().id) + " is corrupt"),
              std::string::npos)
        << table.error().message;
  }

  std::vector<std::byte> bytes_;
};

TEST_P(CorruptSplitTable, IsRefusedForAnyFlippedBit) {
  for (std::size_t at = 0; at < bytes_.size(); at += at < 256 ? 1 : 509) {
    const auto flip = static_cast<std::byte>(1 << (at % 8));
    bytes_[at] ^= flip;
    expect_refusal(parse(bytes_), "byte " + std::to_string(at));
    bytes_[at] ^= flip;
  }
  EXPECT_TRUE(parse(bytes_).ok());
}

TEST_P(CorruptSplitTable, IsRefusedAtAnyOtherLength) {
  const std::size_t whole = bytes_.size();
  for (std::size_t size = 0; size < whole; size += size < 600 ? 1 : 4999)
    expect_refusal(parse({bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size)}),
                   std::to_string(size));
  for (std::size_t missing = 1; missing < 70; ++missing)
    expect_refusal(parse({bytes_.begin(), bytes_.end() - static_cast<std::ptrdiff_t>(missing)}), "end");
  bytes_.push_back(std::byte{0});
  expect_refusal(parse(bytes_), "a byte too many");
}

TEST_P(CorruptSplitTable, IsRefusedAtAnyOtherLengthWhateverTheChecksum) {
  const std::vector<std::byte> whole = bytes_;
  for (std::size_t size = kHeader; size < whole.size(); size += size < 6000 ? 61 : 4999) {
    bytes_.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    seal();
    expect_refusal(parse(bytes_), std::to_string(size));
  }
  bytes_ = whole;
  bytes_.push_back(std::byte{0});
  seal();
  expect_refusal(parse(bytes_), "a byte too many");
}

// A forged checksum gets wrong numbers through, but no lookup may leave the bytes.
TEST_P(CorruptSplitTable, StaysInBoundsWhateverTheBody) {
  const std::vector<std::byte> whole = bytes_;
  const std::vector<WorkspaceSetting> settings = all_settings();
  std::mt19937_64 random(3);
  std::size_t refused = 0;
  for (int round = 0; round < 1500; ++round) {
    bytes_ = whole;
    const std::size_t range = round % 3 == 0 ? bytes_.size() - kHeader : 8192;
    for (int change = 0; change < 1 + round % 4; ++change)
      bytes_[kHeader + random() % range] = static_cast<std::byte>(random());
    seal();
    const Result<SplitTable> parsed = parse(bytes_);
    if (!parsed.ok()) {
      ++refused;
      EXPECT_EQ(parsed.error().kind, ErrorKind::mmaemu_error);
      continue;
    }
    const SplitTable& table = parsed.value();
    if (table.setting("float8_e5m2", true, "e5m2", "e5m2") && table.workspace(32 << 20)) {
      for (const WorkspaceSetting& at : settings) {
        (void)table.find(16, 64, 8192, at);
        (void)infer(table.envelope(), at, 16, 64, 8192);
      }
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST_P(CorruptSplitTable, IsRefusedUnderAnotherName) {
  const Result<SplitTable> table = SplitTable::parse("heur_other", bytes_);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().message, "split-K table heur_other is corrupt: it names itself \"" +
                                       std::string(GetParam().id) +
                                       "\"; no split is decided from it (reinstall the library)");
}

INSTANTIATE_TEST_SUITE_P(Shipped, RecordedSplitTable, ::testing::Values(kRtx4060, kH100Pcie),
                         [](const auto& test) { return test.param.file; });
INSTANTIATE_TEST_SUITE_P(Shipped, CorruptSplitTable, ::testing::Values(kRtx4060, kH100Pcie),
                         [](const auto& test) { return test.param.file; });

TEST(EmbeddedTables, AreWhatTheRepositoryHolds) {
  for (const Named& named : {kRtx4060, kH100Pcie}) {
    std::ifstream file(std::string(MMAEMU_SOURCE_DIR "/data/splitk/") + named.file + ".bin",
                       std::ios::binary);
    const std::string expected((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = embedded_bytes(named.id);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
  }
}

TEST(EmbeddedTables, TakeLessThanThreeMegabytes) {
  std::size_t size = 0;
  for (const EmbeddedTable& table : embedded_tables()) size += table.bytes.size();
  EXPECT_LT(size, 3U << 20);
}

TEST(EmbeddedTables, HaveNoOthers) {
  EXPECT_EQ(embedded_table("heur_other"), nullptr);
}

// The check value of CRC-64/XZ, as catalogues of checksums give it.
TEST(Crc64, IsTheOneOfXz) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc64(std::as_bytes(std::span(digits))), 0x995DC9BBDF1939FAU);
  EXPECT_EQ(
      crc64(std::as_bytes(std::span(digits.substr(4))), crc64(std::as_bytes(std::span(digits.substr(0, 4))))),
      0x995DC9BBDF1939FAU);
}

// The envelope's numbers come with the recordings; for the RTX 4060 the rows themselves give them as well.
TEST(RecordedEnvelope, OfTheRtx4060IsTheLargestAreaThatSplits) {
  RecordedTable recorded("rtx4060");
  const auto M = recorded.column<std::int32_t>("M");
  const auto N = recorded.column<std::int32_t>("N");
  const auto splits = recorded.column<std::uint8_t>("splitK");
  const auto fa = recorded.column<std::uint8_t>("fa");
  const auto fb = recorded.column<std::uint8_t>("fb");
  const auto out = recorded.column<std::uint8_t>("out");
  const auto fast = recorded.column<std::uint8_t>("fast");
  const auto ws = recorded.column<std::uint8_t>("ws");
  std::map<WorkspaceSetting, std::uint64_t> expected;
  for (std::size_t i = 0; i < M.size(); ++i) {
    std::uint64_t& largest = expected[{ws[i], {out[i], fast[i] != 0, fa[i], fb[i]}}];
    if (splits[i] > 1)
      largest = std::max(largest, static_cast<std::uint64_t>(M[i]) * static_cast<std::uint64_t>(N[i]));
  }
  const auto& envelope = std::get<AreaEnvelope>(table_of(kRtx4060).envelope());
  EXPECT_EQ(envelope.largest_split, expected);
  EXPECT_EQ(envelope.margin, recorded.meta["envelope"]["margin"].get<std::uint64_t>());
}

TEST(RecordedEnvelope, OfTheH100HasTheRecordedBounds) {
  const RecordedTable recorded("h100pcie");
  const auto& meta = recorded.meta["envelope"];
  const SplitTable& table = table_of(kH100Pcie);
  const auto& envelope = std::get<GridEnvelope>(table.envelope());
  EXPECT_EQ(envelope.grid, meta["K_grid"].get<std::vector<std::uint64_t>>());
  EXPECT_EQ(envelope.grid.front(), meta["K_min"].get<std::uint64_t>());
  EXPECT_EQ(envelope.grid.back(), meta["K_max"].get<std::uint64_t>());
  EXPECT_EQ(envelope.bounds.size(), meta["bounds"].size());
  for (const auto& entry : meta["bounds"]) {
    const auto setting = table.setting(entry["out"].get<std::string>(), entry["fast"].get<bool>(),
                                       entry["fmt_a"].get<std::string>(), entry["fmt_b"].get<std::string>());
    const auto workspace = table.workspace(entry["ws"].get<std::int64_t>());
    EXPECT_EQ(envelope.bounds.at({workspace.value(), setting.value()}),
              entry["B"].get<std::vector<std::uint64_t>>());
  }
  EXPECT_EQ(envelope.held_out.size(), meta["validation"].size());
  for (const auto& [workspace, entry] : meta["validation"].items()) {
    const GridEnvelope::HeldOut& test = envelope.held_out.at(table.workspace(std::stoll(workspace)).value());
    EXPECT_EQ(test.validated, entry["status"] == "validated");
    EXPECT_EQ(test.tested, entry["tested"].get<std::uint64_t>());
    EXPECT_EQ(test.split_above_bound, entry["split_above_bound"].get<std::uint64_t>());
  }
}

}  // namespace
}  // namespace mmaemu
