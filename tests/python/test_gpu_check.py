"""scripts/gpu-check where there is no GPU: what it says, and that it could begin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from calls import plain_environment

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
