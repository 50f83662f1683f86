// The recorded cases of tests/data/golden as C++ values; its README.md defines every field. Contents are read
// lazily: a case names its arrays, an Archives object opens them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mmaemu/formats.h"
#include "mmaemu/plan.h"
#include "mmaemu/platform.h"
#include "mmaemu/preset.h"

#include "npz.h"

namespace mmaemu::testing::golden {

// The directory the build was configured with.
std::filesystem::path directory();

struct ArrayRef {
  std::string archive;  // relative to the golden directory, without ".npz"
  std::string key;
};

// The archives of the golden directory, each opened on first use.
class Archives {
 public:
  const NpzArray& array(const ArrayRef& ref);

 private:
  std::map<std::string, Npz> open_;
};

// A chain: d[r] = c[r] + sum over k of a[r, k] * b[r, k].
struct DotCase {
  std::string id;
  Preset preset;
  FormatId a_format = FormatId::e4m3;
  FormatId b_format = FormatId::e4m3;
  bool tile = false;  // a [T, i, K], b [T, j, K], c and d [T, i, j] instead of rows
  ArrayRef a;
  ArrayRef b;
  std::optional<ArrayRef> c;
  ArrayRef d;
};

// What an output of a call must be: bits of a shape, bits of a hash, or an error of a class.
struct Expected {
  std::optional<ArrayRef> bits;
  std::vector<std::int64_t> shape;       // of bits; empty: the array's own
  std::string sha256;                    // of the bits in row-major order
  std::optional<std::int64_t> resolved;  // the S that splitk="auto" resolves to
  std::string error;
};

// A scale tensor. Row-wise scales have the value 0.25 + 0.0625 * ((7 * i) mod 16) at i.
struct ScaleSpec {
  std::string dtype = "float32";
  std::vector<std::int64_t> shape;
  bool rowwise = false;
  float value = 1.0F;
};

struct BiasSpec {
  std::string dtype;
  std::int64_t length = 0;
};

// An out= tensor. Not contiguous: the transpose of a contiguous tensor.
struct OutSpec {
  std::string dtype;
  std::vector<std::int64_t> shape;
  bool contiguous = true;
};

// How an operand, stored as rows of K codes, lies in memory.
struct OperandSpec {
  std::string dtype;
  bool standard = true;     // rows of K are contiguous; else columns are
  std::int64_t ld_pad = 0;  // added to the leading dimension
  std::int64_t offset = 0;  // storage offset in elements
};

enum class Api {
  scaled_mm,
  accumulate,
  accumulate_then_epilogue,  // the accumulator, then the epilogue of the scales and out_dtype done by the
                             // test
};

// One call of scaled_mm (or of accumulate) with all its arguments.
struct Call {
  std::string name;  // of the output, unique within its case
  Api api = Api::scaled_mm;
  bool diagonal = false;                                   // the expected bits are the diagonal of the result
  std::optional<std::vector<std::int64_t>> zero_operands;  // [M, N, K]: operands of zero codes, no arrays
  OperandSpec input;
  OperandSpec mat2;
  ScaleSpec scale_a;
  ScaleSpec scale_b;
  std::optional<ScaleSpec> scale_result;
  std::optional<BiasSpec> bias;
  bool positional_bias = false;  // which C++ cannot tell from a keyword
  std::optional<OutSpec> out;
  std::optional<std::string> out_dtype;  // as passed
  bool fast = false;                     // as passed, else torch's default
  SplitRequest splitk;
  bool grad_mode = true;
  std::vector<std::string> requires_grad;  // of "input", "mat2", "scale_a", "scale_b"
  Expected expected;
};

// Operands that NumPy's generator makes from a seed: a [M, K], then b [N, K], each magnitudes below 120 and
// then signs.
struct SeededOperands {
  std::uint32_t seed = 0;
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
};

// Calls with the same operands: the arrays, or those of the seed.
struct CallCase {
  std::string id;
  std::string profile;
  ArrayRef a;
  ArrayRef b;
  std::optional<SeededOperands> seeded;
  std::vector<Call> calls;
};

// A set of the MATLAB Tensor Core toolbox: operands and results as fp32 bits.
struct ToolboxSet {
  std::string id;
  Preset preset;
  bool zero_c = false;  // recorded without a C: c counts as 0 whatever the array holds
  FormatId format = FormatId::e4m3;
  ArrayRef a;
  ArrayRef b;
  ArrayRef c;
  ArrayRef d;
};

struct Rtx4060 {
  std::vector<DotCase> dots;    // kind "mma"
  std::vector<CallCase> calls;  // kinds "gemm" and "call"
};

// Each reads its files anew. std::runtime_error names the file and line that cannot be read.
Rtx4060 load_rtx4060();
std::vector<CallCase> load_oracle();  // two calls a case: "y" and "acc"
std::vector<CallCase> load_auto();    // splitk="auto"
std::vector<DotCase> load_dots();
std::vector<ToolboxSet> load_toolbox();

}  // namespace mmaemu::testing::golden
