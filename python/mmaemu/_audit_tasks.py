"""The work of an audit, in pieces that depend on nothing but their arguments and the recording.

A piece may run in any process and any number of times, and returns the same; auditing.py decides where, and puts
the results together.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, contract, gemm, platforms, splitk
from ._differences import Differences, compare
from ._recorded import RecordedCall, Shards
from .errors import MmaemuError, RecordingError
from .platforms import Profile

if TYPE_CHECKING:
    import torch

RECORDED = "recorded"  # as splitk=: the split that the recording tells, else "auto"
_TILE = 2**31  # multiplications of a piece
_SAMPLE = (8, 32)  # rows and columns on which a diagnosis tries its candidates first


@dataclasses.dataclass(frozen=True)
class Settings:
    """How calls are recomputed: scaled_mm's arguments of these names. audit: a name that no other audit has."""

    profile: Profile
    splitk: Any
    backend: str
    audit: str


@dataclasses.dataclass(frozen=True)
class Planned:
    """How one call is recomputed; problem: why it is not. warnings: what scaled_mm would emit."""

    problem: str | None = None
    split: tuple[int, str] = (1, "none")
    source: str = ""
    verified: bool = True
    warnings: tuple[str, ...] = ()
    split_unknown: bool = False


def plan(call: RecordedCall, settings: Settings) -> Planned:
    """The decisions of scaled_mm for a recorded call, from its whole shape and the layouts that it had."""
    chosen = settings.splitk
    if chosen == RECORDED:
        chosen = "auto" if call.split is None else (call.split["S"], call.split["scheme"])
    try:
        native = _plan(call, settings, splitk.split_argument(chosen))
    except (ValueError, TypeError, KeyError) as problem:
        return Planned(problem=f"{type(problem).__name__}: {problem}")
    warnings = tuple(f"{w.category}: {w.message}" for w in native.warnings)
    if native.error:
        kind, message = native.error
        return Planned(f"{kind}: {message}", warnings=warnings, split_unknown=kind == "SplitKUnknownError")
    if native.out_action == "unchanged":
        return Planned("torch returned out= unchanged, without computing into it")
    result = call.tensors["result"].layout
    if (result.dtype, result.shape) != (native.out_dtype, (native.M, native.N)):
        found = f"{result.dtype} {list(result.shape)}"
        return Planned(f"the recorded result is {found}, the call's is {native.out_dtype} {[native.M, native.N]}")
    if native.split is None:
        return Planned(warnings=warnings, source="zero size")
    decision = native.split
    return Planned(
        split=(decision.S, decision.scheme), source=decision.source, verified=decision.verified, warnings=warnings
    )


def _plan(call: RecordedCall, settings: Settings, split: Any) -> _native.CallPlan:
    return _native.plan_scaled_mm(
        call.describe("input"),
        call.describe("mat2"),
        call.describe("scale_a"),
        call.describe("scale_b"),
        call.describe("bias"),
        call.describe("scale_result"),
        call.out_dtype,
        call.use_fast_accum,
        call.describe("out"),
        platforms.to_native(settings.profile),
        split,
        settings.backend,
        False,
    )


