// Smoke: whole products against the CPU engine. A gated kernel's own gates: probes that count, on the
// device, results of the instruction that break the property the kernel leans on.
#include "cuda/gates.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "cuda/launcher.h"
#include "cuda/product.h"
#include "cuda/smoke.h"

namespace mmaemu::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class T>
std::span<const std::byte> as_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// The product on the device, in memory of its own.
Result<Bytes> on_device(const DeviceRuntime& runtime, const Kernel& kernel, const KernelState& loaded,
                        const Stream& stream, const SmokeProduct& p) {
  const Driver& driver = runtime.driver();
  Result<DeviceMemory> a = DeviceMemory::allocate(driver, p.a.size());
  if (!a.ok()) return a.error();
  Result<DeviceMemory> b = DeviceMemory::allocate(driver, p.b.size());
  if (!b.ok()) return b.error();
  Bytes result(static_cast<std::size_t>(p.M * p.N * format(p.out).bytes()));
  Result<DeviceMemory> out = DeviceMemory::allocate(driver, result.size());
  if (!out.ok()) return out.error();
  const std::vector<float> scales{p.epilogue.scale_a, p.epilogue.scale_b,
                                  p.epilogue.scale_result.value_or(1.0F)};
  Result<DeviceMemory> scale = DeviceMemory::allocate(driver, scales.size() * sizeof(float));
  if (!scale.ok()) return scale.error();

  const auto pointer = [](const DeviceMemory& memory) { return reinterpret_cast<void*>(memory.address()); };
  const OperandView view_a{pointer(a.value()), p.formats.a, p.M, p.K, p.K, 1};
  const OperandView view_b{pointer(b.value()), p.formats.b, p.N, p.K, p.K, 1};
  const ResultView view{pointer(out.value()), p.out, p.M, p.N, p.N, 1};
  const float* const at = static_cast<const float*>(pointer(scale.value()));
  const CudaScales device_scales{at, at + 1, p.epilogue.scale_result ? at + 2 : nullptr};
  const Product product{kernel, view_a, view_b, p.how, &device_scales, view};
  if (Status status = check(product); !status.ok()) return status.error();
  const std::size_t bytes = workspace_bytes(product);
  Result<DeviceMemory> workspace = DeviceMemory::allocate(driver, bytes);
  if (!workspace.ok()) return workspace.error();

  Status status = stream.upload(a.value().address(), as_bytes(p.a));
  if (status.ok()) status = stream.upload(b.value().address(), as_bytes(p.b));
  if (status.ok()) status = stream.upload(scale.value().address(), as_bytes(scales));
  if (status.ok())
    status = launch(runtime, loaded, product,
                    {.device = runtime.info().device,
                     .stream = stream.get(),
                     .workspace = pointer(workspace.value()),
                     .workspace_bytes = bytes});
  if (status.ok()) status = stream.download(result, out.value().address());
  if (!status.ok()) return status.error();
  return result;
}

// The same product by the CPU engine.
Result<Bytes> expected(const SmokeProduct& p) {
  Bytes result(static_cast<std::size_t>(p.M * p.N * format(p.out).bytes()));
  const Status status =
      scaled_mm({p.a.data(), p.formats.a, p.M, p.K, p.K, 1}, {p.b.data(), p.formats.b, p.N, p.K, p.K, 1},
                p.how, p.epilogue, {result.data(), p.out, p.M, p.N, p.N, 1});
  if (!status.ok()) return status.error();
  return result;
}

std::int64_t differing(const Bytes& a, const Bytes& b, std::size_t width) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); i += width)
    if (!std::equal(a.begin() + static_cast<std::ptrdiff_t>(i),
                    a.begin() + static_cast<std::ptrdiff_t>(i + width),
                    b.begin() + static_cast<std::ptrdiff_t>(i)))
      ++count;
  return count;
}

Result<GateResult> smoke(const DeviceRuntime& runtime, const Kernel& kernel, const KernelState& loaded,
                         const Stream& stream) {
  const Clock::time_point begin = Clock::now();
  GateResult gate{
      .name = "smoke", .passed = true, .reason = {}, .details = {}, .seconds = 0, .cached = false};
  std::int64_t& elements = gate.details["elements"];
  std::int64_t& mismatches = gate.details["mismatches"];
  for (const SmokeProduct& p : smoke_products(kernel)) {
    ++gate.details["products"];
    const Result<Bytes> wanted = expected(p);
    if (!wanted.ok()) return wanted.error();
    const Result<Bytes> found = on_device(runtime, kernel, loaded, stream, p);
    if (!found.ok()) return found.error();
    elements += p.M * p.N;
    const std::int64_t wrong =
        differing(found.value(), wanted.value(), static_cast<std::size_t>(format(p.out).bytes()));
    mismatches += wrong;
    if (wrong == 0) continue;
    if (gate.passed)
      gate.reason =
          std::to_string(wrong) + " of " + std::to_string(p.M * p.N) + " elements differ in " + p.name;
    gate.passed = false;
  }
  if (gate.passed)
    gate.reason = std::to_string(gate.details["products"]) + " products, " + std::to_string(elements) +
                  " elements equal";
  gate.seconds = seconds_since(begin);
  return gate;
}

constexpr int kProbeRounds = 64;
constexpr std::int64_t kProbeResults = Launcher::kProbeWarps * kProbeRounds * (16 * 8);
constexpr std::uint32_t kProbeSeed = 20250601;

Result<GateResult> probe(const DeviceRuntime& runtime, const Kernel& kernel, std::string_view name,
                         const KernelState& loaded, const Stream& stream) {
  const Clock::time_point begin = Clock::now();
  const Driver& driver = runtime.driver();
  Result<DeviceMemory> violations = DeviceMemory::allocate(driver, sizeof(std::uint32_t));
  if (!violations.ok()) return violations.error();
  std::vector<std::uint32_t> count{0};
  const DeviceAddress address = violations.value().address();
  Launcher launcher(runtime, kernel, loaded, stream.get());
  Status status = stream.upload(address, as_bytes(count));
  if (status.ok()) {
    launcher.probe(name, address, kProbeSeed, kProbeRounds);
    status = launcher.status();
  }
  if (status.ok()) status = stream.download(std::as_writable_bytes(std::span(count)), address);
  if (!status.ok()) return status.error();
  GateResult gate{.name = std::string(name),
                  .passed = count[0] == 0,
                  .reason = {},
                  .details = {},
                  .seconds = 0,
                  .cached = false};
  gate.details["results"] = kProbeResults;
  gate.details["violations"] = count[0];
  gate.reason = std::to_string(count[0]) + " of " + std::to_string(kProbeResults) +
                " results of the instruction break the property";
  gate.seconds = seconds_since(begin);
  return gate;
}

}  // namespace

Result<std::vector<GateResult>> run_gates(const DeviceRuntime& runtime, const Kernel& kernel,
                                          const KernelState& loaded) {
  const Result<Stream> stream = Stream::create(runtime.driver());
  if (!stream.ok()) return stream.error();
  std::vector<GateResult> gates;
  for (const std::string_view name : kernel.own_gates) {
    Result<GateResult> own = probe(runtime, kernel, name, loaded, stream.value());
    if (!own.ok()) return own.error();
    gates.push_back(std::move(own).value());
    if (!gates.back().passed) return gates;
  }
  Result<GateResult> whole = smoke(runtime, kernel, loaded, stream.value());
  if (!whole.ok()) return whole.error();
  gates.push_back(std::move(whole).value());
  return gates;
}

}  // namespace mmaemu::cuda
