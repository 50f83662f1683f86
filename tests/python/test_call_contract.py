"""Which calls of scaled_mm are refused, with which class and words, and which of two faults is reported."""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, codes, scaled
from mmaemu import (
    BackendUnavailableError,
    MmaemuError,
    ReferenceRejectsError,
    SplitKUnknownError,
    UnsupportedFeatureError,
)

ROW_WISE = {"scale_a": torch.ones(16, 1), "scale_b": torch.ones(1, 16)}


class Fault(NamedTuple):
    name: str
    error: type[Exception]
    message: str  # names the argument, what was found, what is needed
    changes: dict[str, Any]


def misaligned(rows: int, depth: int) -> torch.Tensor:
    return torch.zeros(rows * depth + 1, dtype=torch.uint8)[1:].view(E4M3).view(rows, depth)


# In the order in which the calls are checked: torch's own checks, then cuBLAS's, the profile's, the package's scope,
# the split of K, the backend, the plan.
FAULTS = [
    Fault("input is a number", TypeError, "'input' must be Tensor, not float", {"input": 3.0}),
    Fault("mat2 is an array", TypeError, "'mat2' must be Tensor, not ndarray", {"mat2": np.zeros((32, 16), np.uint8)}),
    Fault("scale_a is a number", TypeError, "'scale_a' must be Tensor, not float", {"scale_a": 1.0}),
    Fault("scale_b is None", TypeError, "'scale_b' must be Tensor, not NoneType", {"scale_b": None}),
    Fault("bias is a list", TypeError, "'bias' must be Tensor or None, not list", {"bias": [0.0]}),
    Fault("scale_result is an int", TypeError, "'scale_result' must be Tensor or None, not int", {"scale_result": 1}),
    Fault("out is a tuple", TypeError, "'out' must be Tensor or None, not tuple", {"out": ()}),
    Fault("out_dtype is a name", TypeError, "'out_dtype' must be torch.dtype or None, not str", {"out_dtype": "fp32"}),
    Fault("use_fast_accum is numpy's", TypeError, "'use_fast_accum' must be bool", {"use_fast_accum": np.bool_(True)}),
    Fault("splitk is a list", TypeError, r"splitk must be .* not \[2, 'serial'\]", {"splitk": [2, "serial"]}),
    Fault("backend is None", TypeError, "'backend' must be str, not NoneType", {"backend": None}),
    Fault("profile is a number", TypeError, "profile must be a name or a Profile, not int", {"profile": 3}),
    Fault("profile is unknown", KeyError, 'profile "rtx" ?; known profiles: ada, .*hopper', {"profile": "rtx"}),
    Fault("input is a vector", ReferenceRejectsError, r"input .*\[M, K\], not .*\[512\]", {"input": codes(1, 512)[0]}),
    Fault("mat2 is a vector", ReferenceRejectsError, r"mat2 .*\[K, N\], not .*\[512\]", {"mat2": codes(1, 512)[0]}),
    Fault(
        "K differs",
        ReferenceRejectsError,
        r"input \[16, 32\] and mat2 \[48, 16\] .* agree",
        {"mat2": codes(16, 48).t()},
    ),
    Fault(
        "scale_b is float64",
        ReferenceRejectsError,
        "scale_b must be a float32 tensor, not float64",
        {"scale_b": torch.tensor(1.0, dtype=torch.float64)},
    ),
    Fault(
        "scales are of no scaling",
        ReferenceRejectsError,
        r"scale_a \[2\] .*one element each.*\[16, 1\] and \[1, 16\]",
        {"scale_a": torch.ones(2)},
    ),
    Fault(
        "scale_result has two elements",
        ReferenceRejectsError,
        r"scale_result must be one float32 element, not float32 \[2\]",
        {"scale_result": torch.ones(2)},
    ),
    Fault(
        "bias has three elements",
        ReferenceRejectsError,
        "bias must have N = 16 elements, not 3",
        {"bias": torch.ones(3, dtype=torch.bfloat16)},
    ),
    Fault(
        "K is 24",
        ReferenceRejectsError,
        "K must be a multiple of 16, not 24",
        {"input": codes(16, 24), "mat2": codes(16, 24).t()},
    ),
    Fault("N is 24", ReferenceRejectsError, "N must be a multiple of 16, not 24", {"mat2": codes(24, 32).t()}),
    Fault(
        "out is of another dtype",
        ReferenceRejectsError,
        "out_dtype is float32 but out= is float16; they must be the same",
        {"out": torch.zeros(16, 16, dtype=torch.float16), "out_dtype": torch.float32},
    ),
    Fault(
        "input is float32",
        ReferenceRejectsError,
        "input must be a float8 .*, not float32",
        {"input": torch.ones(16, 32)},
    ),
    Fault(
        "mat2 is bfloat16",
        ReferenceRejectsError,
        "mat2 must be a float8 .*, not bfloat16",
        {"mat2": torch.ones(16, 32, dtype=torch.bfloat16).t()},
    ),
    Fault(
        "both are e5m2",
        ReferenceRejectsError,
        "input and mat2 are both float8_e5m2; at least one .* float8_e4m3fn",
        {"input": codes(16, 32, E5M2), "mat2": codes(16, 32, E5M2).t()},
    ),
    Fault(
        "bias with a float32 result",
        ReferenceRejectsError,
        "a bias cannot be added to a float32 result",
        {"bias": torch.ones(16), "out_dtype": torch.float32},
    ),
    Fault(
        "bias is float32",
        ReferenceRejectsError,
        "bias must be bfloat16 or float16, not float32",
        {"bias": torch.ones(16), "out_dtype": torch.bfloat16},
    ),
    Fault(
        "bias of another half format",
        ReferenceRejectsError,
        "a float16 result takes a float16 bias, not bfloat16",
        {"bias": torch.ones(16, dtype=torch.bfloat16), "out_dtype": torch.float16},
    ),
    Fault(
        "scale_b is elsewhere",
        ReferenceRejectsError,
        "one device: input is on cpu, scale_b is on meta",
        {"scale_b": torch.ones((), device="meta")},
    ),
    Fault(
        "input is column-major",
        ReferenceRejectsError,
        r"input must be row-major; its strides \[1, 16\]",
        {"input": codes(32, 16).t()},
    ),
    Fault("mat2 is row-major", ReferenceRejectsError, r"mat2 must be column-major.*\[16, 1\]", {"mat2": codes(32, 16)}),
    Fault(
        "mat2 is fnuz",
        ReferenceRejectsError,
        "mat2 is float8_e4m3fnuz, .*float8_e4m3fn or float8_e5m2 is needed",
        {"mat2": codes(16, 32).view(torch.float8_e4m3fnuz).t()},
    ),
    Fault("result is int32", ReferenceRejectsError, "int32 result", {"out_dtype": torch.int32}),
    Fault(
        "input is misaligned",
        ReferenceRejectsError,
        "input must start at a multiple of 16 bytes; it starts 1 bytes past one",
        {"input": misaligned(16, 32)},
    ),
    Fault(
        "mat2 is misaligned",
        ReferenceRejectsError,
        "mat2 must start at a multiple of 16 bytes; it starts 1 bytes past one",
        {"mat2": misaligned(16, 32).t()},
    ),
    Fault(
        "input has an odd leading dimension",
        ReferenceRejectsError,
        "leading dimension of input must be a multiple of 16, not 40",
        {"input": codes(16, 40)[:, :32]},
    ),
    Fault(
        "row-wise scales with a float32 result",
        ReferenceRejectsError,
        "row-wise scales need a bfloat16 result, not float32",
        {**ROW_WISE, "out_dtype": torch.float32},
    ),
    Fault(
        "e4m3 by e4m3 to e5m2",
        ReferenceRejectsError,
        r"e4m3 by e4m3 .* float8_e5m2 .*\(profile ada\)",
        {"input": codes(16, 32), "mat2": codes(16, 32).t(), "out_dtype": E5M2, "profile": "ada"},
    ),
    Fault(
        "bias",
        UnsupportedFeatureError,
        "bias is not supported; pass bias=None",
        {"bias": torch.ones(16, dtype=torch.bfloat16), "out_dtype": torch.bfloat16},
    ),
    Fault(
        "row-wise scales",
        UnsupportedFeatureError,
        "row-wise scales are not supported.*one-element scale_a and scale_b",
        {**ROW_WISE, "out_dtype": torch.bfloat16},
    ),
    Fault(
        "scale_b requires grad",
        UnsupportedFeatureError,
        r"scale_b requires grad while grad mode is on.*torch.no_grad\(\) or detach",
        {"scale_b": torch.ones((), requires_grad=True)},
    ),
    Fault("splitk is zero", ValueError, "S=0.*S must be an integer >= 1", {"splitk": 0}),
    Fault("splitk without a scheme", ValueError, r'splitk=2 .*\(2, "serial"\) or \(2, "pairwise"\)', {"splitk": 2}),
    Fault("splitk has another scheme", ValueError, '"zigzag" is not a split scheme', {"splitk": (2, "zigzag")}),
    Fault(
        "splitk cannot be decided",
        SplitKUnknownError,
        "M=16, N=16, K=32 .* on profile hopper.*splitk=1",
        {"splitk": "auto", "profile": "hopper"},
    ),
    Fault(
        "backend is unknown",
        ValueError,
        'backend="gpu" is not a backend; .*auto, reference, cuda',
        {"backend": "gpu"},
    ),
    Fault(
        "backend is unavailable",
        BackendUnavailableError,
        '"cuda:v4" is unavailable: tensors on cpu; backend="reference"',
        {"backend": "cuda:v4"},
    ),
    Fault(
        "splitk of another preset",
        ValueError,
        '"contiguous" .*"ada", which takes "serial" and "pairwise"',
        {"splitk": (2, "contiguous")},
    ),
]
NAMES = [fault.name for fault in FAULTS]

