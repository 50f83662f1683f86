"""backends_status and selftest: what can serve calls, and why the rest cannot."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import torch

import mmaemu
from calls import arguments, bits, scaled
from mmaemu import BackendStatus, BackendUnavailableError, GateResult

KERNELS = ("tc3", "v9", "v4", "v1", "h4", "h1")
CUDA = tuple(f"cuda:{kernel}" for kernel in KERNELS)


@pytest.fixture(autouse=True)
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_DISABLE_CUDA", "1")


def test_a_status_has_the_documented_fields_in_their_order() -> None:
    names = [field.name for field in dataclasses.fields(BackendStatus)]
    assert names == ["name", "available", "source", "validated_here", "gates", "reason"]


def test_a_gate_result_has_its_fields() -> None:
    names = [field.name for field in dataclasses.fields(GateResult)]
    assert names == ["name", "passed", "reason", "details", "seconds", "cached"]


def test_backends_status_takes_a_device() -> None:
    assert [(p.name, p.default) for p in inspect.signature(mmaemu.backends_status).parameters.values()] == [
        ("device", None)
    ]


def test_the_status_of_every_backend_is_under_its_name() -> None:
    status = mmaemu.backends_status()
    assert sorted(status) == sorted(["reference", *CUDA])
    assert all(name == entry.name for name, entry in status.items())


def test_the_reference_is_available_and_compiled_in() -> None:
    reference = mmaemu.backends_status()["reference"]
    assert (reference.available, reference.source, reference.validated_here) == (True, "native", True)
    assert reference.reason


@pytest.mark.parametrize("name", CUDA)
def test_the_reason_says_why_a_kernel_is_unavailable(name: str) -> None:
    assert mmaemu.backends_status()[name] == BackendStatus(name, False, None, False, (), "tensors on cpu")
    assert mmaemu.backends_status(0)[name] == BackendStatus(name, False, None, False, (), "MMAEMU_DISABLE_CUDA=1")


@pytest.mark.parametrize("device", [0, 3, "cuda", "cuda:0", "cuda:3", torch.device("cuda"), torch.device("cuda", 1)])
def test_a_device_is_an_index_a_name_or_a_torch_device(device: Any) -> None:
    assert mmaemu.backends_status(device)["cuda:v4"].reason == "MMAEMU_DISABLE_CUDA=1"


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_the_cpu_is_a_device(device: Any) -> None:
    assert mmaemu.backends_status(device)["cuda:v4"].reason == "tensors on cpu"


@pytest.mark.parametrize("device", ["mps", "cuda:", "cuda:x", "cuda:-1", "", -1, torch.device("meta")])
def test_another_device_is_a_value_error(device: Any) -> None:
    for function in (mmaemu.backends_status, mmaemu.selftest):
        with pytest.raises(ValueError, match="device must be"):
            function(device)


@pytest.mark.parametrize("device", [True, 1.5, ["cuda"]])
def test_a_device_of_another_type_is_an_error(device: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="device must be"):
        mmaemu.backends_status(device)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_the_reference_serves_cpu_tensors(backend: str) -> None:
    assert bits(scaled(backend=backend)) == bits(scaled())


@pytest.mark.parametrize("backend", ["cuda", *CUDA])
def test_an_explicitly_requested_kernel_that_cannot_serve_the_call_is_an_error(backend: str) -> None:
    out = torch.full((16, 16), 7.0)
    with pytest.raises(BackendUnavailableError, match=f'backend "{backend}" is unavailable: tensors on cpu'):
        scaled(backend=backend, out=out)
    assert (out == 7.0).all()
    a = arguments()["input"]
    with pytest.raises(BackendUnavailableError):
        mmaemu.accumulate(a, a, use_fast_accum=True, splitk=1, backend=backend)


@pytest.mark.parametrize("backend", ["gpu", "CUDA", "cuda:v2", "cuda:", "", "reference "])
def test_an_unknown_backend_is_a_value_error_with_the_known_names(backend: str) -> None:
    names = ", ".join(["auto", "reference", "cuda", *CUDA])
    with pytest.raises(ValueError, match=f"is not a backend; the backends are {names}"):
        scaled(backend=backend)


def test_mmaemu_backend_overrides_auto_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_BACKEND", "cuda:v4")
    with pytest.raises(BackendUnavailableError, match='"cuda:v4"'):
        scaled()
    assert scaled(backend="reference").shape == (16, 16)
    monkeypatch.setenv("MMAEMU_BACKEND", "reference")
    assert bits(scaled()) == bits(scaled(backend="reference"))
    monkeypatch.setenv("MMAEMU_BACKEND", "auto")
    assert bits(scaled()) == bits(scaled(backend="reference"))


def test_an_unknown_mmaemu_backend_is_a_value_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_BACKEND", "gpu")
    with pytest.raises(ValueError, match='MMAEMU_BACKEND="gpu" is not a backend; the backends are auto'):
        scaled()


@pytest.mark.parametrize("value", ["yes", "2"])
def test_another_mmaemu_disable_cuda_is_a_value_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MMAEMU_DISABLE_CUDA", value)
    assert f'not "{value}"' in mmaemu.backends_status(0)["cuda:v4"].reason


def test_selftest_takes_the_documented_arguments() -> None:
    parameters = inspect.signature(mmaemu.selftest).parameters.values()
    assert [(p.name, p.default) for p in parameters] == [("device", None), ("kernels", "all"), ("force", False)]
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == ["kernels", "force"]


@pytest.mark.parametrize("kernels", ["all", "v1", "v1,v4", ["v1", "v4"], ("h1",), list(KERNELS)])
@pytest.mark.parametrize("force", [False, True])
def test_selftest_without_cuda_tests_nothing(kernels: Any, force: bool) -> None:
    assert mmaemu.selftest(kernels=kernels, force=force) == {}
    assert mmaemu.selftest(0, kernels=kernels, force=force) == {}


@pytest.mark.parametrize("kernels", ["v2", "v1,", "", "v1, v4", "cuda:v1", ["v1", "all"], ["V1"]])
def test_an_unknown_kernel_is_a_value_error_with_the_known_names(kernels: Any) -> None:
    with pytest.raises(ValueError, match=f"is not a kernel; the kernels are {', '.join(KERNELS)}"):
        mmaemu.selftest(kernels=kernels)


def test_force_must_be_a_bool() -> None:
    with pytest.raises(TypeError, match="force must be a bool, not int"):
        mmaemu.selftest(force=1)
