// A product of two matrices under a platform, as `gemm`, `compare` and `bench` compute it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mmaemu/call.h"

#include "files.h"

namespace mmaemu::command {

struct ProductOptions {
  std::optional<std::string> profile;  // none: $MMAEMU_PROFILE or "hopper"
  SplitRequest splitk;
  bool fast = false;
  float scale_a = 1.0F;
  float scale_b = 1.0F;
  std::optional<float> scale_result;
  int threads = 0;
  std::string target;  // empty: $MMAEMU_CPU_TARGET or the best
};

struct Product {
  CallPlan plan;
  std::string profile;
  Matrix result;
  double seconds = 0;  // of the computation
};

// The share of the work that is done, 0 to 1.
using Progress = std::function<void(double)>;

// a [M, K], b [N, K]. Rows are computed in bands where progress is wanted; the split is decided from the
// whole.
Result<Product> multiply(const Matrix& a, const Matrix& b, FormatId out, const ProductOptions& options,
                         const Progress& progress);

}  // namespace mmaemu::command
