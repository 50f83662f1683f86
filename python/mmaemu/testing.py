"""Helpers for tests that compare results bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_SHOWN = 10


def bits(t: torch.Tensor) -> torch.Tensor:
    """The integer view of t with the same element size (uint8, int16, int32 or int64), without a copy.

    TypeError for what is no tensor and for complex dtypes.
    """
    import torch

    if not isinstance(t, torch.Tensor):
        raise TypeError(f"bits(): t must be a torch.Tensor, not {type(t).__name__}")
    if t.is_complex():
        raise TypeError(f"bits(): t must not be complex, as {t.dtype} is")
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return t.detach().view(integers[t.element_size()])


def assert_bitwise_equal(actual: torch.Tensor, expected: torch.Tensor, *, nan: str = "bits", msg: str = "") -> None:
    """Asserts equal dtype, shape and bits. The tensors may live on any device; they are compared on the CPU.

    nan="mask" accepts any NaN payload where both are NaN. The AssertionError counts the mismatches by class (zero
    sign, NaN payload, value) and lists the first ten.
    """
    import torch

    if nan not in ("bits", "mask"):
        raise ValueError(f'assert_bitwise_equal(): nan must be "bits" or "mask", not {nan!r}')
    for name, value in (("actual", actual), ("expected", expected)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"assert_bitwise_equal(): {name} must be a torch.Tensor, not {type(value).__name__}")
    prefix = f"{msg}: " if msg else ""
    if actual.dtype != expected.dtype:
        raise AssertionError(f"{prefix}actual is {actual.dtype}, expected is {expected.dtype}")
    if actual.shape != expected.shape:
        raise AssertionError(f"{prefix}actual has shape {list(actual.shape)}, expected has {list(expected.shape)}")
    actual, expected = (t.detach().cpu() for t in (actual, expected))
    actual_bits, expected_bits = bits(actual), bits(expected)
    differs = actual_bits != expected_bits
    if not differs.any():
        return
    both_nan = _is_nan(actual) & _is_nan(expected)
    if nan == "mask":
        differs &= ~both_nan
        if not differs.any():
            return
    both_zero = _is_zero(actual) & _is_zero(expected)
    counts = {
        "zero sign": int((differs & both_zero).sum()),
        "NaN payload": int((differs & both_nan).sum()),
    }
    counts["value"] = int(differs.sum()) - sum(counts.values())
    where = differs.nonzero()
    width = 2 * actual.element_size()
    mask = (1 << 8 * actual.element_size()) - 1
    lines = []
    for index in map(tuple, where[:_SHOWN].tolist()):
        kind = "zero sign" if both_zero[index] else "NaN payload" if both_nan[index] else "value"
        shown = [
            f"{values[index].item()!r} (0x{int(codes[index]) & mask:0{width}x})"
            for values, codes in ((actual, actual_bits), (expected, expected_bits))
        ]
        lines.append(f"  {list(index)}: actual {shown[0]}, expected {shown[1]}: {kind}")
    summary = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    raise AssertionError(
        f"{prefix}{int(differs.sum())} of {actual.numel()} elements of {actual.dtype} {list(actual.shape)} differ "
        f"({summary}); the first {len(lines)}:\n" + "\n".join(lines)
    )


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t.double() if t.is_floating_point() else t


def _is_nan(t: torch.Tensor) -> torch.Tensor:
    wide = _wide(t)
    return wide != wide


def _is_zero(t: torch.Tensor) -> torch.Tensor:
    return _wide(t) == 0
