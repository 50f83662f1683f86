"""The native command: the JSON that the package writes, recorded bits from files, the exit status."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calls import plain_environment, read_terminal

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
    ("64", "64", "64", "--profile", "h100"),
    ("64", "64", "64", "--profile", ""),
    ("64", "64", "64", "--device", "cuda:0"),
]


@pytest.mark.parametrize("arguments", EXPLAINED, ids=" ".join)
def test_explain_writes_what_the_package_writes(arguments: tuple[str, ...]) -> None:
    native, module = both("explain", *arguments, "--json", "-")
    assert native.stdout == module.stdout
    assert native.returncode == module.returncode
    json.loads(native.stdout)
    native, module = both("explain", *arguments)
    assert native.stdout == module.stdout
    assert native.returncode == module.returncode


def test_explain_of_an_unknown_default_profile_writes_what_the_package_writes() -> None:
    native, module = both("explain", "64", "64", "64", "--json", "-", MMAEMU_PROFILE="h100")
    assert (native.stdout, native.returncode) == (module.stdout, 1)
    assert module.returncode == 1


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
        (("explain", "16", "64", "64", "--profile", "h100"), 1),
        (("bench", "16", "64", "64", "--profile", "h100"), 2),
        (("explain", "16", "64", "64", "--splitk", "9" * 20), 2),
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


def on_a_terminal(*arguments: Any, cwd: Path, **environment: str) -> str:
    """What a command prints to a terminal that is its standard error alone."""
    terminal, its_end = pty.openpty()
    environment = plain_environment() | {"TERM": "xterm"} | environment
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)], cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=its_end
    ) as process:
        os.close(its_end)
        printed = read_terminal(terminal)
    os.close(terminal)
    assert process.returncode == 0
    return printed


def test_long_work_shows_its_progress_on_a_terminal_and_leaves_the_line_empty(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", random.integers(0, 0x48, (4096, 2048), dtype=np.uint8))
    product = ("gemm", "a.npy", "b.npy", "-o", "y.npy", "--a-format", "e4m3", "--b-format", "e4m3", "--fast")
    printed = on_a_terminal(*product, "--splitk", "1", "--out", "bf16", cwd=tmp_path)
    shares = [int(share) for share in re.findall(r"\[#* *\] +(\d+)%", printed)]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 100 and len(shares) > 2
    assert printed.endswith("\r\x1b[K")
    assert on_a_terminal(*product, "--splitk", "1", "--out", "bf16", cwd=tmp_path, TERM="dumb") == ""
    assert on_a_terminal("bench", "16", "64", "64", "--repeat", "1", cwd=tmp_path) == ""


def test_a_product_is_the_same_in_bands(tmp_path: Path) -> None:
    """The progress bar makes bands of rows."""
    random = np.random.default_rng(1)
    np.save(tmp_path / "a.npy", random.integers(0, 0x48, (1999, 4096), dtype=np.uint8))
    np.save(tmp_path / "b.npy", random.integers(0, 0x48, (4096, 4096), dtype=np.uint8))
    product = ("gemm", "a.npy", "b.npy", "--a-format", "e4m3", "--b-format", "e4m3", "--fast", "--splitk", "1")
    assert on_a_terminal(*product, "-o", "bands.npy", cwd=tmp_path) != ""
    assert run(*product, "-o", "whole.npy", cwd=tmp_path).returncode == 0
    assert (tmp_path / "bands.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_operands_without_elements_are_no_way_to_ask_for_endless_memory(tmp_path: Path) -> None:
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387904, 0), }"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    formats = ("--a-format", "e4m3", "--b-format", "e4m3")
    done = run("gemm", "a.npy", "a.npy", "-o", "y.npy", *formats, cwd=tmp_path)
    assert (done.returncode, "too many to address" in done.stderr) == (1, True), done.stderr


def test_arrays_of_ml_dtypes_are_operands(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    import mmaemu

    random = np.random.default_rng(0)
    x = random.standard_normal((16, 64)).astype(ml_dtypes.float8_e4m3fn)
    w = random.standard_normal((32, 64)).astype(ml_dtypes.float8_e5m2)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    formats = ("--a-format", "e4m3", "--b-format", "e5m2", "--out", "fp32", "--fast", "--splitk", "1")
    done = run("gemm", "x.npy", "w.npy", "-o", "y.npy", *formats, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = mmaemu.accumulate(x, w, use_fast_accum=True, splitk=1)
    assert (np.load(tmp_path / "y.npy").view(np.uint32) == expected.view(np.uint32)).all()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "info"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr


def test_warnings_go_to_standard_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full((16, 64), 0x38, np.uint8))
    options = ("--a-format", "e4m3", "--b-format", "e4m3", "--splitk", "1", "--profile", "hopper-experimental")
    done = run("gemm", "a.npy", "a.npy", "-o", "y.npy", *options, "--json", "-", cwd=tmp_path)
    assert done.returncode == 0
    assert "ExperimentalPresetWarning: " in done.stderr
    assert json.loads(done.stdout)["warnings"] != []
