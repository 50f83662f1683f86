// What the fake CUDA driver and the fake cuBLASLt are told to answer and what they were asked. Each library
// exports a function of its own name that returns its state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mmaemu::testing {

struct FakeDevice {
  std::string name;
  int multiprocessors = 0;
};

struct FakeDriver {
  std::vector<FakeDevice> devices;
  int current = -1;  // device of the current context; -1: no context
  int calls = 0;     // of any function but cuInit
  bool name_fails = false;
};

using Attributes = std::map<int, std::vector<unsigned char>>;

struct FakeLayout {
  int type = -1;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
  friend bool operator==(const FakeLayout&, const FakeLayout&) = default;
};

struct FakeCublasLt {
  int version[3] = {12, 8, 3};
  std::string failing;  // the function that fails, if any
  int failure = 7;      // its status
  int returned = 1;     // algorithms that the heuristic gives
  int state = 0;        // of the algorithm
  std::map<int, std::int32_t> config;

  int queries = 0;
  int open = 0;  // objects created and not destroyed
  int compute_type = -1;
  int scale_type = -1;
  Attributes description;
  Attributes preference;
  FakeLayout a, b, c, d;
  int requested = 0;
};

}  // namespace mmaemu::testing
