"""A recording on disk: an index with a line a call, and shards of tensors named by their content.

    index.jsonl               JSON lines; the first names the format, each ends with a check of its other fields
    shard-000001.safetensors  tensors under the hash of their dtype, shape and bytes

A shard is complete before a line refers to it, and a line is complete before it counts: whatever is interrupted, what
the index tells is there. recording.py decides what is written, auditing.py what is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import RecordingError

if TYPE_CHECKING:
    import torch

INDEX = "index.jsonl"
FORMAT = {"kind": "mmaemu recording", "version": 1}
_SHARD = re.compile(r"shard-(\d{6,9})\.safetensors")
_MARK = {"mmaemu": "recording"}  # the metadata of our shards
_LONGEST = 2**20  # characters of a line; ours have some thousand
_CALLS_A_SHARD = 1000  # what a crash can lose at most, if the shard is not full before


def needed() -> Any:
    """The safetensors library. RecordingError where it is missing."""
    try:
        import safetensors.torch
    except ImportError:
        raise RecordingError("recordings need the package safetensors: pip install safetensors") from None
    return safetensors


def shard_name(number: int) -> str:
    return f"shard-{number:06}.safetensors"


def shards_in(folder: Path) -> dict[int, str]:
    """Number -> name of the files that are named like shards."""
    found = (_SHARD.fullmatch(name) for name in os.listdir(folder))
    return {int(match[1]): match[0] for match in found if match}


def content_key(tensor: torch.Tensor) -> str:
    """The name of a contiguous tensor in host memory: a hash of its dtype, shape and bytes."""
    hashed = hashlib.blake2b(f"{tensor.dtype} {list(tensor.shape)} ".encode(), digest_size=16)
    size = tensor.numel() * tensor.element_size()
    if size:
        hashed.update((ctypes.c_char * size).from_address(tensor.data_ptr()))
    return hashed.hexdigest()


def _check(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def to_line(fields: dict[str, Any]) -> str:
    return json.dumps({**fields, "check": _check(fields)}, separators=(",", ":")) + "\n"


def from_line(line: str) -> dict[str, Any]:
    """The fields of a line. ValueError for anything but what to_line wrote."""
    try:
        fields = json.loads(line)
        check = fields.pop("check")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise ValueError("is not a line that mmaemu wrote") from None
    if check != _check(fields):
        raise ValueError("was changed after it was written")
    return fields


def read_lines(folder: Path) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Line number and fields of each line after the first, or what is wrong with it.

    RecordingError for a folder without an index, and for an index of something else.
    """
    path = folder / INDEX
    with _reading(folder, path), open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        _check_format(path, file.readline(_LONGEST))
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), ""), start=2):
            if not line.endswith("\n"):
                yield number, ValueError("is incomplete: writing it was interrupted")
                return
            try:
                yield number, from_line(line)
            except ValueError as problem:
                yield number, problem


@contextlib.contextmanager
def _reading(folder: Path, path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise RecordingError(f"{folder} is no recording: there is no {INDEX} in it") from None
    except OSError as problem:
        raise RecordingError(f"cannot read {path}: {problem.strerror or problem}") from None


def _check_format(path: Path, line: str) -> None:
    try:
        fields = from_line(line)
    except ValueError as problem:
        raise RecordingError(
            f"{path}: line 1 {problem}, so this is no recording of mmaemu.record, or its beginning is lost; restore "
            "the file, or record into another folder"
        ) from None
    if fields.get("kind") != FORMAT["kind"] or fields.get("version") != FORMAT["version"]:
        raise RecordingError(
            f"{path} is a {fields.get('kind')!r} of version {fields.get('version')!r}; this mmaemu reads "
            f"{FORMAT['kind']!r} of version {FORMAT['version']}: read it with the mmaemu that wrote it"
        )


@dataclasses.dataclass
class _Pending:
    """What the next shard will hold, and the lines that wait for it."""

    tensors: dict[str, Any] = dataclasses.field(default_factory=dict)
    size: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)