def tiles(call: RecordedCall) -> list[tuple[int, int]]:
    """The rows of each piece of a call: [first, last). The split is not theirs to decide, so cutting changes no bit."""
    M, N, K = call.sizes
    rows = max(1, _TILE // max(1, N * K))
    return [(first, min(first + rows, M)) for first in range(0, max(M, 1), rows)]


@dataclasses.dataclass
class Checked:
    """What a piece found. problem: why it could not be checked. edited: the result is not what was recorded."""

    differences: Differences = dataclasses.field(default_factory=Differences)
    seconds: float = 0.0
    backend: str = ""
    problem: str | None = None
    edited: str | None = None


@functools.lru_cache(maxsize=1)
def _shards(folder: Path, audit: str) -> Shards:
    """Kept between the pieces of an audit that a process works on: they share the weights."""
    return Shards(folder)


def check(folder: Path, call: RecordedCall, settings: Settings, planned: Planned, rows: tuple[int, int]) -> Checked:
    """Recomputes some rows of a call and compares them with the recorded ones."""
    begin = time.perf_counter()
    try:
        operands = _Operands.load(_shards(folder, settings.audit), call).part(slice(*rows))
        computed, backend = operands.compute(settings.profile, planned.split, call.use_fast_accum, settings.backend)
    except MmaemuError as problem:
        name = "" if isinstance(problem, RecordingError) else f"{type(problem).__name__}: "
        return Checked(problem=f"{name}{problem}", seconds=time.perf_counter() - begin)
    found = compare(operands.result, computed, rows[0])
    return Checked(found, time.perf_counter() - begin, backend, edited=operands.edited)


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of an audit: some rows of a call, or, where rows is None, its diagnosis after found."""

    call: RecordedCall
    planned: Planned
    rows: tuple[int, int] | None
    found: Differences | None = None


@dataclasses.dataclass
class Examined:
    """What a piece gave. ways: None where no diagnosis was due."""

    checked: Checked
    ways: list[Candidate] | None = None


def examine(folder: Path, settings: Settings, piece: Piece) -> Examined:
    """Checks a piece; a call that is one piece and differs is diagnosed in the same place, which has its tensors."""
    call, planned = piece.call, piece.planned
    if piece.rows is None:
        return Examined(
            Checked(problem=planned.problem), diagnose(folder, call, settings, planned, piece.found or Differences())
        )
    checked = check(folder, call, settings, planned, piece.rows)
    if checked.problem is None and checked.differences.different and piece.rows == (0, call.sizes[0]):
        return Examined(checked, diagnose(folder, call, settings, planned, checked.differences))
    return Examined(checked)


@dataclasses.dataclass
class _Operands:
    a: torch.Tensor  # [M, K]
    b: torch.Tensor  # [N, K]
    scales: dict[str, torch.Tensor | None]
    result: torch.Tensor
    edited: str | None

    @staticmethod
    def load(shards: Shards, call: RecordedCall) -> _Operands:
        """RecordingError where an operand is not what was recorded. A result is compared whatever it is."""
        from . import _store

        saved = call.tensors["result"]
        path, result = shards.load_unverified(saved)
        edited = None
        if _store.content_key(result) != saved.key:
            edited = f"{path}: the result {saved.key} is not the one that was recorded"
        return _Operands(
            shards.load(call.tensors["input"]),
            shards.load(call.tensors["mat2"], transposed=True),
            {
                name: shards.load(call.tensors[name]) if name in call.tensors else None
                for name in ("scale_a", "scale_b", "scale_result")
            },
            result,
            edited,
        )

    def part(self, rows: Any, columns: list[int] | None = None) -> _Operands:
        """Some rows and columns of the product; columns None: all."""
        part = dataclasses.replace(self, a=_rows(self.a, rows), result=_rows(self.result, rows))
        if columns is not None:
            part.b, part.result = _rows(self.b, columns), _rows(part.result.t(), columns).t()
        return part

    def compute(self, profile: Profile, split: tuple[int, str], fast: bool, backend: str) -> tuple[torch.Tensor, str]:
        """The product in host memory, and the backend that ran."""
        device = "cuda" if backend.startswith("cuda") else "cpu"
        call = contract.Call(
            input=self.a.to(device),
            mat2=self.b.to(device).t(),
            **{name: None if scale is None else scale.to(device) for name, scale in self.scales.items()},
            bias=None,
            out_dtype=self.result.dtype,
            use_fast_accum=fast,
            out=None,
            profile=profile,
            splitk=splitk.SplitK(*split),
            backend=backend,
        )
        result, ran = gemm.execute(call, quiet=True)
        return result.cpu(), ran.backend


def _rows(matrix: torch.Tensor, which: Any) -> torch.Tensor:
    """Some rows, contiguous; of FP8 codes torch picks single rows as integers only."""
    from . import testing

    return testing.bits(matrix)[which].contiguous().view(matrix.dtype)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A way to compute a call."""

    profile: str
    use_fast_accum: bool
    split: tuple[int, str]

    def __str__(self) -> str:
        S, scheme = self.split
        split = "unsplit" if S == 1 else f"splitk=({S}, {scheme!r})"
        return f"profile {self.profile}, {'fast' if self.use_fast_accum else 'slow'} accumulation, {split}"


# Of each preset's profiles one, with the schemes of its splits and the width of the tiles that a split deals out.
_PLATFORMS = {
    "ada": ("ada", ("serial", "pairwise"), 64),
    "hopper": ("hopper", ("contiguous",), 128),
    "b200_mma_sync": ("b200-mma-sync-experimental", (), 1),
}
_MOST_PARTS = {"ada": 32, "hopper": 16}  # the recorded tables have up to 29 and 6


def _candidates(call: RecordedCall, settings: Settings) -> Iterator[tuple[Profile, Candidate]]:
    """Other ways, the most alike first: another split, the other accumulation, another platform."""
    own = platforms.to_native(settings.profile).preset.name
    K = call.sizes[2]
    for preset in sorted(_PLATFORMS, key=lambda name: name != own):
        name, schemes, width = _PLATFORMS[preset]
        profile = settings.profile if preset == own else platforms.get_profile(name)
        parts = range(2, min(_MOST_PARTS.get(preset, 1), -(-K // width)) + 1)
        splits = [(1, "none"), *((S, scheme) for S in parts for scheme in schemes)]
        for fast in (call.use_fast_accum, not call.use_fast_accum):
            if fast or schemes:  # without a characterised split, slow accumulation is not characterised either
                own_split = _decided(call, dataclasses.replace(settings, profile=profile, backend="auto"), fast)
                for split in dict.fromkeys([*own_split, *splits]):
                    yield profile, Candidate(profile.name, fast, split)


def _decided(call: RecordedCall, settings: Settings, fast: bool) -> list[tuple[int, str]]:
    """The split that a platform takes, if that is known: several may give the same bits."""
    native = _plan(dataclasses.replace(call, use_fast_accum=fast), settings, None)
    return [] if native.split is None else [(native.split.S, native.split.scheme)]


def _sample(found: Differences, M: int, N: int) -> tuple[list[int], list[int]]:
    """Rows and columns with differing elements among them; a multiple of 16 columns, as N is one."""
    chosen = []
    for axis, (size, wanted) in enumerate(zip((M, N), _SAMPLE, strict=True)):
        some = list(dict.fromkeys(e["element"][axis] for e in found.first))[:wanted]
        rest = (i for i in range(size) if i not in some)
        chosen.append(sorted([*some, *itertools.islice(rest, wanted - len(some))]))
    return chosen[0], chosen[1]


def diagnose(
    folder: Path, call: RecordedCall, settings: Settings, planned: Planned, found: Differences
) -> list[Candidate]:
    """The other ways that return exactly the recorded result, the most alike first.

    One for each platform and accumulation: where one split of them does, others often do as well.
    """
    import torch

    from . import testing

    try:
        operands = _Operands.load(_shards(folder, settings.audit), call)
    except MmaemuError:
        return []
    sample = operands.part(*_sample(found, *call.sizes[:2]))
    failed = None if planned.problem else Candidate(settings.profile.name, call.use_fast_accum, planned.split)

    def agrees(profile: Profile, way: Candidate, part: _Operands) -> bool:
        try:
            computed, _ = part.compute(profile, way.split, way.use_fast_accum, "auto")
        except (MmaemuError, ValueError):
            return False
        return torch.equal(testing.bits(computed), testing.bits(part.result))

    reproducing: dict[tuple[str, bool], Candidate] = {}
    for profile, way in _candidates(call, settings):
        kind = (way.profile, way.use_fast_accum)
        if (
            way != failed
            and kind not in reproducing
            and agrees(profile, way, sample)
            and all(agrees(profile, way, operands.part(slice(*rows))) for rows in tiles(call))
        ):
            reproducing[kind] = way
    return list(reproducing.values())
