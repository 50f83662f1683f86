"""Emits the warnings that the library reports: once per process and key, at the caller's line."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any

from . import errors

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# What torch.compile wraps the entry points in while it is in use, and newer torch versions wrap dispatch modes in.
_WRAPPERS = (f"{os.sep}torch{os.sep}_dynamo{os.sep}", f"{os.sep}torch{os.sep}_compile.py")
_seen: set[str] = set()
_lock = threading.Lock()


def _category(name: str) -> type[Warning]:
    return UserWarning if name == "UserWarning" else getattr(errors, name)


def _caller_level() -> int:
    """The stacklevel, as seen by warn, of the first frame outside the package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not (name.startswith(_PACKAGE) or any(wrapper in name for wrapper in _WRAPPERS)):
            break
        frame = frame.f_back
        level += 1
    return level


def warn(category: str, message: str) -> None:
    """Emits one warning at the caller's line."""
    warnings.warn(message, _category(category), stacklevel=_caller_level())


def emit(reported: Iterable[Any], *, dry: bool = False) -> None:
    """Emits native Warning objects. dry: also those already seen, and none is marked as seen."""
    for warning in reported:
        if warning.once_key and not dry:
            with _lock:
                if warning.once_key in _seen:
                    continue
                _seen.add(warning.once_key)
        try:
            warn(warning.category, warning.message)
        except Warning:
            # The user's filter made it an error: the call fails, so the warning counts as not yet given.
            with _lock:
                _seen.discard(warning.once_key)
            raise
