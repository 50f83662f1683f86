"""mmaemu on a fake CUDA device: the fake driver of the C++ tests, whose memory is the host's, runs the kernels there.

Tensors stay on the CPU and are described as if they lay on cuda:0, so that everything but torch's own CUDA runs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from mmaemu import _arrays, _cuda

STREAM = 0x57
LIBRARY = Path(
    os.environ.get("MMAEMU_TEST_FAKE_GPU")
    or Path(__file__).parents[2] / "build" / "release" / "tests" / "fake_cuda" / "libcuda-fake-gpu.so"
)


class FakeGpu:
    """The fake driver as tests steer and ask it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))

    def reset(self) -> None:
        self._library.fake_gpu_reset()

    def fail(self, function: str, status: int) -> None:
        self._library.fake_gpu_fail(function.encode(), status)

    def fail_launch(self, name: str) -> None:
        self._library.fake_gpu_fail_launch(name.encode())

    def spoil(self, name: str) -> None:
        self._library.fake_gpu_spoil(name.encode())

    def tensor_fraction(self, bits: int) -> None:
        """How many bits the tensor cores' alignment leaves: 24 on Ampere and Ada."""
        self._library.fake_gpu_tensor_fraction(bits)

    def calls(self, function: str = "") -> int:
        """How often a function of the driver was called; "": all of them."""
        return self._library.fake_gpu_calls(function.encode())

    def launches(self, stream: int = STREAM) -> int:
        return self._library.fake_gpu_launches(ctypes.c_void_p(stream))


def driver_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> FakeGpu:
    """The fake driver with binaries that it takes; an empty cache and no NVRTC."""
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} is not built: cmake --build --preset release")
    import mmaemu

    gpu = FakeGpu()
    gpu.reset()
    monkeypatch.setenv("MMAEMU_LIBCUDA_PATH", str(LIBRARY))
    monkeypatch.setenv("MMAEMU_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("MMAEMU_FATBIN_DIR", str(folder))
    monkeypatch.setenv("MMAEMU_NVRTC_PATH", "/no/libnvrtc.so")
    names = ["gather", "add", "clear", "flag", "finish"]
    names += [f"{k}_{pair}" for k in ("v4", "v1", "h4", "h1") for pair in ("e4m3e4m3", "e4m3e5m2", "e5m2e4m3")]
    names += ["v9_e4m3e4m3", "tc3_e4m3e4m3", "probe_window", "probe_design_a"]
    image = "fake fatbin sm_89 " + " ".join(f"mmaemu_{name}" for name in names)
    (folder / "kernels.fatbin").write_text(image)
    sources = Path(mmaemu.__file__).parent / "cuda" / "kernels"
    lines = "".join(
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in sorted(sources.iterdir())
    )
    described = {"file": "kernels.fatbin", "sha256": hashlib.sha256(image.encode()).hexdigest()}
    manifest: dict[str, Any] = {"source_sha256": hashlib.sha256(lines.encode()).hexdigest()}
    manifest["images"] = [{"kernel": kernel} | described for kernel in ("tc3", "v9", "v4", "v1", "h4", "h1")]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return gpu


def drop_binary(folder: Path, kernel: str) -> None:
    """Takes a kernel out of the manifest; before its first use in a test."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["images"] = [image for image in manifest["images"] if image["kernel"] != kernel]
    path.write_text(json.dumps(manifest))


@functools.cache
def _shared_cache() -> tempfile.TemporaryDirectory[str]:
    """Verdicts of unspoiled kernels, which one run of the gates gives all tests of a process."""
    return tempfile.TemporaryDirectory()


def device_zero(monkeypatch: pytest.MonkeyPatch, folder: Path, *, fresh: bool = False) -> FakeGpu:
    """Likewise, and tensors on the CPU pass for tensors on cuda:0. fresh: the gates run anew."""
    gpu = driver_only(monkeypatch, folder)
    if not fresh:
        monkeypatch.setenv("MMAEMU_CACHE_DIR", _shared_cache().name)
    monkeypatch.setattr(_arrays, "device_of", lambda tensor: "cuda:0")
    monkeypatch.setattr(_cuda, "current_stream", lambda tensor: (0, STREAM))
    return gpu


def bits(tensor: torch.Tensor) -> list[Any]:
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    return tensor.view(integers[tensor.element_size()]).tolist()
