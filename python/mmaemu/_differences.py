"""Two results compared bit by bit: how many elements differ, in which way, by how many ulps, and which ones."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from . import testing

if TYPE_CHECKING:
    import torch

CLASSES = ("zero sign", "NaN payload", "value")
_SHOWN = 10
_BUCKETS = 33  # a float32 has at most 2^32 ulps


@dataclasses.dataclass
class Differences:
    """counts: differing elements by class. max_ulps: the largest distance between two numbers, None without one.

    ulps: how many pairs of numbers lie less than 2^(i + 1) apart, and not less than 2^i, at place i. first: up to ten
    differing elements, in row-major order.
    """

    elements: int = 0
    counts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    max_ulps: int | None = None
    ulps: list[int] = dataclasses.field(default_factory=list)
    first: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def different(self) -> int:
        return sum(self.counts.values())

    def merge(self, other: Differences) -> None:
        """Adds those of the rows that follow."""
        self.elements += other.elements
        for kind, count in other.counts.items():
            self.counts[kind] += count
        if other.max_ulps is not None:
            self.max_ulps = max(self.max_ulps or 0, other.max_ulps)
        longer, shorter = sorted((self.ulps, other.ulps), key=len, reverse=True)
        self.ulps = [count + (shorter[i] if i < len(shorter) else 0) for i, count in enumerate(longer)]
        self.first = (self.first + other.first)[:_SHOWN]


def compare(recorded: torch.Tensor, computed: torch.Tensor, first_row: int = 0) -> Differences:
    """The differences of two matrices of one dtype and shape, in host memory. first_row: of these rows in the whole."""
    codes = [testing.bits(t) for t in (recorded, computed)]
    differs = codes[0] != codes[1]
    found = Differences(elements=recorded.numel())
    where = differs.nonzero()
    if len(where) == 0:
        return found
    pairs = [code[differs].view(t.dtype) for code, t in zip(codes, (recorded, computed), strict=True)]
    wide = [p.double() for p in pairs]
    nan = [w != w for w in wide]
    both_nan, any_nan = nan[0] & nan[1], nan[0] | nan[1]
    both_zero = (wide[0] == 0) & (wide[1] == 0)
    found.counts = {"zero sign": int(both_zero.sum()), "NaN payload": int(both_nan.sum())}
    found.counts["value"] = len(where) - sum(found.counts.values())
    places = [_place(testing.bits(p)) for p in pairs]
    distance = (places[0] - places[1]).abs()
    compared = distance[~any_nan & ~both_zero]
    if len(compared):
        found.max_ulps = int(compared.max())
        found.ulps = _histogram(compared)
    for i in range(min(_SHOWN, len(where))):
        kind = "zero sign" if both_zero[i] else "NaN payload" if both_nan[i] else "value"
        row, column = where[i].tolist()
        found.first.append(
            {
                "element": [row + first_row, column],
                "class": kind,
                "ulps": None if any_nan[i] else int(distance[i]),
                "recorded": _shown(pairs[0][i]),
                "computed": _shown(pairs[1][i]),
            }
        )
    return found


def _place(codes: torch.Tensor) -> torch.Tensor:
    """The place of each number among all of its format, 0 for both zeros: two neighbours are one ulp apart."""
    sign = 1 << (8 * codes.element_size() - 1)
    unsigned = codes.long() & (2 * sign - 1)
    magnitude = unsigned & (sign - 1)
    return magnitude.where(unsigned < sign, -magnitude)


def _histogram(distance: torch.Tensor) -> list[int]:
    import torch

    edges = torch.tensor([1 << i for i in range(1, _BUCKETS)])
    counts = torch.bincount(torch.bucketize(distance, edges, right=True)).tolist()
    return counts


def _shown(value: torch.Tensor) -> str:
    """A number with its bits: "1.5 (0x3fc0)"."""
    width = 2 * value.element_size()
    code = int(testing.bits(value.reshape(1))[0]) & ((1 << 4 * width) - 1)
    return f"{float(value.double())!r} (0x{code:0{width}x})"
