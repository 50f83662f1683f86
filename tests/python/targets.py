"""The instruction sets that the CPU engine has here, to run a call on each."""

import contextlib
import os
from collections.abc import Iterator

from mmaemu import _native

TARGETS = list(_native.cpu_targets())


@contextlib.contextmanager
def running_on(target: str) -> Iterator[None]:
    """Calls inside run on the target. mmaemu reads the variable at each call."""
    before = os.environ.get("MMAEMU_CPU_TARGET")
    os.environ["MMAEMU_CPU_TARGET"] = target
    try:
        yield
    finally:
        del os.environ["MMAEMU_CPU_TARGET"]
        if before is not None:
            os.environ["MMAEMU_CPU_TARGET"] = before
