"""Every program under examples/ runs and does what it says; examples/cpp is built by tests/package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def example(name: str, *arguments: str, cwd: Path) -> str:
    return run(str(EXAMPLES / name), *arguments, cwd=cwd)


def test_no_example_is_forgotten() -> None:
    tested = {"float8_linear.py", "numpy_products.py", "test_my_kernel.py", "explore_accumulator.py"}
    run_by_test_sh = {"evo2_projection.py", "transformer.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested | run_by_test_sh


def test_float8_linear(tmp_path: Path) -> None:
    lines = example("float8_linear.py", cwd=tmp_path).splitlines()
    assert lines[0].startswith("hopper  [4, 8, 1024] torch.bfloat16")
    assert int(lines[-1].split()[0]) > 1000


def test_numpy_products(tmp_path: Path) -> None:
    assert example("numpy_products.py", cwd=tmp_path).count("4096 of 4096 accumulators are the recorded bits") == 3


def test_a_kernel_is_tested(tmp_path: Path) -> None:
    assert "6 passed" in run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_my_kernel.py"), cwd=tmp_path
    )


def test_explore_accumulator(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table = example("explore_accumulator.py", "--plot", "errors.png", cwd=tmp_path).splitlines()[1:]
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    for line in table:
        errors = [float(number) for number in line.split()[3:]]
        assert errors == sorted(errors, reverse=True), "more bits, smaller errors"


def test_the_figures_of_the_documentation_are_up_to_date(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    if matplotlib.__version__ not in (EXAMPLES.parent / "constraints" / "torch-2.7.1.txt").read_text():
        pytest.skip("another matplotlib writes other files")
    run(str(EXAMPLES.parent / "docs" / "figures" / "draw.py"), "--check", cwd=tmp_path)
