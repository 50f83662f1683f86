// The call contract of torch._scaled_mm (torch 2.7.1) with the profile's cuBLAS behind it: which calls are
// rejected, in which order, and what a call would do. docs/semantics.md, section 6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mmaemu/export.h"
#include "mmaemu/gemm.h"
#include "mmaemu/platform.h"

namespace mmaemu {

// What a tensor is, without its contents.
struct TensorDesc {
  std::string dtype;  // torch's name: "float8_e4m3fn"
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements, one per dimension
  std::int64_t offset = 0;            // elements past a 16-byte boundary; for CPU tensors the storage offset
  std::string device = "cpu";         // "cpu", "cuda:0"
  bool requires_grad = false;
};

// One call of scaled_mm, argument by argument.
struct ScaledMmCall {
  TensorDesc input;  // [M, K]
  TensorDesc mat2;   // [K, N]
  TensorDesc scale_a;
  TensorDesc scale_b;
  std::optional<TensorDesc> bias;
  std::optional<TensorDesc> scale_result;
  std::optional<std::string> out_dtype;
  bool use_fast_accum = false;
  std::optional<TensorDesc> out;
  Profile profile;
  SplitRequest splitk;
  std::string backend = "auto";
  bool grad_mode = false;
};

// What becomes of the result.
enum class OutAction {
  allocate,    // no out=: a new row-major tensor
  write,       // out= has the result's shape; row-major
  transposed,  // likewise, column-major: cuBLAS computes mat2.t() @ input.t() into it
  resize,      // out= has another shape: it becomes a row-major [M, N]
  unchanged,   // out= is neither row- nor column-major: torch computes into a copy that it drops
};

struct CallPlan {
  std::optional<Error> error;     // what the call raises; the fields below then hold what was known by then
  std::vector<Warning> warnings;  // what the call emits, in order, before it computes or raises
  std::int64_t M = 0;
  std::int64_t N = 0;
  std::int64_t K = 0;
  std::string out_dtype;
  OutAction out_action = OutAction::allocate;
  bool zero_size = false;  // M, N or K is zero: the result is empty or +0, and nothing is computed
  std::optional<SplitDecision> split;
  std::string backend;                 // what runs: "reference", or "none (...)" with the reason
  std::vector<std::string> fallbacks;  // why each backend tried before it does not serve the call
};

// Checks a call and decides what it does, in the documented order: torch's checks, the zero-size return,
// cuBLAS's checks, the profile's rejections, scope, maturity, split, backend, plan. Touches no data and no
// device. The flush-to-zero check is the caller's (flush_to_zero_active).
MMAEMU_API CallPlan plan_scaled_mm(const ScaledMmCall& call);

// One call of accumulate: a [M, K], b [N, K] in any layout.
struct AccumulateCall {
  TensorDesc a;
  TensorDesc b;
  bool use_fast_accum = false;
  Profile profile;
  SplitRequest splitk;
  std::string backend = "auto";
  std::string out_dtype_for_split = "float32";
  bool grad_mode = false;
};

// Likewise; TypeError for formats that are no operands, ValueError for sizes and devices that do not fit
// together.
MMAEMU_API CallPlan plan_accumulate(const AccumulateCall& call);

// Whether a backend can serve calls on a device, and why not.
struct BackendStatus {
  std::string name;
  bool available = false;
  std::string source;  // "native": the reference, compiled into the library; empty where unavailable
  bool validated_here = false;
  std::vector<std::string> gates;
  std::string reason;  // why it is unavailable; for the reference, the engine that runs
  friend bool operator==(const BackendStatus&, const BackendStatus&) = default;
};

// Every backend of a device ("cpu", "cuda:0"), the reference first.
MMAEMU_API std::vector<BackendStatus> backends_status(const std::string& device);

}  // namespace mmaemu
