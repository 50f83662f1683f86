"""selftest and python -m mmaemu selftest on the fake device: verdicts, the cache, exit status."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import fake_gpu
import mmaemu
from calls import run_cli, run_python
from mmaemu.cli import main


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> fake_gpu.FakeGpu:
    return fake_gpu.driver_only(monkeypatch, tmp_path)


def test_every_kernel_has_its_gates(gpu: fake_gpu.FakeGpu) -> None:
    results = mmaemu.selftest()
    assert list(results) == ["tc3", "v9", "v4", "v1", "h4", "h1"]
    for kernel in ("v4", "v1", "h4", "h1"):
        load, smoke = results[kernel]
        assert (load.name, load.passed, load.reason, load.details) == ("load", True, "fatbin", {})
        assert (smoke.name, smoke.passed) == ("smoke", True)
        assert smoke.reason.endswith("elements equal")
        assert smoke.details["mismatches"] == 0
        assert smoke.details["elements"] > 10_000
        assert smoke.seconds > 0
    for kernel, own in (("tc3", ["window", "design_a"]), ("v9", ["window"])):
        assert [gate.name for gate in results[kernel]] == ["load", *own, "smoke"]
        assert all(gate.passed for gate in results[kernel])
        assert all(gate.details["violations"] == 0 for gate in results[kernel][1:-1])


@pytest.mark.parametrize("device", [None, 0, "cuda", "cuda:0", torch.device("cuda", 0)])
@pytest.mark.parametrize("kernels", ["v1,h1", ("v1", "h1")])
def test_kernels_and_device_are_named_in_any_usual_form(gpu: fake_gpu.FakeGpu, device: Any, kernels: Any) -> None:
    gpu.fail_launch("mmaemu_")  # no need to compute
    assert list(mmaemu.selftest(device, kernels=kernels)) == ["v1", "h1"]


def test_no_kernels_are_no_verdicts(gpu: fake_gpu.FakeGpu) -> None:
    assert mmaemu.selftest(kernels=[]) == {}
    assert gpu.calls() == 0


def test_a_damaged_verdict_and_an_unwritable_cache_cost_a_run(
    gpu: fake_gpu.FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mmaemu.selftest(kernels="v1")["v1"][1].passed
    (entry,) = (tmp_path / "cache" / "verdicts").iterdir()
    entry.write_text(entry.read_text().replace("passed", "Passed"))
    fresh = "import mmaemu; gate = mmaemu.selftest(kernels='v1')['v1'][1]; print(gate.passed, gate.cached)"
    environment = {name: value for name, value in os.environ.items() if name.startswith("MMAEMU_")}
    assert run_python(fresh, **environment).stdout == "True False\n"
    assert run_python(fresh, **environment).stdout == "True True\n"
    (tmp_path / "file").touch()
    unwritable = environment | {"MMAEMU_CACHE_DIR": str(tmp_path / "file" / "cache")}
    assert run_python(fresh, **unwritable).stdout == "True False\n"


def test_verdicts_are_cached_until_forced(gpu: fake_gpu.FakeGpu, tmp_path: Path) -> None:
    assert not mmaemu.selftest(kernels="v1", force=True)["v1"][1].cached
    assert len(list((tmp_path / "cache" / "verdicts").iterdir())) == 1
    gpu.spoil("mmaemu_v1")
    assert mmaemu.selftest(kernels=["v1"])["v1"][1].passed
    forced = mmaemu.selftest(0, kernels="v1", force=True)["v1"][1]
    assert (forced.passed, forced.cached) == (False, False)


def test_the_status_says_what_loaded_and_passed(gpu: fake_gpu.FakeGpu, tmp_path: Path) -> None:
    gpu.spoil("mmaemu_v4")
    fake_gpu.drop_binary(tmp_path, "h4")
    status = mmaemu.backends_status(0)
    v1 = status["cuda:v1"]
    assert (v1.available, v1.source, v1.validated_here, v1.gates) == (True, "fatbin", False, ("load", "smoke"))
    assert status["cuda:tc3"].gates == ("load", "window", "design_a", "smoke")
    v4 = status["cuda:v4"]
    assert (v4.available, v4.source, v4.gates) == (False, "fatbin", ("load",))
    assert v4.reason.startswith("gate smoke failed on Fake GPU: ")
    h4 = status["cuda:h4"]
    assert (h4.available, h4.source, h4.gates) == (False, None, ())
    assert "names no binary of h4" in h4.reason
    assert status["reference"].available
    assert not any(entry.validated_here for name, entry in status.items() if name != "reference")


def test_the_commands_tell_of_a_device(gpu: fake_gpu.FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.fail_launch("mmaemu_v4")
    call = ("explain", "16", "16", "32", "--profile", "ada", "--device", "cuda:0")
    assert main([*call]) == 0
    explained = capsys.readouterr().out
    assert "backend     cuda:v1\n" in explained
    assert "fallback    cuda:v4: its gates cannot run: the launch of mmaemu_v4_e4m3e4m3 fails" in explained
    for device in ("cuda", "auto"):
        assert main([*call, "--device", device, "--backend", "cuda:v1", "--json", "-"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["call"]["device"], told["plan"]["backend"]) == ("cuda:0", "cuda:v1")
    assert main([*call, "--device", "cuda:1"]) == 4
    assert "explain is unavailable on cuda:1" in capsys.readouterr().out
    assert main([*call, "--backend", "cuda:h1"]) == 1
    assert "would raise BackendUnavailableError" in capsys.readouterr().out
    assert main(["info", "--device", "0"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^device +cuda:0 \(Fake GPU\)$", told, re.MULTILINE)
    assert re.search(r"^cuda:tc3 +available: fatbin, passed load, window, design_a, smoke$", told, re.MULTILINE)
    assert re.search(r"^cuda:v4 +no: its gates cannot run: ", told, re.MULTILINE)


def test_passing_kernels_give_status_0(gpu: fake_gpu.FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--kernels", "v1,h1", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["required"] == ["v1", "h1"]
    assert [gate["name"] for gate in report["kernels"]["v1"]] == ["load", "smoke"]


def test_force_runs_the_gates_again(gpu: fake_gpu.FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    for options, cached in (((), False), ((), True), (("--force",), False)):
        assert main(["selftest", "--device", "0", "--kernels", "v1", *options, "--json", "-"]) == 0
        smoke = json.loads(capsys.readouterr().out)["kernels"]["v1"][-1]
        assert list(smoke) == ["name", "passed", "reason", "details", "seconds", "cached"]
        assert smoke["cached"] == cached


def test_a_required_kernel_that_fails_gives_status_1(gpu: fake_gpu.FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.spoil("mmaemu_h1")
    assert main(["selftest", "--kernels", "h1"]) == 1
    assert "FAILED smoke" in capsys.readouterr().out


def test_a_kernel_that_is_not_required_may_fail(gpu: fake_gpu.FakeGpu) -> None:
    gpu.tensor_fraction(25)
    assert main(["selftest"]) == 0
    assert main(["selftest", "--kernels", "tc3"]) == 1


def test_an_unknown_kernel_is_a_usage_error(gpu: fake_gpu.FakeGpu) -> None:
    assert main(["selftest", "--kernels", "v2"]) == 2


def test_a_device_that_is_not_there_gives_status_4(gpu: fake_gpu.FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--device", "3"]) == 4
    assert "there is no CUDA device 3" in capsys.readouterr().out


def test_without_cuda_the_status_is_4() -> None:
    result = run_cli("selftest")
    assert result.returncode == 4
    assert "nothing could be tested" in result.stdout
