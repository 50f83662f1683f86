// The products of the smoke gate: small, and each of a kind that a wrong kernel gets wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mmaemu/gemm.h"

#include "cuda/registry.h"

namespace mmaemu::cuda {

struct SmokeProduct {
  std::string name;
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
  FormatPair formats{};
  Accumulation how;
  Epilogue epilogue;
  FormatId out = FormatId::float32;
  std::vector<std::uint8_t> a;  // [M, K]
  std::vector<std::uint8_t> b;  // [N, K]
};

// Those of a kernel; the same in every process.
std::vector<SmokeProduct> smoke_products(const Kernel& kernel);

}  // namespace mmaemu::cuda
