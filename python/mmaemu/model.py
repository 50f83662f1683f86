"""The instruction model: one tensor-core chain per row."""

from __future__ import annotations

from typing import Any

from . import _arrays, _native, presets
from ._compile import untraced
from .presets import Preset, get_preset, list_presets

__all__ = ["Preset", "dot", "get_preset", "list_presets"]

_FORMATS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


@untraced
def dot(a: Any, b: Any, c: Any = None, *, preset: str | Preset = "ada", fmt: Any = None) -> Any:
    """d = c + a_0 b_0 + a_1 b_1 + ... as one tensor-core chain per row.

    a, b: [..., K] of the same shape, FP8, or float64 holding FP8 values together with fmt ("e4m3", "e5m2" or a
    pair); torch tensors, numpy arrays or DLPack producers. c: None (+0) or float32 of shape a.shape[:-1], or
    float64 holding float32 values. Returns float32 of shape a.shape[:-1]: a tensor for tensors, an array for arrays.

    TypeError for other types and dtypes, ValueError for shapes, devices, fmt and values that do not fit, KeyError
    for an unknown preset.
    """
    a, b, c = _arrays.from_dlpack(a), _arrays.from_dlpack(b), _arrays.from_dlpack(c)
    given = [("a", a), ("b", b)] if c is None else [("a", a), ("b", b), ("c", c)]
    arrays = _arrays.is_numpy(a)
    same_library = _arrays.is_numpy if arrays else _arrays.is_tensor
    for name, value in given:
        if not same_library(value):
            raise TypeError(
                f"dot(): {name} must be a {'numpy array, as a is' if arrays else 'torch tensor'}, not "
                f"{_arrays.kind_name(value)}; a, b and c are all torch tensors or all numpy arrays"
            )
    chosen = presets.lookup(preset)
    formats = _formats(fmt)
    codes = [_codes(name, value, wanted) for (name, value), wanted in zip(given[:2], formats, strict=True)]
    shape = tuple(a.shape)
    if not shape or shape != tuple(b.shape):
        raise ValueError(
            f"dot(): a {list(shape)} and b {list(b.shape)} must have the same shape [..., K]; nothing is broadcast"
        )
    if not arrays:
        for name, value in given:
            if value.device != a.device:
                raise ValueError(f"dot(): {name} is on {value.device} and a on {a.device}; one device is needed")
            _arrays.check_has_data(name, value)
    start = None if c is None else _start(c, shape[:-1])
    presets.warn_of_maturity(preset, chosen)

    result = _arrays.empty_float32(shape[:-1], like=a)
    if 0 in shape[:-1]:
        return result if arrays else result.to(a.device)
    if shape[-1] == 0:
        count = result.size if arrays else result.numel()
        a_view, b_view = (_native.OperandView(0, _arrays.dtype_of(value), count, 0, 0, 1) for value in codes)
    else:
        rows = [_arrays.on_host(value).reshape(-1, shape[-1]) for value in codes]
        a_view, b_view = (_arrays.operand_view(value) for value in rows)
    _native.dot(
        a_view,
        b_view,
        0 if start is None else _arrays.address_of(start),
        presets.to_native(chosen),
        _arrays.address_of(result),
        _arrays.threads(),
    )
    return result if arrays else result.to(a.device)


def _formats(fmt: Any) -> tuple[str | None, str | None]:
    """The formats of a and b that fmt names."""
    if fmt is None:
        return None, None
    pair = (fmt, fmt) if isinstance(fmt, str) else fmt
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise ValueError(f'dot(): fmt must be "e4m3", "e5m2" or a pair of them, not {fmt!r}') from None
    for name in (first, second):
        if not isinstance(name, str) or name not in _FORMATS:
            raise ValueError(f'dot(): fmt must be "e4m3", "e5m2" or a pair of them, not {fmt!r}')
    return _FORMATS[first], _FORMATS[second]


def _codes(name: str, value: Any, wanted: str | None) -> Any:
    """The operand as FP8 codes of the format that its dtype or fmt gives."""
    dtype = _arrays.dtype_of(value)
    if dtype in _FORMATS.values():
        if wanted not in (None, dtype):
            raise ValueError(f"dot(): {name} is {dtype}, but fmt says {wanted}")
        return value
    if dtype != "float64":
        raise TypeError(f"dot(): {name} must be float8_e4m3fn, float8_e5m2, or float64 with fmt=, not {dtype}")
    if wanted is None:
        raise TypeError(f'dot(): {name} is float64; pass fmt="e4m3" or "e5m2" to say which values it holds')
    codes = _convert(value, wanted)
    back = _convert(codes, "float64")
    off = (back != value) & ~((back != back) & (value != value))  # NaN is the only value unlike itself
    if off.any():
        example = float(value[off].reshape(-1)[0])
        raise ValueError(f"dot(): {name} holds values that are not {wanted} values, e.g. {example!r}")
    return codes


def _convert(value: Any, dtype: str) -> Any:
    if _arrays.is_numpy(value):
        import numpy

        if not dtype.startswith("float8"):
            return value.astype(dtype)
        import ml_dtypes

        with numpy.errstate(all="ignore"):
            return value.astype(getattr(ml_dtypes, dtype))
    import torch

    return value.detach().to(getattr(torch, dtype))


def _start(c: Any, shape: tuple[int, ...]) -> Any:
    """c as contiguous float32 in host memory."""
    dtype = _arrays.dtype_of(c)
    if dtype not in ("float32", "float64"):
        raise TypeError(f"dot(): c must be float32, or float64 holding float32 values, not {dtype}")
    if tuple(c.shape) != shape:
        raise ValueError(f"dot(): c must have shape {list(shape)}, as a without K, not {list(c.shape)}")
    if dtype == "float64":
        import numpy

        with numpy.errstate(all="ignore"):
            narrow = _convert(c, "float32")
        back = _convert(narrow, "float64")
        off = (back != c) & ~((back != back) & (c != c))
        if off.any():
            example = float(c[off].reshape(-1)[0])
            raise ValueError(f"dot(): c holds values that are not float32 values, e.g. {example!r}")
        c = narrow
    if _arrays.is_numpy(c):
        import numpy

        return numpy.require(c, numpy.float32, ["C_CONTIGUOUS", "ALIGNED"])  # native byte order
    return _arrays.on_host(c).detach().resolve_neg().contiguous()
