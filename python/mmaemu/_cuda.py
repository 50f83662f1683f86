"""Products of CUDA tensors by a CUDA kernel: layouts and memory as the library takes them, in torch's current stream.

Nothing here waits for the device. torch's allocator gives memory back in the order of the stream, so that temporaries
may go out of scope before the kernels have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _arrays, _native

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 16  # bytes, of the rows that a kernel reads


def serves(plan: _native.CallPlan) -> bool:
    """Whether a CUDA kernel runs a planned call."""
    return plan.backend.startswith("cuda:")


def current_stream(tensor: torch.Tensor) -> tuple[int, int]:
    """The index of the tensor's device and the address of torch's current stream on it."""
    import torch

    return tensor.device.index, torch.cuda.current_stream(tensor.device).cuda_stream


def _rows(matrix: torch.Tensor) -> torch.Tensor:
    """The codes with contiguous, aligned rows, K filled up with zeros to a multiple of 16; a copy only where needed."""
    import torch

    codes = matrix.view(torch.uint8)
    rows, depth = codes.shape
    if depth % _ALIGNMENT:
        filled = codes.new_zeros(rows, depth + -depth % _ALIGNMENT)
        filled[:, :depth] = codes
        return filled
    if not codes.is_contiguous() or codes.data_ptr() % _ALIGNMENT:
        return codes.clone(memory_format=torch.contiguous_format)
    return codes


def product(
    plan: _native.CallPlan,
    a: torch.Tensor,
    b: torch.Tensor,
    preset: _native.Preset,
    fast: bool,
    out_dtype: torch.dtype,
    scales: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None = None,
) -> torch.Tensor:
    """The product of a [M, K] and b [N, K] on their device: scaled_mm's with scales, else the fp32 accumulator."""
    import torch

    with torch.no_grad():
        codes = _rows(a), _rows(b)  # held until the kernels are in the stream
        a_view, b_view = (
            _native.OperandView(c.data_ptr(), _arrays.dtype_of(t), c.shape[0], c.shape[1], c.shape[1], 1)
            for c, t in zip(codes, (a, b), strict=True)
        )
        result = a.new_empty(plan.M, plan.N, dtype=out_dtype)
        split = plan.split
        assert split is not None, "a plan without an error has a split"
        call = (plan.backend, a_view, b_view, preset, fast, split.S, split.scheme, _arrays.result_view(result))
        workspace = a.new_empty(_native.cuda_workspace_bytes(*call), dtype=torch.uint8)
        held = None if scales is None else [None if s is None else s.resolve_neg() for s in scales]
        addresses = None if held is None else [0 if s is None else s.data_ptr() for s in held]
        device, stream = current_stream(a)
        _native.cuda_product(*call, addresses, device, stream, workspace.data_ptr(), workspace.numel())
        return result
