"""Small calls for tests to start from, and fresh interpreters to run code in."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import torch

import mmaemu

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def codes(rows: int, depth: int, dtype: torch.dtype = E4M3, *, seed: int = 0) -> torch.Tensor:
    """A [rows, depth] matrix of random finite operands of both signs."""
    random = torch.Generator().manual_seed(seed)
    magnitude = torch.randint(0, 0x7B, (rows, depth), generator=random, dtype=torch.uint8)
    sign = torch.randint(0, 2, (rows, depth), generator=random, dtype=torch.uint8) << 7
    return (magnitude | sign).view(dtype)


def arguments(**changes: Any) -> dict[str, Any]:
    """The arguments of a valid call of scaled_mm, some of them changed: 16 x 16 x 32, unsplit, on the RTX 4060."""
    valid = {
        "input": codes(16, 32, seed=1),
        "mat2": codes(16, 32, seed=2).t(),
        "scale_a": torch.tensor(0.5),
        "scale_b": torch.tensor(0.25),
        "out_dtype": torch.float32,
        "splitk": 1,
        "profile": "ada",
    }
    return valid | changes


def scaled(**changes: Any) -> torch.Tensor:
    return mmaemu.scaled_mm(**arguments(**changes))


def bits(result: torch.Tensor) -> list[Any]:
    """The bits of a result, as nested lists that compare and print."""
    return mmaemu.testing.bits(result).tolist()


def run_python(code: str, *options: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter runs the code; variables of mmaemu's are those given."""
    return run_command(*options, "-c", textwrap.dedent(code), timeout=timeout, **environment)


def run_command(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with these arguments."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=plain_environment() | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """python -m mmaemu in a fresh interpreter that sees no CUDA device."""
    return run_command("-m", "mmaemu", *arguments, **{"MMAEMU_DISABLE_CUDA": "1"} | environment)


def plain_environment() -> dict[str, str]:
    """This process's environment without mmaemu's variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MMAEMU_")}


def read_terminal(terminal: int) -> str:
    """All that was printed to a pseudo-terminal, until its other end is closed."""
    printed = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        printed += piece
    return printed.decode()
