"""The entry points: scaled_mm and accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _arrays, _cuda, _emit, _native, contract, platforms
from ._compile import untraced
from .platforms import Profile

if TYPE_CHECKING:
    import torch


class _Float32:
    """The default of out_dtype_for_split: torch.float32, without importing torch."""

    def __repr__(self) -> str:
        return "torch.float32"


_FLOAT32 = _Float32()


@untraced
def scaled_mm(
    input: torch.Tensor,
    mat2: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
    profile: str | Profile | None = None,
    splitk: Any = "auto",
    backend: str = "auto",
) -> torch.Tensor:
    """torch._scaled_mm of torch 2.7.1 with the bits of the profile's platform.

    input [M, K] row-major and mat2 [K, N] column-major, FP8; K and N multiples of 16; mat2 may be a PackedWeight.
    scale_a, scale_b and scale_result: one float32 element each, scale_result used for FP8 results only. out_dtype:
    float32, bfloat16, float16 or FP8; None: out's, else input's. use_fast_accum: one chain over K instead of one per
    128 elements. out: written only if the call succeeds. profile: None is $MMAEMU_PROFILE or "hopper". splitk: "auto",
    1, (S, scheme) or a SplitK. Returns [M, N].

    Raises ReferenceRejectsError where torch 2.7.1 or the platform's cuBLAS rejects the call,
    UnsupportedFeatureError for bias, row-wise scales and grad mode, SplitKUnknownError where "auto" cannot
    decide, BackendUnavailableError for a backend that cannot serve, TypeError and ValueError for bad arguments.
    Temporary memory: the result once more where out= is given, and what the library's gemm.h and cuda.h state. A CUDA
    kernel runs in torch's current stream and is not waited for.
    """
    call = contract.Call(
        input,
        mat2,
        scale_a,
        scale_b,
        bias,
        scale_result,
        out_dtype,
        use_fast_accum,
        out,
        profile,
        splitk,
        backend,
    )
    return execute(call)[0]


def execute(call: contract.Call, *, quiet: bool = False) -> tuple[torch.Tensor, _native.CallPlan]:
    """scaled_mm's result for a call, and the plan that gave it. quiet: emits no warnings; the plan holds them."""
    plan = call.plan()
    if plan.error is None:
        call.check_runnable(plan)
    if not quiet:
        _emit.emit(plan.warnings)
    plan.raise_error()
    return _run_scaled_mm(call, plan), plan


def _run_scaled_mm(call: contract.Call, plan: _native.CallPlan) -> torch.Tensor:
    import torch

    if plan.out_action == "unchanged":
        return call.out
    dtype = getattr(torch, plan.out_dtype)
    with torch.no_grad():
        if plan.zero_size:
            result = torch.zeros(plan.M, plan.N, dtype=dtype, device=call.input.device)
        else:
            result = _compute(call, plan, dtype)
        if call.out is None:
            return result
        if plan.out_action == "resize":
            call.out.resize_(plan.M, plan.N)
        return call.out.copy_(result)


def _compute(call: contract.Call, plan: _native.CallPlan, dtype: torch.dtype) -> torch.Tensor:
    import torch

    assert plan.split is not None, "every call that computes has one"
    b = call.mat2 if _arrays.is_packed(call.mat2) else call.mat2.t()
    if _cuda.serves(plan):
        preset = platforms.to_native(call.profile).preset
        scales = (call.scale_a, call.scale_b, call.scale_result)
        return _cuda.product(plan, call.input, b, preset, call.use_fast_accum, dtype, scales)
    a = _arrays.on_host(call.input)
    result = torch.empty(plan.M, plan.N, dtype=dtype, device="cpu")
    _native.scaled_mm(
        _arrays.operand_view(a),
        _arrays.right_operand(b),
        platforms.to_native(call.profile).preset,
        call.use_fast_accum,
        plan.split.S,
        plan.split.scheme,
        call.scale_a.item(),
        call.scale_b.item(),
        None if call.scale_result is None else call.scale_result.item(),
        _arrays.result_view(result),
        _arrays.threads(),
    )
    return result.to(call.input.device)


@untraced
def accumulate(
    a: Any,
    b: Any,
    *,
    use_fast_accum: bool,
    profile: str | Profile | None = None,
    splitk: Any = "auto",
    backend: str = "auto",
    out_dtype_for_split: Any = _FLOAT32,
) -> Any:
    """The fp32 [M, N] accumulator of a @ b.T before the scales, as the profile's cuBLAS computes it.

    a [M, K] and b [N, K], both float8_e4m3fn or float8_e5m2 as torch tensors, numpy arrays of ml_dtypes or DLPack
    producers, b also as a PackedWeight; any layout, alignment and K. out_dtype_for_split: the result dtype under which
    the split decision is looked up. Returns a tensor for tensors, an array for arrays.

    Raises TypeError for other types and for a mixture of tensors and arrays, ValueError for sizes and devices,
    and what scaled_mm raises for the split, the backend and grad mode.
    """
    a, b = _arrays.from_dlpack(a), _arrays.from_dlpack(b)
    packed = _arrays.is_packed(b)
    arrays = _arrays.is_numpy(a) and (packed or _arrays.is_numpy(b))
    if not arrays and not (_arrays.is_tensor(a) and (packed or _arrays.is_tensor(b))):
        raise TypeError(
            "accumulate(): a and b must both be torch tensors or both numpy arrays, not "
            f"{_arrays.kind_name(a)} and {_arrays.kind_name(b)}"
        )
    if out_dtype_for_split is _FLOAT32:
        out_dtype_for_split = "float32" if arrays else _torch_float32()
    plan, chosen = contract.plan_accumulate(a, b, use_fast_accum, profile, splitk, backend, out_dtype_for_split)
    _emit.emit(plan.warnings)
    plan.raise_error()
    if not plan.zero_size:
        for name, value in (("a", a), ("b", b)):
            _arrays.check_has_data(name, value)
        if arrays or a.device.type == "cpu":
            contract.check_float_environment()
    if not arrays and _cuda.serves(plan):
        preset = platforms.to_native(chosen).preset
        return _cuda.product(plan, a, b, preset, bool(use_fast_accum), _torch_float32())
    result = _arrays.empty_float32((plan.M, plan.N), like=a)
    if plan.zero_size:
        result[...] = 0
        return result if arrays else result.to(a.device)
    assert plan.split is not None, "every call that computes has one"
    _native.accumulate(
        _arrays.operand_view(_arrays.on_host(a)),
        _arrays.right_operand(b),
        platforms.to_native(chosen).preset,
        bool(use_fast_accum),
        plan.split.S,
        plan.split.scheme,
        _arrays.result_view(result),
        _arrays.threads(),
    )
    return result if arrays else result.to(a.device)


def _torch_float32() -> torch.dtype:
    import torch

    return torch.float32
