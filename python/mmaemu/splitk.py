"""Which split of K the platform's cuBLAS takes."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

from . import _emit, _native, platforms
from .platforms import Profile
from .presets import _integer, _text, plain


@dataclasses.dataclass(frozen=True)
class SplitK:
    """An explicit split of K in S parts.

    S > 1 needs scheme "serial" or "pairwise" (ada profiles) or "contiguous" (hopper profiles); S = 1 has scheme
    "none". TypeError or ValueError otherwise.
    """

    S: int = 1
    scheme: str = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "S", bounded("SplitK", "S", self.S))
        _native.validate_split(self.S, plain(_text("SplitK", "scheme", self.scheme)))


@dataclasses.dataclass(frozen=True)
class SplitDecision:
    """The split of a call, and where the decision comes from.

    source: "explicit", "workspace0", "table", "live-query" or "envelope". verified: this kind of decision was
    replayed on hardware. table_id: the recorded table that was asked, if one was.
    """

    S: int
    scheme: str
    source: str
    verified: bool
    table_id: str | None
    note: str


def bounded(owner: str, field: str, value: Any) -> int:
    """An int that C++ can hold."""
    number = _integer(owner, field, value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{owner}: {field} = {number} does not fit 64 bits")
    return number


def split_argument(splitk: Any) -> Any:
    """The native form of a splitk= argument: None for "auto", an int, or (S, scheme). Checks types alone."""
    if isinstance(splitk, str) and splitk == "auto":
        return None
    if isinstance(splitk, SplitK):
        return (splitk.S, splitk.scheme)
    if isinstance(splitk, tuple) and len(splitk) == 2 and isinstance(splitk[1], str):
        return (bounded("splitk", "S", splitk[0]), plain(splitk[1]))
    if isinstance(splitk, numbers.Integral) and not isinstance(splitk, bool):
        return bounded("splitk", "S", splitk)
    raise TypeError(f'splitk must be "auto", 1, a SplitK or an (S, scheme) tuple, not {splitk!r}')


def to_decision(native: _native.SplitDecision) -> SplitDecision:
    return SplitDecision(native.S, native.scheme, native.source, native.verified, native.table_id, native.note)


def dtype_name(argument: str, dtype: Any) -> str:
    """The name of a torch or numpy dtype, or of a format given as text. TypeError for anything else."""
    if isinstance(dtype, str):
        return plain(dtype)
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)  # numpy.dtype, or a scalar type
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a dtype or the name of one, not {dtype!r}")
    return name


def resolve_splitk(
    M: int,
    N: int,
    K: int,
    *,
    a_dtype: Any,
    b_dtype: Any,
    out_dtype: Any,
    use_fast_accum: bool,
    profile: str | Profile | None = None,
    splitk: Any = "auto",
    layout_std: bool = True,
    strict: bool | None = None,
    dry: bool = False,
) -> SplitDecision:
    """The split-K decision for an M x N x K call on the profile's platform.

    In this order: explicit, workspace0, table, live-query, envelope. dtypes are torch or numpy dtypes or names
    ("e4m3", "float32"); out_dtype None means a_dtype. layout_std: the operands are contiguous in the standard
    layout. strict: no inference by envelope; None: $MMAEMU_SPLITK_STRICT. dry: warnings do not use up their once
    per process. Raises SplitKUnknownError where the evidence ends, ValueError for sizes and splits out of range.
    """
    for name, flag in (("use_fast_accum", use_fast_accum), ("layout_std", layout_std), ("dry", dry)):
        if not is_bool(flag):
            raise TypeError(f"resolve_splitk(): {name} must be a bool, not {type(flag).__name__}")
    if strict is not None and not is_bool(strict):
        raise TypeError(f"resolve_splitk(): strict must be None or a bool, not {type(strict).__name__}")
    M, N, K = (bounded("resolve_splitk()", name, size) for name, size in (("M", M), ("N", N), ("K", K)))
    a_name = dtype_name("a_dtype", a_dtype)
    decision, warnings = _native.resolve_splitk(
        M,
        N,
        K,
        a_name,
        dtype_name("b_dtype", b_dtype),
        a_name if out_dtype is None else dtype_name("out_dtype", out_dtype),
        bool(use_fast_accum),
        platforms.to_native(platforms.get_profile(profile)),
        split_argument(splitk),
        bool(layout_std),
        None if strict is None else bool(strict),
    )
    _emit.emit(warnings, dry=bool(dry))
    return to_decision(decision)


def is_bool(value: Any) -> bool:
    """Whether value is a bool or a numpy.bool_, without importing numpy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
