#include "product.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "mmaemu/gemm.h"

namespace mmaemu::command {
namespace {

// Products of a band: about a quarter of a second on a fast processor.
constexpr std::int64_t kBand = std::int64_t{1} << 33;

TensorDesc tensor(FormatId id, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  return {.dtype = std::string(format(id).dtype), .shape = std::move(shape), .strides = std::move(strides)};
}

}  // namespace

Result<Product> multiply(const Matrix& a, const Matrix& b, FormatId out, const ProductOptions& options,
                         const Progress& progress) {
  const Result<Profile> profile = find_profile_or_default(options.profile);
  if (!profile.ok()) return profile.error();
  const TensorDesc scalar = tensor(FormatId::float32, {}, {});
  ScaledMmCall call{.input = tensor(a.format, {a.rows, a.columns}, {a.columns, 1}),
                    .mat2 = tensor(b.format, {b.columns, b.rows}, {1, b.columns}),
                    .scale_a = scalar,
                    .scale_b = scalar,
                    .bias = {},
                    .scale_result = {},
                    .out_dtype = std::string(format(out).dtype),
                    .use_fast_accum = options.fast,
                    .out = {},
                    .profile = profile.value(),
                    .splitk = options.splitk,
                    .backend = "reference"};
  if (options.scale_result) call.scale_result = scalar;
  Product product{.plan = plan_scaled_mm(call), .profile = profile.value().name, .result = {}};
  if (product.plan.error) return *product.plan.error;

  const std::int64_t M = a.rows;
  const std::int64_t N = b.rows;
  const std::int64_t K = a.columns;
  const int bytes = format(out).bytes();
  std::int64_t total = 0;  // K may be 0, and M and N then anything
  if (__builtin_mul_overflow(M, N, &total) || __builtin_mul_overflow(total, bytes, &total))
    return Error{ErrorKind::value_error, "the product has [" + std::to_string(M) + ", " + std::to_string(N) +
                                             "] elements, too many to address"};
  product.result = {out, M, N, std::vector<std::uint8_t>(static_cast<std::size_t>(total))};
  const SplitK split =
      product.plan.split ? SplitK{product.plan.split->S, product.plan.split->scheme} : SplitK{};
  const Accumulation how{profile.value().preset, options.fast, split};
  const Epilogue epilogue{options.scale_a, options.scale_b, options.scale_result};
  const Execution execution{.threads = options.threads, .cancelled = {}, .target = options.target};
  const OperandView b_rows{b.bytes.data(), b.format, N, K, K, 1};
  const std::int64_t band = progress ? std::clamp<std::int64_t>(kBand / std::max<std::int64_t>(1, N * K), 1,
                                                                std::max<std::int64_t>(1, M))
                                     : M;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t row = 0; row < M; row += band) {
    const std::int64_t rows = std::min(band, M - row);
    if (progress) progress(static_cast<double>(row) / static_cast<double>(M));
    const OperandView a_rows{a.bytes.data() + row * K, a.format, rows, K, K, 1};
    const ResultView to{product.result.bytes.data() + row * N * bytes, out, rows, N, N, 1};
    if (Status s = scaled_mm(a_rows, b_rows, how, epilogue, to, execution); !s.ok()) return s.error();
  }
  if (progress) progress(1.0);
  product.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return product;
}

}  // namespace mmaemu::command
