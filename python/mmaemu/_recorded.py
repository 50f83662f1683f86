"""Recorded calls as an audit reads them: each line and each tensor is checked before anything relies on it."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _store
from .errors import RecordingError

if TYPE_CHECKING:
    import torch

_OPEN_SHARDS = 4  # opening one reads the names of all its tensors
_CACHED_BYTES = 2**28  # of tensors that were loaded and verified; weights come back at every call
_REMEDY = "restore the file from a copy, or record the calls again"


@dataclasses.dataclass(frozen=True)
class Layout:
    """A tensor as planning sees it: strides in elements, the offset in bytes from a 16-byte boundary."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def described(self) -> _native.TensorDesc:
        return _native.TensorDesc(self.dtype, list(self.shape), list(self.strides), self.offset, "cpu", False)


@dataclasses.dataclass(frozen=True)
class Saved:
    """A saved tensor: where it lies, and how the model held it."""

    key: str
    shard: int
    layout: Layout


@dataclasses.dataclass(frozen=True)
class RecordedCall:
    """One line of an index. split: what computed_by took, if it told. out: the layout of out=, if there was one."""

    line: int
    number: int
    operator: str
    module: str | None
    device: str
    computed_by: str
    split: dict[str, Any] | None
    seconds: float
    out_dtype: str | None
    use_fast_accum: bool
    out: Layout | None
    tensors: dict[str, Saved]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N, K."""
        rows, depth = self.tensors["input"].layout.shape
        return rows, self.tensors["mat2"].layout.shape[1], depth

    def describe(self, name: str) -> Any:
        """What planning needs to know of an argument; None where it was not given."""
        if name == "out":
            return None if self.out is None else self.out.described()
        saved = self.tensors.get(name)
        return None if saved is None else saved.layout.described()


def _to_layout(fields: dict[str, Any]) -> Layout:
    shape, strides = tuple(map(int, fields["shape"])), tuple(map(int, fields["strides"]))
    if len(shape) != len(strides) or any(size < 0 for size in shape):
        raise ValueError("describes a tensor that cannot be")
    return Layout(str(fields["dtype"]), shape, strides, int(fields["offset"]))


def _to_call(line: int, fields: dict[str, Any]) -> RecordedCall:
    """ValueError for fields that do not make a call."""
    try:
        shards = fields["shards"]
        tensors = {
            name: Saved(str(entry["key"]), int(shards[entry["key"]]), _to_layout(entry))
            for name, entry in fields["tensors"].items()
        }
        call = RecordedCall(
            line,
            int(fields["call"]),
            str(fields["operator"]),
            None if fields["module"] is None else str(fields["module"]),
            str(fields["device"]),
            str(fields["computed_by"]),
            fields["split"],
            float(fields["seconds"]),
            fields["out_dtype"],
            bool(fields["use_fast_accum"]),
            None if fields["out"] is None else _to_layout(fields["out"]),
            tensors,
        )
        for name in ("scale_a", "scale_b", "result"):
            tensors[name]
        call.sizes  # noqa: B018  # two dimensions each
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as problem:
        raise ValueError(f"does not describe a call: {problem!r}") from None
    return call


def read_calls(folder: Path) -> tuple[list[RecordedCall], list[str]]:
    """The calls of a recording, and what is wrong with lines that are none.

    RecordingError where there is no recording at all.
    """
    calls, problems = [], []
    for line, fields in _store.read_lines(folder):
        try:
            if isinstance(fields, ValueError):
                raise fields
            if fields.get("kind") == "call":
                calls.append(_to_call(line, fields))
        except ValueError as problem:
            problems.append(f"{folder / _store.INDEX}: line {line} {problem}")
    return calls, problems


class Shards:
    """Loads saved tensors, for any thread, and keeps some of those that it verified."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = _store.needed()
        self._cached: collections.OrderedDict[str, torch.Tensor] = collections.OrderedDict()
        self._size = 0
        self._open: collections.OrderedDict[Path, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def load(self, saved: Saved, *, transposed: bool = False) -> torch.Tensor:
        """The tensor, row-major; RecordingError where its file lacks it, or holds other bytes than were saved.

        transposed: it was saved so, as mat2 is.
        """
        with self._lock:
            if saved.key in self._cached:
                self._cached.move_to_end(saved.key)
                return self._cached[saved.key]
        path, tensor = self.load_unverified(saved, transposed=transposed)
        if _store.content_key(tensor) != saved.key:
            raise RecordingError(f"{path}: tensor {saved.key} was changed after it was recorded; {_REMEDY}")
        with self._lock:
            self._remember(saved.key, tensor)
        return tensor

    def load_unverified(self, saved: Saved, *, transposed: bool = False) -> tuple[Path, torch.Tensor]:
        """As load, with the file's path, whatever its bytes are."""
        path = self._folder / _store.shard_name(saved.shard)
        with self._reading(path), self._lock:
            tensor = self._opened(path).get_tensor(saved.key).contiguous()
        shape = saved.layout.shape[::-1] if transposed else saved.layout.shape
        found = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        if found != f"{saved.layout.dtype} {list(shape)}":
            raise RecordingError(
                f"{path}: tensor {saved.key} is {found}, recorded was {saved.layout.dtype} {list(shape)}; {_REMEDY}"
            )
        return path, tensor

    def _opened(self, path: Path) -> Any:
        if path not in self._open:
            while len(self._open) >= _OPEN_SHARDS:
                self._open.popitem(last=False)
            self._open[path] = self._library.safe_open(path, "pt").__enter__()
        return self._open[path]

    @contextlib.contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise RecordingError(f"{path} is missing; {_REMEDY}") from None
        except OSError as problem:
            raise RecordingError(f"cannot read {path}: {problem.strerror or problem}") from None
        except (self._library.SafetensorError, RuntimeError, ValueError, KeyError, AttributeError) as problem:
            raise RecordingError(f"{path} is damaged or no shard of this recording ({problem}); {_REMEDY}") from None

    def _remember(self, key: str, tensor: torch.Tensor) -> None:
        if key not in self._cached:
            self._size += tensor.numel() * tensor.element_size()
        self._cached[key] = tensor
        while self._size > _CACHED_BYTES:
            _, oldest = self._cached.popitem(last=False)
            self._size -= oldest.numel() * oldest.element_size()


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The folder of a recording, given it or its index."""
    folder = Path(path)
    return folder.parent if folder.name == _store.INDEX else folder
