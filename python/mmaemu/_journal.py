"""What an audit has found so far, in a file: another audit of the same things need not find it again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _store
from ._differences import Differences
from .errors import RecordingError

if TYPE_CHECKING:
    from . import _audit_tasks

_HEADER = _store.to_line({"kind": "mmaemu audit state", "version": 1})


class Journal:
    """JSON lines, each with a piece's key and what it gave; a line that is damaged or incomplete counts as not there.

    The key holds all that the result depends on: the call, the rows, the arguments of the audit, this version, and the
    sizes and times of the shards. path None: keeps nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None, folder: Path, settings: _audit_tasks.Settings) -> None:
        self._folder = folder
        self._settings = repr(dataclasses.replace(settings, audit="")) + _native.version()
        self._known: dict[str, dict[str, Any]] = {}
        self._file: Any = None
        if path is None:
            return
        try:
            self._file = open(path, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115
            self._file.seek(0)
            text = self._file.read()
            if text and not text.startswith(_HEADER):
                raise RecordingError(f"{path} is no state of an audit; choose a new file")
            self._file.write(_HEADER if not text else "" if text.endswith("\n") else "\n")
            self._file.flush()
        except OSError as problem:
            raise RecordingError(f"cannot keep the state of the audit in {path}: {problem.strerror}") from None
        for line in text.splitlines():
            self._learn(line)

    def _learn(self, line: str) -> None:
        try:
            fields = _store.from_line(line)
            self._known[fields["piece"]] = fields
        except (ValueError, KeyError, TypeError):
            return

    def find(self, piece: _audit_tasks.Piece) -> _audit_tasks.Examined | None:
        """What an earlier audit found of a piece."""
        if self._file is None:
            return None
        fields = self._known.get(self._key(piece))
        return None if fields is None else _to_examined(fields)

    def add(self, piece: _audit_tasks.Piece, examined: _audit_tasks.Examined) -> None:
        """Keeps what was found. RecordingError where the file cannot be written."""
        if self._file is None:
            return
        try:
            self._file.write(_store.to_line({"piece": self._key(piece), "examined": dataclasses.asdict(examined)}))
            self._file.flush()
        except OSError as problem:
            raise RecordingError(
                f"cannot keep the state of the audit in {self._file.name}: {problem.strerror}"
            ) from None

    def _key(self, piece: _audit_tasks.Piece) -> str:
        shards = sorted({saved.shard for saved in piece.call.tensors.values()})
        files = [self._stamp(self._folder / _store.shard_name(number)) for number in shards]
        text = json.dumps([self._settings, repr(piece), files])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @staticmethod
    def _stamp(path: Path) -> list[Any]:
        try:
            status = path.stat()
        except OSError:
            return [str(path)]
        return [str(path), status.st_size, status.st_mtime_ns]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _to_examined(fields: dict[str, Any]) -> _audit_tasks.Examined:
    from . import _audit_tasks as tasks

    checked = dict(fields["examined"]["checked"])
    checked["differences"] = Differences(**checked["differences"])
    ways = fields["examined"]["ways"]
    return tasks.Examined(
        tasks.Checked(**checked),
        None
        if ways is None
        else [tasks.Candidate(way["profile"], way["use_fast_accum"], tuple(way["split"])) for way in ways],
    )