# A split that the preset does not take is noticed after the warning that it was not replayed.
pytestmark = pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")


def compatible(first: Fault, second: Fault) -> bool:
    """Whether one call can have both faults and no third one."""
    names = first.changes.keys() | second.changes.keys()
    if "N is 24" in (first.name, second.name) and names & {"scale_a", "bias"}:
        return False
    return not first.changes.keys() & second.changes.keys()


PAIRS = [pair for pair in itertools.combinations(FAULTS, 2) if compatible(*pair)]


def test_the_valid_call_is_valid() -> None:
    result = scaled()
    assert (result.shape, result.dtype) == ((16, 16), torch.float32)


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_an_error_names_the_argument_what_was_found_and_what_is_needed(fault: Fault) -> None:
    with pytest.raises(Exception) as caught:
        scaled(**fault.changes)
    assert type(caught.value) is fault.error
    assert re.search(fault.message, message_of(caught.value))


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda fault: fault.name)
def test_of_two_faults_the_earlier_is_reported(first: Fault, second: Fault) -> None:
    with pytest.raises(Exception) as caught:
        scaled(**first.changes, **second.changes)
    assert type(caught.value) is first.error
    assert re.search(first.message, message_of(caught.value))


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_explain_reports_what_the_call_raises(fault: Fault) -> None:
    plan = mmaemu.explain(**arguments(**fault.changes))
    name, message = plan.validation
    assert name == fault.error.__name__
    assert re.search(fault.message, message)
    assert (plan.split, plan.backend, plan.fallbacks, plan.warnings) == (None, "", [], [])


