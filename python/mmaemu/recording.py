"""record: the FP8 products of eager code, saved with operands and results so that another machine can audit them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform as host
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _arrays, _emit, _native, _store
from .errors import UnsupportedFeatureError
from .splitk import SplitDecision

if TYPE_CHECKING:
    import torch

    from ._routing import Request

_TENSORS = ("input", "mat2", "scale_a", "scale_b", "bias", "scale_result")
NATIVE = "native"  # of computed_by: torch's own kernel


class _Entered:
    """One thread's stay inside a recording. taken: how many calls it saved or left out."""

    def __init__(self, recording: record) -> None:
        from ._routing import RoutingMode

        self.recording, self.taken = recording, 0
        self.mode = RoutingMode(self._serve)

    def _serve(self, request: Request) -> Any:
        begin, before = time.perf_counter(), self.taken
        result = request.native()
        if self.taken == before:  # else an emulation outside of this recording has computed it, and told
            self.take(request, result, time.perf_counter() - begin, NATIVE, request.module(), None)
        return result

    def take(
        self,
        request: Request,
        result: torch.Tensor,
        seconds: float,
        computed_by: str,
        module: str | None,
        split: SplitDecision | None,
    ) -> None:
        """Saves one call that has run."""
        self.taken += 1
        self.recording._take(request, result, seconds, computed_by, module, split)


class record:  # noqa: N801  # used like a function, as torch.no_grad is
    """Saves the FP8 products of eager code into a folder: operands, scales, arguments and results.

        with mmaemu.record("run1") as recording:
            model(x)

    Takes the same calls as emulate, of the threads that enter it, and nothing else of the model. They run as they
    would without it: on the GPU, or under emulate, inside or outside; each call says which. An existing recording is
    continued. Equal tensors, such as the weights, are saved once.

    max_bytes: what the folder may hold; further calls run, are counted in .skipped and warned of once. shard_bytes:
    the size of a file, and with the largest call the bound of the memory that waits to be written; a crash loses
    what waits, at most 1,000 calls.

    RecordingError where the folder holds something else, is in use by another process or cannot be written;
    ValueError for sizes below 1. Needs the package safetensors.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = 16 * 2**30, shard_bytes: int = 64 * 2**20
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("shard_bytes", shard_bytes)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"record(): {name} must be an int, not {type(value).__name__}")
            if value < 1:
                raise ValueError(f"record(): {name} must be at least 1, not {value}")
        _store.needed()
        self.path = Path(path)
        self.max_bytes, self.shard_bytes = max_bytes, shard_bytes
        self.skipped = 0
        self._lock = threading.RLock()
        self._inside = 0  # threads
        self._process = os.getpid()
        self._thread = threading.local()
        self._writer: _store.Writer | None = None
        self._counted = (0, 0)
        self._warned: set[str] = set()

    @property
    def calls(self) -> int:
        """Calls in the recording, earlier sessions included."""
        return self._writer.calls if self._writer else self._counted[0]

    @property
    def bytes(self) -> int:
        """Size of the recording, what waits to be written included."""
        return self._writer.size if self._writer else self._counted[1]

    def __repr__(self) -> str:
        return f"<record {str(self.path)!r}: {self.calls:,} calls, {self.bytes:,} bytes, {self.skipped:,} skipped>"

    def __enter__(self) -> record:
        from ._routing import recordings

        depth = getattr(self._thread, "depth", 0)
        if depth == 0:
            self._open()
            entered = _Entered(self)
            entered.mode.__enter__()
            recordings.entered.append(entered)
            self._thread.entered = entered
        self._thread.depth = depth + 1
        return self

    def __exit__(self, *exception: Any) -> None:
        from ._routing import recordings

        self._thread.depth -= 1
        if self._thread.depth:
            return
        recordings.entered.remove(self._thread.entered)
        self._thread.entered.mode.__exit__(*exception)
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._close()

    def _open(self) -> None:
        with self._lock:
            if self._writer is None:
                self._writer = _store.Writer(self.path, self.shard_bytes)
                self._writer.append(_session(), {})
            self._inside += 1

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        assert writer is not None, "opened by the first thread that entered"
        try:
            if os.getpid() == self._process:
                writer.close()
        finally:
            self._counted = (writer.calls, writer.size)

    def _take(
        self,
        request: Request,
        result: Any,
        seconds: float,
        computed_by: str,
        module: str | None,
        split: SplitDecision | None,
    ) -> None:
        reason = _unfit(request, result) if os.getpid() == self._process else "it ran in a forked process"
        if reason is not None:
            self._skip(request, reason)
            return
        assert request.arguments is not None, "else it is unfit"
        with _outside_of_modes():
            arguments, tensors = _describe(request.arguments, result)
        fields = {
            "kind": "call",
            "operator": request.operator,
            "module": module,
            "device": _device_text(result.device),
            "computed_by": computed_by,
            "split": None if split is None else dataclasses.asdict(split),
            "seconds": seconds,
            **arguments,
        }
        with self._lock:
            writer = self._writer
            assert writer is not None, "open while a thread is inside"
            if writer.size + writer.new_bytes(tensors) > self.max_bytes:
                self._skip(request, f"the recording would exceed max_bytes = {self.max_bytes:,}")
            else:
                writer.append(fields | {"call": writer.calls}, tensors)

    def _skip(self, request: Request, reason: str) -> None:
        with self._lock:
            self.skipped += 1
            first = reason not in self._warned
            self._warned.add(reason)
        if first:
            _emit.warn("RecordingWarning", f"{request.operator} is not in the recording {self.path}: {reason}")


def _session() -> dict[str, Any]:
    """What every call of a stay has in common."""
    import torch

    return {
        "kind": "session",
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "mmaemu": _native.version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": host.python_version(),
        "machine": host.machine(),
    }


def _device_text(device: torch.device) -> str:
    """ "cpu", or the name of the GPU."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@contextlib.contextmanager
