"""audit: recomputes every recorded call, compares the bits, and says per layer and per call what differs and why."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _journal, _native, _pools, _recorded, contract, platforms, tables
from .platforms import Profile

if TYPE_CHECKING:
    from . import _audit_tasks
    from ._differences import Differences

EQUAL, DIFFERENT, UNCHECKED = "equal", "different", "unchecked"
ALL_EQUAL, DIFFERENCES, NOTHING_CHECKED = 0, 1, 4  # exit statuses
_SHOWN_ROWS = 40
_MANY = 0.01  # of the elements: fewer differ in places, where another way to compute would change most

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class CallReport:
    """What an audit found of one call.

    status: "equal", "different" or "unchecked", reason then says why. counts: differing elements by class (zero sign,
    NaN payload, value). max_ulps: the largest distance between two differing numbers. ulps: place i counts distances
    of 2^i to 2^(i + 1) - 1. first: up to ten differing elements. diagnosis: what else reproduces the recorded bits, or
    that nothing known does; reproduced_by: the same as data. notes: what to know besides. seconds: of recomputing.
    """

    call: int
    module: str | None
    operator: str
    device: str
    computed_by: str
    M: int
    N: int
    K: int
    a_dtype: str
    b_dtype: str
    out_dtype: str
    use_fast_accum: bool
    status: str
    reason: str
    split: tuple[int, str] | None
    split_source: str
    backend: str
    elements: int
    counts: dict[str, int]
    max_ulps: int | None
    ulps: list[int]
    first: list[dict[str, Any]]
    diagnosis: str
    reproduced_by: list[dict[str, Any]]
    notes: list[str]
    seconds: float

    @property
    def different(self) -> int:
        """Differing elements."""
        return sum(self.counts.values())


@dataclasses.dataclass(frozen=True)
class LayerReport:
    """The calls of one module together. seconds: of recomputing."""

    module: str
    calls: int
    equal: int
    different: int
    unchecked: int
    elements: int
    different_elements: int
    max_ulps: int | None
    seconds: float
    says: str


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """What an audit found. problems: what is wrong with the recording's files. warnings: scaled_mm's, each once."""

    path: str
    profile: str
    splitk: str
    backend: str
    version: str
    calls: list[CallReport]
    problems: list[str]
    warnings: list[str]
    seconds: float

    def count(self, status: str) -> int:
        """Calls of a status."""
        return sum(call.status == status for call in self.calls)

    @property
    def exit_code(self) -> int:
        """0: every call is there, was checked and is equal. 4: nothing could be checked. 1: anything else."""
        if not self.count(EQUAL) + self.count(DIFFERENT):
            return NOTHING_CHECKED
        complete = self.count(EQUAL) == len(self.calls) and not self.problems
        return ALL_EQUAL if complete else DIFFERENCES

    @property
    def layers(self) -> list[LayerReport]:
        """A report for each module, in the order of their first calls."""
        groups: dict[str, list[CallReport]] = {}
        for call in self.calls:
            groups.setdefault("(no module)" if call.module is None else call.module, []).append(call)
        return [_layer(module, calls) for module, calls in groups.items()]

    def to_json(self) -> dict[str, Any]:
        """Everything, as dictionaries and lists."""
        return dataclasses.asdict(self) | {
            "exit_code": self.exit_code,
            "counts": {status: self.count(status) for status in (EQUAL, DIFFERENT, UNCHECKED)},
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
        }

    def to_html(self) -> str:
        """One page with plots, which needs nothing besides itself."""
        from . import _audit_page

        return _audit_page.page(self)

    def summary(self) -> tables.Table:
        """A row for each layer, those that are not equal first."""
        layers = sorted(self.layers, key=lambda layer: layer.equal == layer.calls)
        rows = [
            (
                layer.module,
                f"{layer.calls:,}",
                f"{layer.equal:,}",
                f"{layer.different:,}",
                f"{layer.unchecked:,}",
                f"{layer.different_elements:,} of {layer.elements:,}",
                "-" if layer.max_ulps is None else f"{layer.max_ulps:,}",
                layer.says,
            )
            for layer in layers[:_SHOWN_ROWS]
        ]
        header = ("layer", "calls", "equal", "different", "unchecked", "elements that differ", "ulps", "says")
        rest = f"; {len(layers) - _SHOWN_ROWS} more layers" if len(layers) > _SHOWN_ROWS else ""
        return tables.Table(header, rows, f"{self.verdict}{rest}")

    @property
    def verdict(self) -> str:
        """One sentence."""
        equal, different, unchecked = (self.count(status) for status in (EQUAL, DIFFERENT, UNCHECKED))
        text = f"{self.path}: {len(self.calls):,} calls under profile {self.profile}: {equal:,} equal bit for bit"
        if different:
            text += f", {different:,} different"
        if unchecked:
            text += f", {unchecked:,} not checked"
        if self.problems:
            text += f", {len(self.problems):,} damaged lines"
        return f"{text} ({self.seconds:.1f} s)"

    @property
    def diagnosis(self) -> str:
        """What reproduces most of the calls that are not equal; empty where nothing does."""
        ways = collections.Counter(
            (way["profile"], way["use_fast_accum"] == call.use_fast_accum)
            for call in self.calls
            for way in call.reproduced_by
        )
        if not ways:
            return ""
        (profile, same), count = ways.most_common(1)[0]
        accumulation = "" if same else " with the other accumulation"
        others = len(self.calls) - self.count(EQUAL)
        share = f"all {others:,}" if count == others else f"{count:,} of the {others:,}"
        split = ", with other splits" if same and profile == self.profile else ""
        return f"profile {profile}{accumulation}{split} reproduces {share} calls that are not equal"

    def __str__(self) -> str:
        lines = [str(self.summary())]
        if self.diagnosis:
            lines += ["", self.diagnosis]
        for call in [c for c in self.calls if c.status != EQUAL][:3]:
            lines += ["", *_details(call)]
        lines += ["", *(f"problem: {text}" for text in self.problems[:10])] if self.problems else []
        lines += ["", *(f"warning: {text}" for text in self.warnings[:10])] if self.warnings else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<AuditReport {self.verdict}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def _details(call: CallReport) -> list[str]:
    """Some lines on a call that is not equal."""
    head = f"call {call.call}, {call.module or 'no module'}: {call.M} x {call.N}, K = {call.K}, {call.computed_by}"
    lines = [f"{head}: {call.status}{f': {call.reason}' if call.reason else ''}"]
    if call.different:
        classes = ", ".join(f"{kind} {count:,}" for kind, count in call.counts.items() if count)
        ulps = "" if call.max_ulps is None else f", at most {call.max_ulps:,} ulps"
        lines.append(f"  {call.different:,} of {call.elements:,} elements differ ({classes}{ulps})")
    for e in call.first[:3]:
        lines.append(f"  {e['element']}: recorded {e['recorded']}, computed {e['computed']}: {e['class']}")
    lines += [f"  {text}" for text in ([call.diagnosis] if call.diagnosis else []) + call.notes]
    return lines


def _layer(module: str, calls: list[CallReport]) -> LayerReport:
    ulps = [call.max_ulps for call in calls if call.max_ulps is not None]
    statuses = collections.Counter(call.status for call in calls)
    says = list(dict.fromkeys(call.diagnosis or call.reason for call in calls if call.status != EQUAL))
    return LayerReport(
        module,
        len(calls),
        statuses[EQUAL],
        statuses[DIFFERENT],
        statuses[UNCHECKED],
        sum(call.elements for call in calls),
        sum(call.different for call in calls),
        max(ulps, default=None),
        sum(call.seconds for call in calls),
        "; ".join(says[:2]) + (f"; {len(says) - 2} more" if len(says) > 2 else ""),
    )


def audit(
    path: str | os.PathLike[str],
    *,
    profile: str | Profile | None = None,
    splitk: Any = "auto",
    backend: str = "auto",
    progress: Progress | None = None,
    workers: int | None = None,
    scheduler: Any = None,
    state: str | os.PathLike[str] | None = None,
) -> AuditReport:
    """Recomputes every call of a recording under a profile and compares the results bit by bit.

    path: the folder that record wrote. profile, backend: as in scaled_mm. splitk: as in scaled_mm, or "recorded", the
    split that the recording tells (of emulated calls), else "auto". progress: called with the work done and the whole,
    in multiplications.

    workers: processes of this machine to share the work; None: this one, whose engine uses all processors.
    scheduler: the address of a Dask scheduler, or a distributed.Client, whose workers see the recording under the same
    path. Where the work is done changes no bit of the report, nor does a worker that dies. state: a file that keeps
    what was found so far; an audit of the same recording with the same arguments goes on from there.

    Operands that are not what was recorded, and calls that scaled_mm does not compute, are
    reported as unchecked. The recording is only read.

    RecordingError where path holds no recording and where state cannot be written; MmaemuError where the workers are
    lost; KeyError, TypeError and ValueError for arguments that do not fit.
    """
    begin = time.perf_counter()
    folder = Path(os.path.abspath(_recorded.folder_of(path)))
    settings = _settings(profile, splitk, backend)
    calls, problems = _recorded.read_calls(folder)
    pool = _pool(workers, scheduler)
    with contextlib.closing(pool), contextlib.closing(_journal.Journal(state, folder, settings)) as journal:
        reports, warnings = _Audit(folder, settings, calls, pool, journal, progress or (lambda done, whole: None)).run()
    return AuditReport(
        str(path),
        settings.profile.name,
        str(splitk),
        backend,
        _native.version(),
        reports,
        problems,
        warnings,
        time.perf_counter() - begin,
    )


def _settings(profile: str | Profile | None, split: Any, backend: str) -> _audit_tasks.Settings:
    from . import _audit_tasks

    chosen = platforms.get_profile(profile)
    if split != _audit_tasks.RECORDED:
        contract.check_split(chosen, split)
    return _audit_tasks.Settings(chosen, split, contract.backend_argument("audit", backend), uuid.uuid4().hex)


def _pool(workers: int | None, scheduler: Any) -> Any:
    if scheduler is not None:
        if workers is not None:
            raise ValueError("audit(): workers are those of the scheduler; give one of the two")
        return _pools.Dask(scheduler)
    if workers is None:
        return _pools.InProcess()
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"audit(): workers must be an int, not {type(workers).__name__}")
    if workers < 1:
        raise ValueError(f"audit(): workers must be at least 1, not {workers}")
    return _pools.Processes(workers)


class _Audit:
    """The pieces of an audit: handed to a pool, put together again whatever the order in which they come back."""

    def __init__(
        self,
        folder: Path,
        settings: _audit_tasks.Settings,
        calls: list[_recorded.RecordedCall],
        pool: Any,
        journal: _journal.Journal,
        progress: Progress,
    ) -> None:
        from . import _audit_tasks as tasks

        self._tasks = tasks
        self._folder, self._settings, self._calls = folder, settings, calls
        self._pool, self._journal, self._progress = pool, journal, progress
        self._plans = [tasks.plan(call, settings) for call in calls]
        self._whole = sum(_work(call) for call in calls)
        self._done = 0
        self._checked: dict[int, _audit_tasks.Checked] = {}
        self._ways: dict[int, list[_audit_tasks.Candidate]] = {}

    def run(self) -> tuple[list[CallReport], list[str]]:
        self._progress(0, self._whole)
        pieces = list(self._pieces())
        found: dict[int, dict[int, _audit_tasks.Checked]] = {}
        for place, examined in self._examine([piece for _, _, piece in pieces]):
            index, part, piece = pieces[place]
            found.setdefault(index, {})[part] = examined.checked
            if examined.ways is not None:
                self._ways[index] = examined.ways
            self._advance(piece)
        for index, parts in found.items():
            self._checked[index] = functools.reduce(_joined, [parts[part] for part in sorted(parts)])
        self._diagnose_calls_in_pieces()
        self._progress(self._whole, self._whole)
        reports = [
            _call_report(
                call, planned, self._checked.get(i, self._tasks.Checked(problem=planned.problem)), self._ways.get(i, [])
            )
            for i, (call, planned) in enumerate(zip(self._calls, self._plans, strict=True))
        ]
        return reports, list(dict.fromkeys(text for planned in self._plans for text in planned.warnings))

    def _pieces(self) -> Iterator[tuple[int, int, _audit_tasks.Piece]]:
        """Call, place within it, and what is to do."""
        for index, (call, planned) in enumerate(zip(self._calls, self._plans, strict=True)):
            if planned.problem is None:
                for part, rows in enumerate(self._tasks.tiles(call)):
                    yield index, part, self._tasks.Piece(call, planned, rows)
            elif planned.split_unknown:
                yield index, 0, self._tasks.Piece(call, planned, None)

    def _examine(self, pieces: list[_audit_tasks.Piece]) -> Iterator[tuple[int, _audit_tasks.Examined]]:
        """Place and result of each piece: from the journal, or from the pool and then into the journal."""
        rest = []
        for place, piece in enumerate(pieces):
            known = self._journal.find(piece)
            if known is None:
                rest.append((place, (self._folder, self._settings, piece)))
            else:
                yield place, known
        for place, examined in self._pool.run(self._tasks.examine, rest):
            self._journal.add(pieces[place], examined)
            yield place, examined

    def _advance(self, piece: _audit_tasks.Piece) -> None:
        M, N, K = piece.call.sizes
        rows = M if piece.rows is None else piece.rows[1] - piece.rows[0]
        self._done += rows * N * K
        self._progress(min(self._done, self._whole - 1), self._whole)

    def _diagnose_calls_in_pieces(self) -> None:
        """A call's differences are known when its last piece is, so these come last."""
        open_calls = [
            index
            for index, checked in self._checked.items()
            if checked.problem is None and checked.differences.different and index not in self._ways
        ]
        pieces = [
            self._tasks.Piece(self._calls[i], self._plans[i], None, self._checked[i].differences) for i in open_calls
        ]
        for place, examined in self._examine(pieces):
            self._ways[open_calls[place]] = examined.ways or []


