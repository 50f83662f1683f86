// The public API against recorded bits: mma.sync recordings of an RTX 4060, the chains and GEMMs of an oracle
// that replays H100 recordings, and the split decisions of tests/data/golden/oracle.
#include <bit>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "mmaemu/gemm.h"
#include "mmaemu/platform.h"

#include "npz.h"

namespace mmaemu::testing {
namespace {

using Json = nlohmann::json;

const std::string kGolden = MMAEMU_GOLDEN_DIR;

std::vector<Json> read_lines(const std::string& file) {
  std::ifstream in(kGolden + "/" + file);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

OperandView rows_of(const NpzArray& array, const Json& format_name) {
  const std::int64_t depth = array.shape.back();
  const std::int64_t rows = depth == 0 ? 0 : static_cast<std::int64_t>(array.bytes.size()) / depth;
  return {array.bytes.data(), find_format(format_name.get<std::string>()).value(), rows, depth, depth, 1};
}

Preset preset_of(const Json& preset) {
  if (preset.is_string()) return find_preset(preset.get<std::string>()).value();
  Preset p;
  p.name = preset.at("name");
  p.nfma = preset.at("nfma");
  p.frac = preset.at("frac");
  p.frac_out = preset.at("frac_out");
  p.min_exp = preset.at("min_exp");
  p.late_c = preset.at("late_c");
  return p;
}

float number(const Json& bits) {
  return std::bit_cast<float>(bits.get<std::uint32_t>());
}

bool same_bytes(const NpzArray& want, const void* got, std::size_t bytes) {
  return want.bytes.size() == bytes && std::memcmp(want.bytes.data(), got, bytes) == 0;
}

TEST(Recordings, ChainsOfTheRtx4060AreReproduced) {
  std::map<std::string, Npz> archives;
  int cases = 0;
  for (const Json& c : read_lines("rtx4060/cases.jsonl")) {
    if (c.at("kind") != "mma") continue;
    const auto array = [&](const char* name) -> decltype(auto) {
      const std::string shard = c.at(name).at(0);
      if (!archives.contains(shard))
        archives.emplace(shard, Npz::open(kGolden + "/rtx4060/" + shard + ".npz"));
      return archives.at(shard).array(c.at(name).at(1).get<std::string>());
    };
    OperandView a = rows_of(array("a"), c.at("fmt_a"));
    OperandView b = rows_of(array("b"), c.at("fmt_b"));
    const auto* start = reinterpret_cast<const float*>(array("c").bytes.data());
    const NpzArray& want = array("d");
    std::vector<float> d(want.bytes.size() / 4);
    const Preset preset = preset_of(c.at("preset"));
    if (c.at("layout") == "tile") {
      // D[t, i, j] = chain over k of a[t, i, k] * b[t, j, k]: one row of a against all rows of b at a time.
      const std::int64_t tiles = array("a").shape[0];
      const std::int64_t in_a = array("a").shape[1];
      const std::int64_t in_b = array("b").shape[1];
      OperandView left = a;
      OperandView right = b;
      left.rows = right.rows = in_b;
      left.row_stride = 0;
      for (std::int64_t ti = 0; ti < tiles * in_a; ++ti) {
        left.data = static_cast<const char*>(a.data) + ti * a.depth;
        right.data = static_cast<const char*>(b.data) + ti / in_a * in_b * b.depth;
        ASSERT_TRUE(dot(left, right, start + ti * in_b, preset, d.data() + ti * in_b).ok());
      }
    } else {
      ASSERT_TRUE(dot(a, b, start, preset, d.data()).ok());
    }
    EXPECT_TRUE(same_bytes(want, d.data(), d.size() * 4)) << c.at("id");
    ++cases;
  }
  EXPECT_EQ(cases, 94);
}

TEST(Recordings, ChainsOfTheOracleAreReproduced) {
  Npz arrays = Npz::open(kGolden + "/oracle/dot_arrays.npz");
  int cases = 0;
  for (const Json& c : read_lines("oracle/dot.jsonl")) {
    const auto array = [&](const char* name) -> decltype(auto) {
      return arrays.array(c.at(name).get<std::string>());
    };
    const OperandView a = rows_of(array("a"), c.at("fmt_a"));
    const OperandView b = rows_of(array("b"), c.at("fmt_b"));
    const auto* start =
        c.at("c").is_null() ? nullptr : reinterpret_cast<const float*>(array("c").bytes.data());
    const NpzArray& want = array("d");
    std::vector<float> d(want.bytes.size() / 4);
    ASSERT_TRUE(dot(a, b, start, preset_of(c.at("preset")), d.data()).ok());
    EXPECT_TRUE(same_bytes(want, d.data(), d.size() * 4)) << "dot/" << c.at("id");
    ++cases;
  }
  EXPECT_EQ(cases, 500);
}

TEST(Recordings, ProductsOfTheH100OracleAreReproduced) {
  Npz arrays = Npz::open(kGolden + "/oracle/arrays.npz");
  int cases = 0;
  for (const Json& c : read_lines("oracle/cases.jsonl")) {
    const auto array = [&](const char* name) -> decltype(auto) {
      return arrays.array(c.at(name).get<std::string>());
    };
    const OperandView a = rows_of(array("a"), c.at("fmt_a"));
    const OperandView b = rows_of(array("b"), c.at("fmt_b"));
    const SplitK split{c.at("splitk").at(0), find_scheme(c.at("splitk").at(1).get<std::string>()).value()};
    const Accumulation how{find_profile(c.at("profile").get<std::string>()).value().preset, c.at("fast"),
                           split};
    std::vector<float> acc(static_cast<std::size_t>(a.rows * b.rows));
    ASSERT_TRUE(accumulate(a, b, how, {acc.data(), FormatId::float32, a.rows, b.rows, b.rows, 1}).ok());
    EXPECT_TRUE(same_bytes(array("acc"), acc.data(), acc.size() * 4)) << c.at("id") << "/acc";
    const FormatId out = find_format(c.at("out_dtype").get<std::string>()).value();
    Epilogue epilogue{number(c.at("scale_a_bits")), number(c.at("scale_b_bits")), std::nullopt};
    if (!c.at("scale_result_bits").is_null()) epilogue.scale_result = number(c.at("scale_result_bits"));
    std::vector<char> y(acc.size() * static_cast<std::size_t>(format(out).bytes()));
    ASSERT_TRUE(scaled_mm(a, b, how, epilogue, {y.data(), out, a.rows, b.rows, b.rows, 1}).ok());
    EXPECT_TRUE(same_bytes(array("y"), y.data(), y.size())) << c.at("id") << "/y";
    ++cases;
  }
  EXPECT_EQ(cases, 600);
}

TEST(Recordings, SplitDecisionsOfTheOracleAreReproduced) {
  int queries = 0;
  for (const Json& q : read_lines("oracle/splitk_queries.jsonl")) {
    const SplitQuery query{.M = q.at("M"),
                           .N = q.at("N"),
                           .K = q.at("K"),
                           .a_format = q.at("a_dtype"),
                           .b_format = q.at("b_dtype"),
                           .out_dtype = q.at("out_dtype"),
                           .fast = q.at("fast"),
                           .layout_std = q.at("layout_std"),
                           .strict = q.at("strict").get<bool>()};
    const Json& asked = q.at("splitk");
    SplitRequest request = SplitAuto{};
    if (asked.is_number()) request = asked.get<std::int64_t>();
    if (asked.is_array()) request = SplitK{asked.at(0), find_scheme(asked.at(1).get<std::string>()).value()};
    const auto got = resolve_splitk(query, find_profile(q.at("profile").get<std::string>()).value(), request);
    Json answer = {{"warnings", Json::array()}};
    if (got.ok()) {
      const SplitDecision& d = got.value().decision;
      answer["decision"] = {
          {"S", d.S}, {"scheme", name(d.scheme)}, {"source", d.source}, {"verified", d.verified}};
      answer["decision"]["table_id"] = d.table_id ? Json(*d.table_id) : Json();
      for (const Warning& w : got.value().warnings) answer["warnings"].push_back(class_name(w.kind));
    } else {
      answer["error"] = class_name(got.error().kind);
    }
    for (const char* field : {"decision", "error", "warnings"})
      EXPECT_EQ(answer.value(field, Json()), q.value(field, Json())) << field << " of query " << q;
    ++queries;
  }
  EXPECT_EQ(queries, 4000);
}

TEST(Recordings, EveryRowOfTheSplitTablesIsFound) {
  std::int64_t rows = 0;
  for (const auto& [file, profile_name] :
       {std::pair<std::string, const char*>{"rtx4060", "ada"}, {"h100pcie", "hopper"}}) {
    Npz table = Npz::open(std::string(MMAEMU_TABLE_DIR) + "/" + file + ".npz");
    const std::array<const char*, 2> formats{"e4m3", "e5m2"};
    const std::array<const char*, 5> outs{"float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"};
    const auto& [M, N, K] = std::tie(table.array("M"), table.array("N"), table.array("K"));
    std::ifstream description(std::string(MMAEMU_TABLE_DIR) + "/" + file + ".json");
    const Json codes = Json::parse(description).at("codes");
    std::vector<Profile>
        by_workspace;  // a profile for each recorded workspace, those of no shipped profile included
    for (const Json& workspace : codes.at("ws")) {
      by_workspace.push_back(find_profile(profile_name).value());
      by_workspace.back().workspace_bytes = workspace.get<std::int64_t>();
    }
    const auto byte = [&](const char* column) { return table.array(column).as<std::uint8_t>(); };
    const auto fa = byte("fa"), fb = byte("fb"), out = byte("out"), fast = byte("fast"), ws = byte("ws");
    const auto split = byte("splitK");
    const auto size = [](const NpzArray& a, std::size_t i) {
      std::uint32_t v = 0;
      std::memcpy(&v, a.bytes.data() + 4 * i, 4);
      return std::int64_t{v};
    };
    for (std::size_t i = 0; i < ws.size(); ++i) {
      ++rows;
      const SplitQuery query{size(M, i),     size(N, i),     size(K, i),
                             formats[fa[i]], formats[fb[i]], outs[out[i]],
                             fast[i] != 0,   true,           true};
      const auto got = resolve_splitk(query, by_workspace[ws[i]], SplitAuto{});
      ASSERT_TRUE(got.ok()) << file << " row " << i;
      ASSERT_EQ(got.value().decision.S, std::max<std::int64_t>(split[i], 1)) << file << " row " << i;
    }
  }
  EXPECT_EQ(rows, 2995864);
}

}  // namespace
}  // namespace mmaemu::testing