class Writer:
    """Appends calls to a recording, which it makes or resumes. One writer at a time; close() finishes.

    size: bytes of the recording, what waits included. calls: how many it holds.
    """

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        needed()
        self.folder, self._shard_bytes = folder, shard_bytes
        self._pending = _Pending()
        self._shard_of: dict[str, int] = {}  # content key -> number of its shard
        self._index = -1
        try:
            self._open()
        except OSError as problem:
            self._release()
            raise RecordingError(f"cannot record into {folder}: {problem.strerror or problem}") from None
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / INDEX
        if not path.exists() and os.listdir(self.folder):
            raise RecordingError(
                f"{self.folder} holds other files and no recording ({INDEX}); choose a new or an empty folder"
            )
        self._index = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            fcntl.flock(self._index, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordingError(f"{self.folder} is being recorded into; give each process its own folder") from None
        self._drop_incomplete_line()
        if os.fstat(self._index).st_size == 0:
            self._append(to_line(FORMAT))
        self.calls = self._count(path)
        self._adopt_shards()
        self.size = os.fstat(self._index).st_size + sum(
            (self.folder / name).stat().st_size for name in shards_in(self.folder).values()
        )

    def _drop_incomplete_line(self) -> None:
        """A line without its end was being written when the writer died: no call counts on it."""
        size = os.fstat(self._index).st_size
        end = size
        while end:
            begin = max(0, end - 65536)
            newline = os.pread(self._index, end - begin, begin).rfind(b"\n")
            if newline >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end == 0 and not to_line(FORMAT).encode().startswith(os.pread(self._index, _LONGEST, 0)):
            raise RecordingError(
                f"{self.folder / INDEX} is no index of a recording; restore it, or record into another folder"
            )
        if end < size:
            os.ftruncate(self._index, end)

    def _count(self, path: Path) -> int:
        count = 0
        for number, fields in read_lines(self.folder):
            if isinstance(fields, ValueError):
                raise RecordingError(
                    f"{path}: line {number} {fields}; restore it or remove the line to resume, or record elsewhere"
                )
            count += fields.get("kind") == "call"
        return count

    def _adopt_shards(self) -> None:
        """Learns what is saved already. A shard that no line refers to, after a crash, serves the next calls."""
        shards = shards_in(self.folder)
        self._next = max(shards, default=0) + 1
        for name in os.listdir(self.folder):
            if _SHARD.fullmatch(name.removesuffix(".tmp")) and name.endswith(".tmp"):
                os.unlink(self.folder / name)
        library = needed()
        for number, name in shards.items():
            try:
                with library.safe_open(self.folder / name, "pt") as shard:
                    if shard.metadata() == _MARK:
                        self._shard_of.update(dict.fromkeys(shard.keys(), number))
            except (library.SafetensorError, OSError):
                continue  # damaged: nothing new shall depend on it; an audit names it

    def new_bytes(self, tensors: dict[str, torch.Tensor]) -> int:
        """What these tensors, by their keys, would add."""
        return sum(_size(tensor) for key, tensor in tensors.items() if key not in self._shard_of)

    def append(self, fields: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """Saves the tensors, by their keys, that are not saved yet, and a line of fields and of each tensor's shard."""
        for key, tensor in tensors.items():
            if key not in self._shard_of:
                self._pending.tensors[key] = tensor
                self._shard_of[key] = self._next
                self._pending.size += _size(tensor)
                self.size += _size(tensor)
        line = to_line(fields | {"shards": {key: self._shard_of[key] for key in tensors}})
        self._pending.lines.append(line)
        self.size += len(line)
        self.calls += fields.get("kind") == "call"
        if self._pending.size >= self._shard_bytes or len(self._pending.lines) >= _CALLS_A_SHARD:
            self.flush()

    def flush(self) -> None:
        """Puts everything on disk. RecordingError where that fails: what was on disk before stays as it was."""
        pending, self._pending = self._pending, _Pending()
        try:
            if pending.tensors:
                self._write_shard(pending.tensors)
            if pending.lines:
                self._append("".join(pending.lines))
        except BaseException as problem:
            for key in pending.tensors:  # no later line may refer to them
                self._shard_of.pop(key, None)
            if not isinstance(problem, (OSError, needed().SafetensorError)):
                raise
            raise RecordingError(
                f"cannot write into {self.folder}: {problem}. The last {len(pending.lines)} lines are lost, what was "
                "recorded before is complete; make room, then record into the same folder to resume"
            ) from None

    def _write_shard(self, tensors: dict[str, torch.Tensor]) -> None:
        name = shard_name(self._next)
        temporary = self.folder / f"{name}.tmp"
        try:
            needed().torch.save_file(tensors, temporary, metadata=_MARK)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._sync_folder()
        self._next += 1

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _append(self, text: str) -> None:
        data, before = text.encode(), os.fstat(self._index).st_size
        try:
            while data:
                data = data[os.write(self._index, data) :]
            os.fsync(self._index)
        except OSError:
            os.ftruncate(self._index, before)
            raise

    def close(self) -> None:
        """Flushes and lets other writers in."""
        try:
            self.flush()
        finally:
            self._release()

    def _release(self) -> None:
        if self._index >= 0:
            os.close(self._index)  # and with it the lock
            self._index = -1


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