def _work(call: _recorded.RecordedCall) -> int:
    M, N, K = call.sizes
    return max(1, M * N * K)


def _joined(before: _audit_tasks.Checked, piece: _audit_tasks.Checked) -> _audit_tasks.Checked:
    """What the pieces so far and the next one, of the rows that follow, found together."""
    before.differences.merge(piece.differences)
    before.seconds += piece.seconds
    before.backend = before.backend or piece.backend
    before.problem = before.problem or piece.problem
    before.edited = before.edited or piece.edited
    return before


def _call_report(
    call: _recorded.RecordedCall,
    planned: _audit_tasks.Planned,
    checked: _audit_tasks.Checked,
    ways: list[_audit_tasks.Candidate],
) -> CallReport:
    found = checked.differences
    status = UNCHECKED if checked.problem else DIFFERENT if found.different else EQUAL
    a, b, result = (call.tensors[name].layout for name in ("input", "mat2", "result"))
    notes = [checked.edited] if checked.edited else []
    if status == DIFFERENT and not planned.verified:
        notes.append("the split that was taken is not verified on hardware")
    M, N, K = call.sizes
    return CallReport(
        call.number,
        call.module,
        call.operator,
        call.device,
        call.computed_by,
        M,
        N,
        K,
        a.dtype,
        b.dtype,
        result.dtype,
        call.use_fast_accum,
        status,
        checked.problem or "",
        None if planned.problem else planned.split,
        planned.source,
        checked.backend,
        found.elements,
        found.counts,
        found.max_ulps,
        found.ulps,
        found.first,
        _diagnosis(status, planned, found, ways),
        [dataclasses.asdict(way) for way in ways],
        notes,
        checked.seconds,
    )


def _diagnosis(
    status: str, planned: _audit_tasks.Planned, found: Differences, ways: list[_audit_tasks.Candidate]
) -> str:
    if ways:
        others = f" (so do: {'; '.join(map(str, ways[1:]))})" if len(ways) > 1 else ""
        return f"{ways[0]} reproduces the recorded bits exactly{others}"
    if status == DIFFERENT:
        text = "no split, accumulation or profile known here reproduces the recorded bits"
        if found.different < _MANY * found.elements:
            text += f"; all but {found.different:,} elements agree, so look for a change of single results"
        return text
    return ""