def _outside_of_modes() -> Any:
    """Copies made in here are those of plain tensors, whatever modes the model runs under, and carry no gradients."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        yield


def _unfit(request: Request, result: Any) -> str | None:
    """Why a call cannot be saved."""
    if request.arguments is None:
        return str(request.error)
    for name in ("input", "mat2"):
        if not _arrays.dtype_of(request.arguments[name]).startswith("float8"):
            return f"{name} is {request.arguments[name].dtype}, not FP8"
    given = [(name, request.arguments.get(name)) for name in _TENSORS] + [("result", result)]
    try:
        for name, value in given:
            if value is not None:
                _arrays.check_has_data(name, value)
    except UnsupportedFeatureError as problem:
        return str(problem)
    out = request.arguments.get("out")
    if out is not None and any(_share(out, value) for name, value in given[:-1] if value is not None):
        return "out= shares memory with an operand, which is overwritten by now"
    return None


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0


def _describe(arguments: dict[str, Any], result: torch.Tensor) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The index's fields of a call, and its tensors by their keys."""
    given = {name: arguments[name] for name in _TENSORS if arguments.get(name) is not None} | {"result": result}
    tensors, described = {}, {}
    for name, tensor in given.items():
        saved = _copy(tensor.t() if name == "mat2" else tensor)
        key = _store.content_key(saved)
        tensors[key] = saved
        described[name] = {"key": key} | _layout(tensor)
    out, out_dtype = arguments.get("out"), arguments.get("out_dtype")
    fields = {
        "out_dtype": None if out_dtype is None else str(out_dtype).removeprefix("torch."),
        "use_fast_accum": arguments.get("use_fast_accum", False),
        "out": None if out is None else _layout(out),
        "tensors": described,
    }
    return fields, tensors


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Row-major in host memory, and no other tensor's memory: the model may write into its own."""
    import torch

    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    return copy.copy_(tensor.detach())


def _layout(tensor: torch.Tensor) -> dict[str, Any]:
    """What planning needs to know of a tensor: strides in elements, the offset in bytes from a 16-byte boundary."""
    return {
        "dtype": _arrays.dtype_of(tensor),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "offset": _arrays.offset_of(tensor) % 16,
    }
