// Two results, bit by bit: how many elements differ, in which way, by how much, and where first.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files.h"

namespace mmaemu::command {

struct Difference {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::uint32_t code = 0;
  std::uint32_t other = 0;
};

struct Comparison {
  FormatId format = FormatId::float32;
  std::int64_t elements = 0;
  std::int64_t zero_sign = 0;        // +0 and -0
  std::int64_t nan_payload = 0;      // two NaNs
  std::int64_t value = 0;            // all else
  std::map<int, std::int64_t> ulps;  // of `value`, both finite: distances up to 2^key, not up to 2^(key - 1)
  std::vector<Difference> first;     // ten at most

  std::int64_t different() const { return zero_sign + nan_payload + value; }
  nlohmann::ordered_json to_json() const;
  std::string text() const;
};

// The matrices must have the same format and sizes.
Comparison compare(const Matrix& a, const Matrix& b);

// A code's value, for people.
std::string value_text(FormatId id, std::uint32_t code);

}  // namespace mmaemu::command