@pytest.mark.parametrize("fault", [f for f in FAULTS if "out" not in f.changes], ids=lambda fault: fault.name)
def test_out_is_unchanged_when_an_error_is_raised(fault: Fault) -> None:
    out_dtype = fault.changes.get("out_dtype")
    out = torch.zeros(16, 16, dtype=out_dtype if isinstance(out_dtype, torch.dtype) else torch.float32)
    out.view(torch.uint8).fill_(0x55)
    with pytest.raises(fault.error):
        scaled(**fault.changes, out=out)
    assert (out.view(torch.uint8) == 0x55).all()


def message_of(error: BaseException) -> str:
    return str(error.args[0])


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (MmaemuError, (Exception,)),
        (ReferenceRejectsError, (MmaemuError, RuntimeError)),
        (UnsupportedFeatureError, (MmaemuError, NotImplementedError)),
        (SplitKUnknownError, (MmaemuError, LookupError)),
        (BackendUnavailableError, (MmaemuError, RuntimeError)),
    ],
)
def test_errors_have_the_documented_bases(error: type[Exception], bases: tuple[type, ...]) -> None:
    assert error.__bases__ == bases
    assert error.__module__ == "mmaemu"


EMPTY = [
    {"input": codes(0, 32)},
    {"mat2": codes(0, 32).t()},
    {"input": codes(16, 0), "mat2": codes(16, 0).t()},
]
LATER_FAULTS = [
    fault for fault in FAULTS[NAMES.index("input is column-major") :] if not {"input", "mat2"} & fault.changes.keys()
]


@pytest.mark.parametrize("empty", EMPTY, ids=["M=0", "N=0", "K=0"])
@pytest.mark.parametrize("fault", LATER_FAULTS, ids=lambda fault: fault.name)
def test_a_zero_size_returns_before_cublas_is_asked(empty: dict[str, Any], fault: Fault) -> None:
    changes = dict(fault.changes)
    if "row-wise" in fault.name and empty.keys() == {"input"}:
        changes["scale_a"] = torch.ones(0, 1)
    if empty.keys() == {"mat2"}:
        changes |= {name: torch.ones(1, 0) for name in ("scale_b",) if "row-wise" in fault.name}
        changes |= {name: torch.ones(0, dtype=torch.bfloat16) for name in ("bias",) if name in fault.changes}
    result = scaled(**changes | empty)
    shape = (empty.get("input", codes(16, 1)).shape[0], empty.get("mat2", codes(16, 1).t()).shape[1])
    assert result.shape == shape
    assert result.dtype == changes.get("out_dtype", torch.float32)
    assert not result.view(torch.uint8).any()
