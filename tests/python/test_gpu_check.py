"""scripts/gpu-check where there is no GPU: what it says, and that it could begin."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import fake_gpu
import golden
import mmaemu
from calls import E5M2, arguments, codes, plain_environment

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "gpu-check"
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = plain_environment() | {"PYTHON": sys.executable}
    return subprocess.run(
        [SCRIPT, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def test_help_names_the_steps_and_the_exit_status(tmp_path: Path) -> None:
    result = run("--help", cwd=tmp_path)
    assert result.returncode == 0
    for word in ("selftest", "recordings", "random", "rates", "torch._scaled_mm", "Exit status", "--json"):
        assert word in result.stdout


@without_gpu
def test_without_a_gpu_nothing_is_checked_and_the_status_is_4(tmp_path: Path) -> None:
    result = run(cwd=tmp_path)
    assert result.returncode == 4
    assert "sees no CUDA device 0; nothing was checked" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_reads_the_recordings_and_says_what_would_be_done(tmp_path: Path) -> None:
    result = run("--dry-run", "--json", "plan.json", cwd=tmp_path)
    assert result.returncode == 4, result.stderr
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["plan"]
    assert plan["recorded_products"]["ada"] > 1750
    assert plan["recorded_products"]["hopper"] > 250
    assert plan["kernels"] == {"ada": ["tc3", "v9", "v4", "v1"], "hopper": ["h4", "h1"]}
    assert sum(plan["steps"].values()) == pytest.approx(1.0)


def test_another_option_is_a_usage_error(tmp_path: Path) -> None:
    assert run("--no-such-option", cwd=tmp_path).returncode == 2


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script's functions, on the fake device."""
    fake_gpu.device_zero(monkeypatch, tmp_path)
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT.with_name("gpu_check.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.OnDevice, "_move", lambda self, value: value)
    return module


def test_the_kernels_of_a_device_are_found(check: ModuleType) -> None:
    assert check.available(mmaemu, "cuda:0") == {"ada": ["tc3", "v9", "v4", "v1"], "hopper": ["h4", "h1"]}
    report = check.selftest(mmaemu, "cuda:0")
    assert report["failed"] == []
    json.dumps(report)


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
@pytest.mark.parametrize(("preset", "kernel"), [("ada", "v1"), ("hopper", "h1")])
def test_recordings_replay_on_a_kernel_while_there_is_time(check: ModuleType, preset: str, kernel: str) -> None:
    on_device = check.OnDevice(torch, mmaemu, "cuda:0", f"cuda:{kernel}")
    result = check.replay(golden, on_device, preset, check.Clock(15))
    assert result["first_wrong"] == []
    assert result["products_served"] > 5
    assert golden.mmaemu is mmaemu


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
def test_a_wrong_bit_in_a_recording_is_reported(check: ModuleType) -> None:
    case = golden.cases("oracle/cases.jsonl")[0]

    class Wrong(check.OnDevice):
        def _run(self, *args: Any, **keywords: Any) -> torch.Tensor:
            return super()._run(*args, **keywords).view(torch.uint8).bitwise_xor(1).view(torch.float32)

    wrong = Wrong(torch, mmaemu, "cuda:0", "reference")
    assert "elements differ" in check.oracle_problems(golden, wrong, case)[0]


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
def test_random_products_are_compared(check: ModuleType) -> None:
    kernels = {"ada": ["v1"], "hopper": []}
    result = check.differential(torch, mmaemu, "cpu", kernels, 5, check.Clock(3))
    assert (result["wrong"], result["seed"]) == (0, 5)
    assert result["products"]["v1"] > 0


@without_gpu
def test_a_step_that_ends_in_an_error_leaves_the_others_in_the_report(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "environment", lambda *arguments: {})
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    monkeypatch.setattr(check, "replay", lambda *arguments: {"wrong": 0, "products_served": 9})
    kept = []
    report = check.check(torch, mmaemu, golden, "cuda:0", 4, 5, lambda report: kept.append(set(report)))
    assert kept[0] == {"environment"}
    assert kept[-1] == set(report) - {"rates", "failures"}
    json.dumps(report)
    assert report["kernels"] == {"ada": ["tc3", "v9", "v4", "v1"], "hopper": ["h4", "h1"]}
    assert report["selftest"]["failed"] == []
    assert set(report["recordings"]) == {"tc3", "v9", "v4", "v1", "h4", "h1"}
    # torch has no device to move tensors to.
    assert "in differential" in report["random"]["traceback"]
    assert [failure.partition(":")[0] for failure in report["failures"]] == ["random", "rates"]


@pytest.mark.filterwarnings("ignore::mmaemu.BackendFallbackWarning")
def test_a_kernel_that_dropped_out_has_not_passed(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = fake_gpu.device_zero(monkeypatch, tmp_path, fresh=True)
    gpu.spoil("mmaemu_v1")
    on_device = check.OnDevice(torch, mmaemu, "cuda:0", "cuda:v1")
    with pytest.raises(mmaemu.BackendUnavailableError, match="gate smoke failed"):
        on_device.scaled_mm(**arguments())
    gpu.reset()
    both_e5m2 = {"a": codes(4, 32, E5M2), "b": codes(4, 32, E5M2), "use_fast_accum": True, "splitk": 1}
    on_device.accumulate(**both_e5m2, profile="ada")
    assert (on_device.served, on_device.unserved) == (0, 1)
    nothing = {"wrong": 0, "products_served": 0, "left_out_for_time": 0}
    report = {
        "kernels": {"ada": ["v1"], "hopper": []},
        "selftest": {"failed": []},
        "recordings": {"v1": nothing},
        "random": {"wrong": 0, "products": {"v1": 0}},
    }
    assert check.failures(report) == [
        "recordings: v1 served 0 products, 0 cases were left out for time",
        "random products: none on v1",
    ]
