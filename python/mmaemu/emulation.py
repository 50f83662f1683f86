"""emulate: the FP8 products of eager code, computed as the reference platform does, and a log of them."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import _emit, contract, platforms, splitk, tables
from .errors import MmaemuError, SplitKUnknownError, UnsupportedFeatureError
from .platforms import Profile
from .splitk import SplitDecision

if TYPE_CHECKING:
    from ._routing import Request

F = TypeVar("F", bound=Callable[..., Any])

_KEPT = 100_000  # calls that a log remembers one by one; its summary counts all


@dataclasses.dataclass(frozen=True)
class EmulatedCall:
    """One FP8 product of a model.

    module: the path of the module that ran it, None where none did. M, N, K and the dtypes: the product's, by
    torch's names. profile, split and backend: what computed it; split is None where a size is zero. native: why the
    operator ran itself instead, with the split and sizes left out, else None. seconds: wall time of the call.
    """

    operator: str
    module: str | None
    M: int
    N: int
    K: int
    a_dtype: str
    b_dtype: str
    out_dtype: str
    use_fast_accum: bool
    profile: str
    split: SplitDecision | None
    backend: str
    seconds: float
    native: str | None = None


@dataclasses.dataclass
class _Total:
    calls: int = 0
    seconds: float = 0.0
    least: int = sys.maxsize
    most: int = 0

    def add(self, call: EmulatedCall) -> None:
        self.calls += 1
        self.seconds += call.seconds
        self.least, self.most = min(self.least, call.M), max(self.most, call.M)

    def merge(self, other: _Total) -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)


def _cells(
    module: str | None,
    N: int,
    K: int,
    a_dtype: str,
    b_dtype: str,
    out_dtype: str,
    use_fast_accum: bool,
    split: SplitDecision | None,
    backend: str,
    profile: str,
    native: str | None,
) -> tuple[str, ...]:
    """What a summary's row says of calls that are alike."""
    return (
        _like_layers(module),
        str(N),
        str(K),
        f"{_short(a_dtype)} x {_short(b_dtype)} -> {_short(out_dtype)}",
        "fast" if use_fast_accum else "slow",
        _split_text(split),
        f"native: {native}" if native else f"{profile}, {backend}",
    )


def _like_layers(module: str | None) -> str:
    """The module's path with its numbers left out, so that equal layers share a row."""
    return "-" if module is None else re.sub(r"(?<=\.)\d+(?=\.|$)", "*", module)


def _split_text(split: SplitDecision | None) -> str:
    if split is None:
        return "-"
    scheme = "" if split.scheme == "none" else f" {split.scheme}"
    return f"{split.S}{scheme}, {split.source}{'' if split.verified else ', not verified'}"


class EmulationLog:
    """What ran under emulate, from all its threads. Memory is bounded: calls holds the newest 100,000."""

    _HEADER = ("module", "calls", "M", "N", "K", "formats", "accumulation", "split", "backend", "seconds")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: collections.deque[EmulatedCall] = collections.deque(maxlen=_KEPT)
        self._totals: dict[tuple[Any, ...], _Total] = {}

    def add(self, call: EmulatedCall) -> None:
        key = (
            call.module,
            call.N,
            call.K,
            call.a_dtype,
            call.b_dtype,
            call.out_dtype,
            call.use_fast_accum,
            call.split,
            call.backend,
            call.profile,
            call.native,
        )
        with self._lock:
            self._calls.append(call)
            total = self._totals.get(key)
            if total is None:
                total = self._totals[key] = _Total()
            total.add(call)

    @property
    def calls(self) -> list[EmulatedCall]:
        """The newest calls, oldest first."""
        with self._lock:
            return list(self._calls)

    def __len__(self) -> int:
        """How many calls there were."""
        with self._lock:
            return sum(total.calls for total in self._totals.values())

    @property
    def seconds(self) -> float:
        """Wall time of all calls."""
        with self._lock:
            return sum(total.seconds for total in self._totals.values())

    def summary(self) -> tables.Table:
        """A row for each layer, sizes and split, numbered layers together: prints as text, and as HTML in Jupyter."""
        merged: dict[tuple[str, ...], _Total] = {}
        with self._lock:
            for key, total in self._totals.items():
                merged.setdefault(_cells(*key), _Total()).merge(total)
        rows = [
            (key[0], f"{total.calls:,}", _range(total), *key[1:], f"{total.seconds:.3f}")
            for key, total in merged.items()
        ]
        calls = sum(total.calls for total in merged.values())
        seconds = sum(total.seconds for total in merged.values())
        return tables.Table(self._HEADER, rows, f"{calls:,} FP8 products in {seconds:.3f} s")

    def __repr__(self) -> str:
        return f"<EmulationLog: {len(self):,} FP8 products in {self.seconds:.3f} s>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def _range(total: _Total) -> str:
    return str(total.least) if total.least == total.most else f"{total.least} to {total.most}"


def _short(dtype: str) -> str:
    return {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}.get(dtype, dtype)


