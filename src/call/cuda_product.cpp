// cuda.h's products: from a backend's name to the kernel on the device.
#include <memory>

#include "mmaemu/cuda.h"

#include "base/memory.h"
#include "call/backend.h"
#include "cuda/product.h"

namespace mmaemu {
namespace {

Result<const cuda::Kernel*> kernel_of(const std::string& backend) {
  const cuda::Kernel* kernel = backend.starts_with("cuda:") ? cuda::find_kernel(backend) : nullptr;
  if (kernel != nullptr) return kernel;
  return Error{ErrorKind::value_error, "backend=\"" + backend + "\" is not a CUDA kernel"};
}

Status run(const std::string& backend, const OperandView& a, const OperandView& b, const Accumulation& how,
           const CudaScales* scales, const ResultView& out, const CudaQueue& queue) {
  const Result<const cuda::Kernel*> kernel = kernel_of(backend);
  if (!kernel.ok()) return kernel.error();
  const cuda::Product product{*kernel.value(), a, b, how, scales, out};
  if (Status status = cuda::check(product); !status.ok()) return status;
  const std::size_t needed = cuda::workspace_bytes(product);
  if (queue.workspace_bytes < needed || (queue.workspace == nullptr && needed > 0))
    return Error{ErrorKind::value_error, "the workspace has " + std::to_string(queue.workspace_bytes) +
                                             " bytes; the product needs " + std::to_string(needed)};
  const Result<CudaRuntime> runtime = cuda_runtime("cuda:" + std::to_string(queue.device));
  if (!runtime.ok()) return runtime.error();
  const auto unavailable = [&](const std::string& reason) {
    return Error{ErrorKind::backend_unavailable, "backend \"" + backend + "\" is unavailable: " + reason};
  };
  if (runtime.value().device == nullptr) return unavailable(runtime.value().reason);
  cuda::DeviceRuntime& device = *runtime.value().device;
  if (const std::string reason = unsupported_on(*kernel.value(), device.info()); !reason.empty())
    return unavailable(reason);
  const std::shared_ptr<const cuda::KernelState> state = device.state(*kernel.value());
  if (!state->available) return unavailable(state->reason);
  const cuda::ContextScope scope(device.driver(), device.info().device);
  if (!scope.status().ok()) return scope.status();
  return cuda::launch(device, *state, product, queue);
}

}  // namespace

Result<std::size_t> cuda_workspace_bytes(const std::string& backend, const OperandView& a,
                                         const OperandView& b, const Accumulation& how,
                                         const ResultView& out) try {
  const Result<const cuda::Kernel*> kernel = kernel_of(backend);
  if (!kernel.ok()) return kernel.error();
  const CudaScales any;
  const cuda::Product product{*kernel.value(), a, b, how, &any, out};
  if (Status status = cuda::check(product); !status.ok()) return status.error();
  return cuda::workspace_bytes(product);
} catch (...) {
  return out_of_memory();
}

Status cuda_accumulate(const std::string& backend, const OperandView& a, const OperandView& b,
                       const Accumulation& how, const ResultView& out, const CudaQueue& queue) try {
  return run(backend, a, b, how, nullptr, out, queue);
} catch (...) {
  return out_of_memory();
}

Status cuda_scaled_mm(const std::string& backend, const OperandView& a, const OperandView& b,
                      const Accumulation& how, const CudaScales& scales, const ResultView& out,
                      const CudaQueue& queue) try {
  if (scales.a == nullptr || scales.b == nullptr)
    return Error{ErrorKind::value_error, "scales: a and b must not be null"};
  return run(backend, a, b, how, &scales, out, queue);
} catch (...) {
  return out_of_memory();
}

}  // namespace mmaemu
