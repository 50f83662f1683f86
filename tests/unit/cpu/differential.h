// Random GEMMs for comparing a CPU target with the model bit by bit. A case is made from a seed and an index
// alone, so that a failure can be run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mmaemu::testing {

// $MMAEMU_TEST_SEED where that is set, else a fresh one.
std::uint64_t test_seed();

// $MMAEMU_TEST_CASES where that is set, else `otherwise`.
std::int64_t test_cases(std::int64_t otherwise);

// One case: operands of some class, formats, preset, shape, strides, chains, epilogue and thread count. Small
// enough for the model: about 40,000 products.
class DifferentialCase {
 public:
  DifferentialCase(std::uint64_t seed, std::int64_t index);
  ~DifferentialCase();

  // The first difference between a target and the model, if there is one. The model computes once per case.
  std::optional<std::string> difference(std::string_view target);
  // What would be compared, and how to run it again.
  std::string description() const;

 private:
  struct State;
  State* state_;
};

}  // namespace mmaemu::testing