class emulate:  # noqa: N801  # used like a function, as torch.no_grad is
    """Routes the FP8 products of eager code through mmaemu.scaled_mm.

        with mmaemu.emulate("hopper") as log:
            model(x)
        print(log.summary())

    Inside the block, or in the function that it decorates, every torch._scaled_mm of this thread (functional and
    out=, and torch.nn.functional.scaled_mm with one scale per tensor) returns scaled_mm's bits, on the tensors' own
    device. profile, splitk and backend: as in scaled_mm. Blocks nest, the innermost decides. Other threads enter it
    for themselves; the object may be shared, and its log collects from all.

    unsupported: "raise" lets UnsupportedFeatureError and SplitKUnknownError through; "native" runs those calls as
    they are, with one NativeCallWarning per reason. What the reference platform rejects raises in both cases.

    KeyError for an unknown profile, TypeError and ValueError for other arguments that do not fit. Not reached: graphs
    that torch.compile made, and code that never asks torch's dispatcher for the product (docs/models.md).
    """

    def __init__(
        self,
        profile: str | Profile | None = None,
        *,
        splitk: Any = "auto",
        backend: str = "auto",
        unsupported: str = "raise",
    ) -> None:
        if unsupported not in ("raise", "native"):
            raise ValueError(f'emulate(): unsupported must be "raise" or "native", not {unsupported!r}')
        self.profile = platforms.get_profile(profile)
        self.splitk = splitk
        self.backend = contract.backend_argument("emulate", backend)
        self.unsupported = unsupported
        self.log = EmulationLog()
        contract.check_split(self.profile, splitk)
        self._entered = threading.local()
        self._reasons: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> EmulationLog:
        from ._routing import RoutingMode

        mode = RoutingMode(self._serve)
        mode.__enter__()
        self._modes().append(mode)
        return self.log

    def __exit__(self, *exception: Any) -> None:
        self._modes().pop().__exit__(*exception)

    def _modes(self) -> list[Any]:
        """The modes that this thread entered through this object."""
        if not hasattr(self._entered, "modes"):
            self._entered.modes = []
        return self._entered.modes

    def __call__(self, function: F) -> F:
        """Decorates a function. TypeError for one that runs after its call has returned: a generator or coroutine."""
        kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if not callable(function) or any(kind(function) for kind in kinds):
            raise TypeError(
                f"emulate cannot decorate {function!r}: it must be a function that has done its work when it returns; "
                "enter emulate inside of it"
            )

        @functools.wraps(function)
        def emulated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return emulated  # type: ignore[return-value]

    def _serve(self, request: Request) -> Any:
        begin = time.perf_counter()
        module = request.module()
        try:
            return self._compute(request, module, begin)
        except MmaemuError as error:
            _locate(error, module)
            unsupported = isinstance(error, (UnsupportedFeatureError, SplitKUnknownError))
            if self.unsupported == "raise" or not unsupported:
                raise
            reason = _reason(error)
        return self._run_natively(request, module, reason)

    def _compute(self, request: Request, module: str | None, begin: float) -> Any:
        from . import gemm
        from ._routing import recordings

        if request.error is not None:
            raise request.error
        assert request.arguments is not None, "a product without arguments has an error"
        call = contract.Call(
            **(_DEFAULTS | request.arguments), profile=self.profile, splitk=self.splitk, backend=self.backend
        )
        result, plan = gemm.execute(call)
        split = None if plan.split is None else splitk.to_decision(plan.split)
        seconds = time.perf_counter() - begin
        self._note(request, module, seconds, split=split, backend=plan.backend, out_dtype=plan.out_dtype)
        for recording in recordings.entered:
            recording.take(request, result, seconds, f"mmaemu, profile {self.profile.name}", module, split)
        return result

    def _run_natively(self, request: Request, module: str | None, reason: str) -> Any:
        with self._lock:
            first = reason not in self._reasons
            self._reasons.add(reason)
        if first:
            where = "" if module is None else f" in {module}"
            _emit.warn("NativeCallWarning", f"{request.operator}{where} ran as it is, without mmaemu's bits: {reason}")
        begin = time.perf_counter()
        result = request.native()
        seconds = time.perf_counter() - begin
        self._note(request, module, seconds, native=reason, backend="native", out_dtype=_dtype_text(result))
        return result

    def _note(self, request: Request, module: str | None, seconds: float, **fields: Any) -> None:
        given = request.arguments
        shape: dict[str, Any] = {
            "M": 0,
            "N": 0,
            "K": 0,
            "a_dtype": "?",
            "b_dtype": "?",
            "use_fast_accum": False,
            "split": None,
        }
        if given is not None:
            a, b = given["input"], given["mat2"]
            shape = {
                "M": a.shape[0],
                "N": b.shape[-1],
                "K": a.shape[-1],
                "a_dtype": _dtype_text(a),
                "b_dtype": _dtype_text(b),
                "use_fast_accum": given.get("use_fast_accum", False),
                "split": None,
            }
        common: dict[str, Any] = {
            "operator": request.operator,
            "module": module,
            "profile": self.profile.name,
            "seconds": seconds,
        }
        self.log.add(EmulatedCall(**(common | shape | fields)))


_DEFAULTS = {"bias": None, "scale_result": None, "out_dtype": None, "use_fast_accum": False, "out": None}


def _dtype_text(value: Any) -> str:
    return str(getattr(value, "dtype", "?")).removeprefix("torch.")


def _reason(error: MmaemuError) -> str:
    """What a warning is given once for: a split is unknown for many shapes, but that is one reason."""
    return 'splitk="auto" cannot decide' if isinstance(error, SplitKUnknownError) else str(error)


def _locate(error: MmaemuError, module: str | None) -> None:
    """Says in the error's notes which module asked. Python has them from 3.11; the message stays scaled_mm's."""
    if module is not None and hasattr(error, "add_note"):
        error.add_note(f"in module {module}, under mmaemu.emulate")
