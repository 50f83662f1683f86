"""The native command: the JSON that the package writes, recorded bits from files, the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calls import plain_environment

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
COMMAND = os.environ.get("MMAEMU_COMMAND", "")
pytestmark = pytest.mark.skipif(not COMMAND, reason="MMAEMU_COMMAND does not name a built command")


def run(*arguments: Any, command: tuple[str, ...] = (COMMAND,), cwd: Path | None = None, **environment: str) -> Any:
    return subprocess.run(
        [*command, *map(str, arguments)],
        env=plain_environment() | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


def both(*arguments: str, **environment: str) -> tuple[Any, Any]:
    module = run(*arguments, command=(sys.executable, "-m", "mmaemu"), **environment)
    return run(*arguments, **environment), module


EXPLAINED = [
    ("1", "2048", "8192", "--fast", "--out", "bf16"),
    ("16", "5760", "1920", "--profile", "ada", "--a", "e5m2"),
    ("16", "5760", "1920", "--a", "e5m2", "--b", "e5m2"),
    ("16", "64", "64"),
    ("1", "16", "8"),
    ("0", "16", "16", "--out", "fp32"),
    ("256", "2048", "8192", "--fast", "--splitk", "4,contiguous", "--out", "float16"),
    ("256", "2048", "8192", "--fast", "--splitk", "4,serial"),
    ("256", "2048", "8192", "--splitk", "7,sideways"),
    ("256", "2048", "8192", "--splitk", "3"),
    ("64", "64", "64", "--splitk", "1", "--scale-a", "0.1", "--scale-result", "2", "--scale-b", "inf"),
    ("64", "64", "64", "--splitk", "1", "--backend", "cuda:v4"),
    ("64", "64", "64", "--splitk", "1", "--backend", "gpu"),
    ("64", "64", "64", "--profile", "hopper-experimental"),
    ("64", "64", "64", "--device", "cuda:0"),
]


@pytest.mark.parametrize("arguments", EXPLAINED, ids=" ".join)
def test_explain_writes_what_the_package_writes(arguments: tuple[str, ...]) -> None:
    native, module = both("explain", *arguments, "--json", "-")
    assert native.stdout == module.stdout
    assert native.returncode == module.returncode
    json.loads(native.stdout)


def test_info_writes_what_the_package_writes_but_for_python() -> None:
    native, module = both("info", "--json", "-", MMAEMU_PROFILE="ada", MMAEMU_CPU_TARGET="portable")
    ours, theirs = json.loads(native.stdout), json.loads(module.stdout)
    assert list(ours) == list(theirs)
    assert [key for key in ours if ours[key] != theirs[key]] == ["python", "torch", "numpy"]
    assert ours["python"] is None and theirs["python"] is not None
    assert ours["default_profile"] == "ada"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("info",), 0),
        (("explain", "16", "5760", "1920", "--fast"), 0),
        (("explain", "16", "5760", "8"), 1),
        (("explain", "16", "5760"), 2),
        (("explain", "-1", "1", "1"), 2),
        (("explain", "16", "64", "64", "--splitk", "1,2,3"), 2),
        (("explain", "16", "64", "64", "--a", "fp4"), 2),
        (("explain", "16", "64", "64", "--profile", "h100"), 2),
        (("explain", "16", "64", "64", "--device", "cuda:7"), 4),
        ((), 2),
        (("frobnicate",), 2),
        (("gemm", "a.npy", "b.npy"), 2),
        (("gemm", "a.npy", "b.npy", "-o", "c.npy"), 2),
        (("compare", "a.npy"), 2),
        (("bench", "16", "64", "64", "--repeat", "1", "--fast"), 0),
        (("bench", "16", "64", "64", "--target", "avx1024"), 1),
        (("--version",), 0),
    ],
    ids=str,
)
def test_the_exit_status(arguments: tuple[str, ...], status: int, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert (done.stderr == "") == (status in (0, 4) or (arguments[:1] == ("explain",) and status == 1))
    assert list(tmp_path.iterdir()) == []


def recorded_calls() -> list[dict[str, Any]]:
    with open(GOLDEN / "oracle" / "cases.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][::40]


@pytest.mark.parametrize("case", recorded_calls(), ids=lambda case: case["id"])
def test_gemm_returns_recorded_bits_and_compare_finds_them(case: dict[str, Any], tmp_path: Path) -> None:
    arrays = np.load(GOLDEN / "oracle" / "arrays.npz")
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", arrays[case[name]])
        np.save(tmp_path / f"scale_{name}.npy", np.array(case[f"scale_{name}_bits"], np.uint32).view(np.float32))
    S, scheme = case["splitk"]
    options = ["--profile", case["profile"], "--splitk", "1" if S == 1 else f"{S},{scheme}"]
    options += ["--fast"] if case["fast"] else []
    for name in "ab":
        options += [f"--{name}-format", case[f"fmt_{name}"], f"--scale-{name}", f"scale_{name}.npy"]
    if case["scale_result_bits"] is not None:
        np.save(tmp_path / "scale.npy", np.array(case["scale_result_bits"], np.uint32).view(np.float32))
        options += ["--scale-result", "scale.npy"]
    dtype = case["out_dtype"]
    done = run("gemm", "a.npy", "b.npy", "-o", "y.npy", "--out", dtype, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = arrays[case["y"]]
    result = np.load(tmp_path / "y.npy")
    assert (result.view(expected.dtype) == expected).all()

    np.save(tmp_path / "recorded.npy", expected.view(np.float16) if dtype == "float16" else expected)
    recompute = ["--a", "a.npy", "--b", "b.npy", "--format", dtype, *options, "--json", "-"]
    found = run("compare", "recorded.npy", *recompute, cwd=tmp_path)
    assert found.returncode == 0 and json.loads(found.stdout)["equal"], found.stderr
    changed = expected.copy()
    changed.reshape(-1)[5] ^= 1
    np.save(tmp_path / "recorded.npy", changed.view(np.float16) if dtype == "float16" else changed)
    found = run("compare", "recorded.npy", *recompute, cwd=tmp_path)
    report = json.loads(found.stdout)
    assert found.returncode == 1 and report["different"] == 1
    assert report["first"][0]["row"] * result.shape[1] + report["first"][0]["column"] == 5


def test_safetensors_go_in_and_out(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    import mmaemu

    random = torch.Generator().manual_seed(0)
    x, w = (torch.randn(rows, 8192, generator=random).to(torch.float8_e4m3fn) for rows in (1, 2048))
    files.save_file({"x": x, "w": w, "scale": torch.tensor([0.25])}, tmp_path / "operands.safetensors")
    operands = ["operands.safetensors:x", "operands.safetensors:w", "--scale-b", "operands.safetensors:scale"]
    done = run("gemm", *operands, "-o", "y.safetensors", "--out", "bf16", "--fast", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["split"] == {"S": 2, "scheme": "contiguous", "source": "table", "verified": True}
    expected = mmaemu.scaled_mm(
        x, w.t(), torch.ones(1), torch.tensor([0.25]), out_dtype=torch.bfloat16, use_fast_accum=True
    )
    mmaemu.testing.assert_bitwise_equal(files.load_file(tmp_path / "y.safetensors")["result"], expected)


def test_a_refused_call_writes_nothing_and_says_why(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((4, 8), 0x38, np.uint8))
    formats = ("--a-format", "e4m3", "--b-format", "e4m3")
    done = run("gemm", "a.npy", "a.npy", "-o", "y.npy", *formats, "--json", "why.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "ReferenceRejectsError: K must be a multiple of 16" in done.stderr
    assert json.loads((tmp_path / "why.json").read_text())["error"][0] == "ReferenceRejectsError"
    assert not (tmp_path / "y.npy").exists()


def test_warnings_go_to_standard_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((16, 64), 0x38, np.uint8))
    options = ("--a-format", "e4m3", "--b-format", "e4m3", "--splitk", "1", "--profile", "hopper-experimental")
    done = run("gemm", "a.npy", "a.npy", "-o", "y.npy", *options, "--json", "-", cwd=tmp_path)
    assert done.returncode == 0
    assert "ExperimentalPresetWarning: " in done.stderr
    assert json.loads(done.stdout)["warnings"] != []
