"""Which backends can serve calls, and the CUDA kernels' self-test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from . import _native


@dataclasses.dataclass(frozen=True)
class BackendStatus:
    """Whether a backend can serve calls on a device.

    source: "native" for the reference, which is compiled into the library; "fatbin" or "nvrtc" for a CUDA kernel
    that loaded, None for one that did not. validated_here: this project's kernel passed on this kind of device.
    gates: the checks it passed. reason: why it is unavailable; for the reference, what runs.
    """

    name: str
    available: bool
    source: str | None
    validated_here: bool
    gates: tuple[str, ...]
    reason: str


@dataclasses.dataclass(frozen=True)
class GateResult:
    """One check of a CUDA kernel: seconds it took, and whether the verdict came from the cache."""

    name: str
    passed: bool
    reason: str
    details: dict[str, Any]
    seconds: float
    cached: bool


def device_name(device: Any) -> str:
    """ "cpu" or "cuda:N" of a device argument; None means the CPU.

    ValueError for another device, TypeError for another type.
    """
    if device is None:
        return "cpu"
    if isinstance(device, bool):
        raise TypeError("device must be None, an index, a name or a torch.device, not bool")
    if isinstance(device, int):
        if device < 0:
            raise ValueError(f"device must be a CUDA index of at least 0, not {device}")
        return f"cuda:{device}"
    kind, colon, index = str(device).partition(":")
    if kind == "cpu" and (not colon or index == "0"):
        return "cpu"
    if kind == "cuda" and (not colon or index.isdecimal()):
        return f"cuda:{int(index) if colon else 0}"
    raise ValueError(f'device must be "cpu", "cuda" or "cuda:N", not {str(device)!r}')


def backends_status(device: Any = None) -> dict[str, BackendStatus]:
    """Backend name -> BackendStatus for a device: None (the CPU), a CUDA index, a name or a torch.device."""
    return {
        s.name: BackendStatus(s.name, s.available, s.source or None, s.validated_here, tuple(s.gates), s.reason)
        for s in _native.backends_status(device_name(device))
    }


def selftest(
    device: Any = None, *, kernels: str | Iterable[str] = "all", force: bool = False
) -> dict[str, list[GateResult]]:
    """Kernel name -> results of its gates on a CUDA device; empty where no CUDA kernel can run.

    device: None (the current CUDA device), an index, a name or a torch.device. kernels: "all", a comma-separated
    string or a sequence of names. force: run the gates again instead of taking cached verdicts. ValueError for an
    unknown kernel.
    """
    return {verdict.kernel: gate_results(verdict) for verdict in verdicts(device, kernels, force)}


def verdicts(device: Any, kernels: str | Iterable[str], force: bool) -> list[_native.KernelVerdict]:
    """selftest's results as the library gives them."""
    if not isinstance(force, bool):
        raise TypeError(f"selftest(): force must be a bool, not {type(force).__name__}")
    name = "cuda" if device is None else device_name(device)
    wanted = kernels.split(",") if isinstance(kernels, str) else list(kernels)
    if not wanted:
        return []
    return _native.selftest(name, [] if wanted == ["all"] else wanted, force)


def gate_results(verdict: _native.KernelVerdict) -> list[GateResult]:
    return [
        GateResult(gate.name, gate.passed, gate.reason, dict(gate.details), gate.seconds, gate.cached)
        for gate in verdict.gates
    ]
