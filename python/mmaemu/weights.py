"""Weights packed once for many products: pack and PackedWeight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _arrays, _native
from ._compile import untraced
from .errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import torch

_DTYPES = ("float8_e4m3fn", "float8_e5m2")


class PackedWeight:
    """A weight [N, K] in the order in which the CPU engine reads it; made by pack.

    Stands for w.t() as mat2 of scaled_mm and explain, and for w as b of accumulate. Immutable: a later change of the
    tensor it was made of changes nothing. Memory: two bytes an element.
    """

    __slots__ = ("_dtype", "_packed", "_shape")

    def __init__(self, packed: _native.PackedOperand, shape: tuple[int, int], dtype: str) -> None:
        self._packed = packed
        self._shape = shape
        self._dtype = dtype

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)"""
        return self._shape

    @property
    def dtype(self) -> str:
        """ "float8_e4m3fn" or "float8_e5m2"."""
        return self._dtype

    def __repr__(self) -> str:
        return f"PackedWeight(shape={self._shape}, dtype={self._dtype})"

    def __copy__(self) -> PackedWeight:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedWeight:
        return self


@untraced
def pack(w: torch.Tensor) -> PackedWeight:
    """Packs a weight for many products on the CPU; the bits of a result do not depend on it.

    w [N, K], float8_e4m3fn or float8_e5m2 as a torch tensor, a numpy array of ml_dtypes or a DLPack producer, in any
    layout. Raises TypeError for other types, ValueError for other shapes and devices, UnsupportedFeatureError for a
    tensor without data or one that requires grad in grad mode.
    """
    w = _arrays.from_dlpack(w)
    if not (_arrays.is_tensor(w) or _arrays.is_numpy(w)):
        raise TypeError(f"pack(): w must be a torch tensor or a numpy array, not {_arrays.kind_name(w)}")
    dtype = _arrays.dtype_of(w)
    if dtype not in _DTYPES:
        raise TypeError(f"pack(): w must be {_DTYPES[0]} or {_DTYPES[1]}, not {dtype}")
    if w.ndim != 2:
        raise ValueError(f"pack(): w must be [N, K], not of shape {tuple(w.shape)}")
    if _arrays.is_tensor(w):
        import torch

        if w.requires_grad and torch.is_grad_enabled():
            raise UnsupportedFeatureError("pack(): w requires grad; pack w.detach(), or under torch.no_grad()")
        if w.device.type not in ("cpu", "meta"):
            raise ValueError(f"pack(): w is on {w.device}; a packed weight serves calls on the CPU: pack w.cpu()")
        _arrays.describe("w", w)
        _arrays.check_has_data("w", w)
    packed = _native.PackedOperand.make(_arrays.operand_view(w), _arrays.threads())
    return PackedWeight(packed, (w.shape[0], w.shape[1]), dtype)
