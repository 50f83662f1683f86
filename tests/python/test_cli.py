"""python -m mmaemu: info, selftest and explain, their options, exit statuses and output."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import mmaemu
from calls import run_cli, run_python

OK, FAILED, USAGE, NOTHING = 0, 1, 2, 4
VALID = ("explain", "64", "256", "2048", "--profile", "ada")


def report(*arguments: str, status: int = OK, **environment: str) -> dict[str, Any]:
    """What a command writes as JSON."""
    result = run_cli(*arguments, "--json", "-", **environment)
    assert (result.returncode, result.stderr) == (status, "")
    return json.loads(result.stdout)


# --- info -----------------------------------------------------------------------------------------------------


def test_info_prints_versions_profiles_presets_and_backends() -> None:
    result = run_cli("info")
    assert (result.returncode, result.stderr) == (OK, "")
    lines = dict(line.split(None, 1) for line in result.stdout.splitlines() if len(line.split(None, 1)) == 2)
    assert lines["mmaemu"] == mmaemu.__version__
    assert "torch" in lines["python"]
    assert lines["device"] == "cpu (no usable CUDA device)"
    assert lines["profiles"].startswith("ada, ada-te, ada-ws0, hopper (default), ")
    assert lines["presets"] == "ada, b200_mma_sync, hopper"
    assert lines["reference"].startswith("available: ")
    assert lines["cuda:v4"] == "no: tensors on cpu"


def test_info_as_json_holds_what_the_api_says() -> None:
    value = report("info")
    assert value["mmaemu"] == mmaemu.__version__
    assert [profile["name"] for profile in value["profiles"]] == mmaemu.list_profiles()
    assert [preset["name"] for preset in value["presets"]] == mmaemu.list_presets()
    assert {entry["name"] for entry in value["backends"]} == set(mmaemu.backends_status())
    assert value["default_profile"] == "hopper"
    assert value["matching_profiles"] == []
    assert value["gpu"] is None
    assert value["environment"] == {"MMAEMU_DISABLE_CUDA": "1"}
    ada = value["profiles"][0]
    assert (ada["preset"], ada["capability"], ada["workspace_bytes"]) == ("ada", [8, 9], 2**20)


def test_info_shows_the_environment() -> None:
    value = report("info", MMAEMU_PROFILE="ada-te", MMAEMU_BACKEND="reference")
    assert value["default_profile"] == "ada-te"
    assert value["environment"]["MMAEMU_BACKEND"] == "reference"
    assert "ada-te (default)" in run_cli("info", MMAEMU_PROFILE="ada-te").stdout


def test_info_takes_a_device() -> None:
    value = report("info", "--device", "3")
    assert value["device"] == "cuda:3"
    assert value["backends"][1]["reason"] == "MMAEMU_DISABLE_CUDA=1"


def test_info_of_an_unknown_default_profile_is_a_usage_error() -> None:
    result = run_cli("info", MMAEMU_PROFILE="rtx")
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert 'error: unknown profile "rtx" in MMAEMU_PROFILE' in result.stderr
    assert "Traceback" not in result.stderr


# --- selftest -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--device", "0"), ("--kernels", "all"), ("--kernels", "v1,v4"), ("--force",)])
def test_selftest_exits_4_where_nothing_could_be_tested(options: tuple[str, ...]) -> None:
    result = run_cli("selftest", *options)
    assert (result.returncode, result.stderr) == (NOTHING, "")
    assert "nothing could be tested on cuda:0: MMAEMU_DISABLE_CUDA=1" in result.stdout


def test_selftest_writes_json() -> None:
    assert report("selftest", "--kernels", "v1", status=NOTHING) == {"kernels": {}, "required": []}


def test_selftest_of_an_unknown_kernel_is_a_usage_error() -> None:
    result = run_cli("selftest", "--kernels", "v1,v2")
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert '"v2" is not a kernel; the kernels are tc3, v9, v4, v1, h4, h1' in result.stderr


# --- explain --------------------------------------------------------------------------------------------------


def test_explain_prints_the_plan_of_the_call() -> None:
    result = run_cli(*VALID, "--b", "e5m2", "--out", "bf16", "--fast")
    assert (result.returncode, result.stderr) == (OK, "")
    assert result.stdout.splitlines() == [
        "validation  ok",
        "profile     ada",
        "preset      ada (validated)",
        "split       S = 3, pairwise (from table, verified; table row: algo 60, tile 13, numSplitsK 3, customOption 1)",
        "backend     reference",
        "fallback    cuda: tensors on cpu",
    ]


def test_explain_as_json_holds_the_call_and_the_plan() -> None:
    value = report(*VALID, "--b", "e5m2", "--out", "bf16", "--fast", "--scale-a", "0.5")
    assert value["call"] == {
        "M": 64,
        "N": 256,
        "K": 2048,
        "a": "e4m3",
        "b": "e5m2",
        "out": "bf16",
        "fast": True,
        "scale_a": 0.5,
        "scale_b": 1.0,
        "scale_result": None,
        "splitk": "auto",
        "backend": "auto",
        "profile": "ada",
        "device": "cpu",
    }
    assert value["plan"]["validation"] == "ok"
    assert value["plan"]["split"]["S"] == 3


@pytest.mark.parametrize("out", ["fp32", "float32", "bf16", "bfloat16", "fp16", "float16", "e4m3", "float8_e4m3fn"])
def test_explain_takes_out_dtypes_by_their_short_and_long_names(out: str) -> None:
    assert report(*VALID, "--out", out, "--splitk", "1")["plan"]["validation"] == "ok"


def test_the_default_out_dtype_of_explain_is_that_of_input() -> None:
    call = ("explain", "16", "64", "4096", "--a", "e5m2", "--profile", "ada")
    default = report(*call)["plan"]["split"]
    assert default["S"] == report(*call, "--out", "e5m2")["plan"]["split"]["S"] == 10
    assert report(*call, "--out", "fp32")["plan"]["split"]["S"] == 3


@pytest.mark.parametrize(
    ("splitk", "profile", "split"),
    [
        ("1", "ada", (1, "none")),
        ("2,serial", "ada", (2, "serial")),
        ("2,pairwise", "ada", (2, "pairwise")),
        ("2,contiguous", "hopper", (2, "contiguous")),
    ],
)
def test_explain_takes_explicit_splits(splitk: str, profile: str, split: tuple[int, str]) -> None:
    plan = report("explain", "64", "256", "2048", "--profile", profile, "--splitk", splitk)["plan"]
    assert (plan["split"]["S"], plan["split"]["scheme"], plan["split"]["source"]) == (*split, "explicit")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (("--splitk", "2,serial", "--profile", "hopper"), "ValueError", 'does not belong to preset "hopper"'),
        (("--splitk", "2,contiguous", "--profile", "ada"), "ValueError", 'does not belong to preset "ada"'),
        (("--splitk", "2", "--profile", "ada"), "ValueError", "splitk=2 does not say"),
        (("--splitk", "0"), "ValueError", "S must be an integer >= 1"),
        (("--splitk", "2,zigzag"), "ValueError", '"zigzag" is not a split scheme'),
        (("--profile", "rtx"), "KeyError", 'unknown profile "rtx"'),
        (("--profile", "h\udcff"), "KeyError", "unknown profile"),
        (("--backend", "gpu"), "ValueError", 'backend="gpu" is not a backend'),
        (("--backend", "cuda:v4"), "BackendUnavailableError", "tensors on cpu"),
        (("--a", "e5m2", "--b", "e5m2"), "ReferenceRejectsError", "both float8_e5m2"),
        (("--out", "e5m2"), "ReferenceRejectsError", "e4m3 by e4m3"),
        (("--profile", "b200-mma-sync-experimental"), "UnsupportedFeatureError", "slow accumulation"),
        (("--profile", "hopper-experimental", "--splitk", "auto"), "SplitKUnknownError", "no reference platform"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_explain_exits_1_where_the_call_would_raise(options: tuple[str, ...], error: str, words: str) -> None:
    call = ["explain", "64", "256", "2048", "--splitk", "1", *options]
    result = run_cli(*call)
    assert (result.returncode, result.stderr) == (FAILED, "")
    assert result.stdout.startswith(f"validation  would raise {error}: ")
    assert words in result.stdout
    name, message = report(*call, status=FAILED)["plan"]["validation"]
    assert name == error
    assert words in message


@pytest.mark.parametrize("sizes", [("64", "24", "2048"), ("64", "256", "24")])
def test_explain_exits_1_for_sizes_that_torch_rejects(sizes: tuple[str, ...]) -> None:
    assert report("explain", *sizes, status=FAILED)["plan"]["validation"][0] == "ReferenceRejectsError"


def test_explain_of_a_zero_size_says_that_nothing_runs() -> None:
    assert report("explain", "0", "256", "2048")["plan"]["backend"] == "none (zero-size result)"


def test_explain_takes_the_largest_sizes_at_once() -> None:
    plan = report("explain", str(2**62), str(2**62), "4096", "--splitk", "1")["plan"]
    assert plan["validation"] == "ok"


def test_explain_uses_the_environment() -> None:
    assert report("explain", "64", "256", "2048", "--splitk", "1", MMAEMU_PROFILE="ada")["plan"]["profile"] == "ada"
    plan = report("explain", "8192", "8192", "4112", status=FAILED, MMAEMU_SPLITK_STRICT="1")["plan"]
    assert plan["validation"][0] == "SplitKUnknownError"
    plan = report(*VALID, "--splitk", "1", status=FAILED, MMAEMU_BACKEND="cuda:v4")["plan"]
    assert plan["validation"][0] == "BackendUnavailableError"


def test_explain_lists_the_warnings_of_the_call() -> None:
    plan = report("explain", "64", "256", "2048", "--splitk", "1", "--profile", "hopper-experimental")["plan"]
    (warning,) = plan["warnings"]
    assert 'profile "hopper-experimental" is experimental' in warning


@pytest.mark.parametrize("scale", ["0", "-1.5", "1e-30", "inf", "nan"])
def test_scales_of_any_value_change_nothing_in_the_plan(scale: str) -> None:
    options = (f"--scale-a={scale}", f"--scale-b={scale}", f"--scale-result={scale}")
    result = run_cli(*VALID, "--splitk", "1", *options)
    assert (result.returncode, result.stdout) == (OK, run_cli(*VALID, "--splitk", "1").stdout)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:7"])
def test_explain_exits_4_where_the_device_is_not_there(device: str) -> None:
    result = run_cli(*VALID, "--device", device)
    assert (result.returncode, result.stderr) == (NOTHING, "")
    number = device if ":" in device else "cuda:0"
    assert f"explain is unavailable on {number}: there is no usable CUDA device of that index" in result.stdout
    assert "error" in report(*VALID, "--device", device, status=NOTHING)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_explain_on_the_cpu(device: str) -> None:
    assert report(*VALID, "--splitk", "1", "--device", device)["call"]["device"] == "cpu"


def test_explain_agrees_with_the_call() -> None:
    result = run_python(
        """
        import dataclasses, json, torch, mmaemu
        a = torch.zeros(64, 2048, dtype=torch.uint8).view(torch.float8_e4m3fn)
        b = torch.zeros(256, 2048, dtype=torch.uint8).view(torch.float8_e5m2)
        one = torch.tensor(1.0)
        plan = mmaemu.explain(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True, profile="ada")
        print(json.dumps(dataclasses.asdict(plan)))
        """
    )
    assert json.loads(result.stdout) == report(*VALID, "--b", "e5m2", "--out", "bf16", "--fast")["plan"]


# --- usage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("compute",),
        ("info", "extra"),
        ("info", "--device", "-1"),
        ("info", "--device", "gpu"),
        ("info", "--device", str(2**31)),
        ("info", "--json"),
        ("selftest", "--device", "cuda:0"),
        ("explain",),
        ("explain", "64", "256"),
        ("explain", "64", "256", "-16"),
        ("explain", "64", "256", "16.0"),
        ("explain", "64", "256", str(2**63)),
        ("explain", "64", "256", "2048", "512"),
        ("explain", "64", "256", "2048", "--a", "e4m3fnuz"),
        ("explain", "64", "256", "2048", "--out", "int8"),
        ("explain", "64", "256", "2048", "--scale-a", "one"),
        ("explain", "64", "256", "2048", "--splitk", "two"),
        ("explain", "64", "256", "2048", "--splitk", "2,serial,3"),
        ("explain", "64", "256", "2048", "--splitk", ""),
        ("explain", "64", "256", "2048", "--device", "mps"),
        ("explain", "64", "256", "2048", "--fast", "yes"),
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_2_with_a_message_and_no_output(arguments: tuple[str, ...]) -> None:
    result = run_cli(*arguments)
    assert (result.returncode, result.stdout) == (USAGE, "")
    assert "error: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["info", "selftest", "explain"])
def test_help_names_every_documented_option(name: str) -> None:
    documented = {
        "info": ["--device", "--json"],
        "selftest": ["--device", "--kernels", "--force", "--json"],
        "explain": [
            *("--a", "--b", "--out", "--fast", "--scale-a", "--scale-b", "--scale-result", "--profile", "--splitk"),
            *("--backend", "--device", "--json"),
        ],
    }
    result = run_cli(name, "--help")
    assert result.returncode == OK
    assert all(re.search(rf"{option}\b", result.stdout) for option in documented[name])


def test_version_prints_the_version() -> None:
    assert run_cli("--version").stdout == f"mmaemu {mmaemu.__version__}\n"
