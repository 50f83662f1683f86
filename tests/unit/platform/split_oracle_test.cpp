// 4,000 split-K queries answered by an independent implementation (tests/data/golden/oracle).
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mmaemu/platform.h"

#include "unit/platform/scoped_environment.h"

namespace mmaemu {
namespace {

using nlohmann::json;

SplitRequest request_of(const json& splitk) {
  if (splitk.is_string()) return SplitAuto{};
  if (splitk.is_number()) return splitk.get<std::int64_t>();
  return SplitK{splitk[0].get<std::int64_t>(), find_scheme(splitk[1].get<std::string>()).value()};
}

// What the oracle's line says, in its own form.
json answer_of(const json& line) {
  SplitQuery query;
  query.M = line["M"];
  query.N = line["N"];
  query.K = line["K"];
  query.a_format = line["a_dtype"];
  query.b_format = line["b_dtype"];
  query.out_dtype = line["out_dtype"];
  query.fast = line["fast"];
  query.layout_std = line["layout_std"];
  query.strict = line["strict"].get<bool>();
  const Profile profile = find_profile(line["profile"].get<std::string>()).value();
  const Result<SplitResolution> answer = resolve_splitk(query, profile, request_of(line["splitk"]));
  json result = line;
  result.erase("decision");
  result.erase("error");
  result["warnings"] = json::array();
  if (!answer.ok()) {
    result["error"] = class_name(answer.error().kind);
    return result;
  }
  const SplitDecision& d = answer.value().decision;
  result["decision"] = {
      {"S", d.S}, {"scheme", name(d.scheme)}, {"source", d.source}, {"verified", d.verified}};
  result["decision"]["table_id"] = d.table_id ? json(*d.table_id) : json(nullptr);
  for (const Warning& warning : answer.value().warnings)
    result["warnings"].push_back(class_name(warning.kind));
  return result;
}

TEST(SplitOracle, AnswersEveryQueryTheSame) {
  const testing::ScopedVariable no_cuda("MMAEMU_DISABLE_CUDA", "1");  // the oracle's machine had no such GPU
  std::ifstream file(MMAEMU_SOURCE_DIR "/tests/data/golden/oracle/splitk_queries.jsonl");
  std::size_t queries = 0;
  std::size_t wrong = 0;
  for (std::string line; std::getline(file, line); ++queries) {
    const json expected = json::parse(line);
    const json found = answer_of(expected);
    if (found == expected) continue;
    if (++wrong <= 10) ADD_FAILURE() << "expected " << expected << "\n   found " << found;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(queries, 4000U);
}

}  // namespace
}  // namespace mmaemu
