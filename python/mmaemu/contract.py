"""The arguments of a call: their types, the native plan, and what must hold before anything is computed.

The order of the checks on values is C++'s (mmaemu/call.h).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _arrays, _native, platforms
from .errors import MmaemuError, ReferenceRejectsError
from .platforms import Profile
from .presets import plain
from .splitk import dtype_name, is_bool, split_argument


def backend_argument(function: str, backend: Any) -> str:
    if not isinstance(backend, str):
        raise TypeError(f"{function}(): argument 'backend' must be str, not {_arrays.kind_name(backend)}")
    return plain(backend)


def check_split(profile: Profile, chosen: Any) -> None:
    """What scaled_mm would raise for an explicit splitk= of this profile whatever the call. TypeError for its type."""
    split = split_argument(chosen)
    if split is None:
        return
    codes = _native.TensorDesc("float8_e4m3fn", [16, 16], [16, 1], 0, "cpu", False)
    transposed = _native.TensorDesc("float8_e4m3fn", [16, 16], [1, 16], 0, "cpu", False)
    scale = _native.TensorDesc("float32", [], [], 0, "cpu", False)
    _native.plan_scaled_mm(
        codes,
        transposed,
        scale,
        scale,
        None,
        None,
        "float32",
        True,
        None,
        platforms.to_native(profile),
        split,
        "reference",
        False,
    ).raise_error()


def check_float_environment() -> None:
    """MmaemuError where the CPU flushes subnormal numbers to zero, as the API promises."""
    if _native.flush_to_zero_active():
        raise MmaemuError(
            "the CPU flushes subnormal numbers to zero, which the reference GPU does not; call "
            "torch.set_flush_denormal(False) in this thread first"
        )


@dataclasses.dataclass
class Call:
    """One call of scaled_mm. Construction checks the argument types (TypeError), then the profile's name (KeyError)."""

    input: Any
    mat2: Any
    scale_a: Any
    scale_b: Any
    bias: Any
    scale_result: Any
    out_dtype: Any
    use_fast_accum: Any
    out: Any
    profile: Any
    splitk: Any
    backend: Any

    def __post_init__(self) -> None:
        import torch

        for name in ("input", "mat2", "scale_a", "scale_b", "bias", "scale_result", "out"):
            value = getattr(self, name)
            optional = name in ("bias", "scale_result", "out")
            if name == "mat2" and _arrays.is_packed(value):
                continue
            if not (isinstance(value, torch.Tensor) or (optional and value is None)):
                self._refuse(name, "Tensor or None" if optional else "Tensor")
        if self.out_dtype is not None and not isinstance(self.out_dtype, torch.dtype):
            self._refuse("out_dtype", "torch.dtype or None")
        if not isinstance(self.use_fast_accum, bool):
            self._refuse("use_fast_accum", "bool")
        self.splitk = split_argument(self.splitk)
        self.backend = backend_argument("scaled_mm", self.backend)
        self.profile = platforms.get_profile(self.profile)

    def _refuse(self, name: str, needed: str) -> None:
        found = _arrays.kind_name(getattr(self, name))
        raise TypeError(f"scaled_mm(): argument '{name}' must be {needed}, not {found}")

    def plan(self) -> _native.CallPlan:
        import torch

        def describe(name: str) -> Any:
            value = getattr(self, name)
            return None if value is None else _arrays.describe(name, value)

        return _native.plan_scaled_mm(
            describe("input"),
            describe("mat2"),
            describe("scale_a"),
            describe("scale_b"),
            describe("bias"),
            describe("scale_result"),
            None if self.out_dtype is None else dtype_name("out_dtype", self.out_dtype),
            self.use_fast_accum,
            describe("out"),
            platforms.to_native(self.profile),
            self.splitk,
            self.backend,
            torch.is_grad_enabled(),
        )

    def check_runnable(self, plan: _native.CallPlan) -> None:
        """What a planned call still needs: an out= to write to, data in its tensors, on the CPU subnormal numbers."""
        if plan.out_action == "unchanged":
            return
        if self.out is not None:
            self._check_writable(plan)
        if plan.zero_size:
            return
        for name in ("input", "mat2", "scale_a", "scale_b", "scale_result", "out"):
            value = getattr(self, name)
            if value is not None and not (name == "out" and plan.out_action == "resize"):
                _arrays.check_has_data(name, value)
        if self.input.device.type == "cpu":
            check_float_environment()

    def _check_writable(self, plan: _native.CallPlan) -> None:
        """ReferenceRejectsError where torch could not write out=, which it may notice only after it has written."""
        import torch

        out = self.out
        if out.is_inference() and not torch.is_inference_mode_enabled():
            raise ReferenceRejectsError("out= is an inference tensor, which cannot be written outside inference mode")
        if plan.out_action == "resize":
            storage = out.untyped_storage()
            needed = (out.storage_offset() + plan.M * plan.N) * out.itemsize
            if needed > storage.nbytes() and not storage.resizable():
                raise ReferenceRejectsError(
                    f"out= of shape {list(out.shape)} cannot become [{plan.M}, {plan.N}]: its memory is not resizable"
                )
        elif any(stride == 0 and size > 1 for stride, size in zip(out.stride(), out.shape, strict=True)):
            raise ReferenceRejectsError(f"out= with strides {list(out.stride())} has several elements in one place")


def plan_accumulate(
    a: Any, b: Any, use_fast_accum: Any, profile: Any, splitk: Any, backend: Any, out_dtype_for_split: Any
) -> tuple[_native.CallPlan, Profile]:
    """The native plan of an accumulate call whose operands are two tensors or two arrays, and its profile."""
    grad_mode = False
    if not is_bool(use_fast_accum):
        raise TypeError(f"accumulate(): use_fast_accum must be a bool, not {_arrays.kind_name(use_fast_accum)}")
    if _arrays.is_tensor(a):
        import torch

        grad_mode = torch.is_grad_enabled()
        if not isinstance(out_dtype_for_split, torch.dtype):
            found = _arrays.kind_name(out_dtype_for_split)
            raise TypeError(f"accumulate(): out_dtype_for_split must be a torch.dtype, not {found}")
    out_dtype = dtype_name("out_dtype_for_split", out_dtype_for_split)
    split = split_argument(splitk)
    backend = backend_argument("accumulate", backend)
    chosen = platforms.get_profile(profile)
    plan = _native.plan_accumulate(
        _arrays.describe("a", a),
        _arrays.describe("b", b),
        bool(use_fast_accum),
        platforms.to_native(chosen),
        split,
        backend,
        out_dtype,
        grad_mode,
    )
    return plan, chosen
