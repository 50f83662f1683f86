"""explain: what a call of scaled_mm would do, without computing it."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, codes, run_python

EXPERIMENTAL = {"profile": "b200-mma-sync-experimental", "use_fast_accum": True}


def explain(**changes: Any) -> mmaemu.CallPlan:
    return mmaemu.explain(**arguments(**changes))


def emitted(**changes: Any) -> list[str]:
    """The warnings of the call itself."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mmaemu.scaled_mm(**arguments(**changes))
    return [str(warning.message) for warning in caught]


def test_a_valid_call_is_ok() -> None:
    assert explain().validation == "ok"


def test_an_invalid_call_is_reported_and_not_raised() -> None:
    name, message = explain(input=codes(16, 24), mat2=codes(16, 24).t()).validation
    assert name == "ReferenceRejectsError"
    assert message.startswith("K must be a multiple of 16, not 24")
    with pytest.raises(mmaemu.ReferenceRejectsError) as caught:
        mmaemu.scaled_mm(**arguments(input=codes(16, 24), mat2=codes(16, 24).t()))
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [None, 0, "x", [], object(), float("nan"), b"", type, torch.float32])
def test_no_argument_makes_explain_raise(value: Any) -> None:
    valid = arguments(bias=None, scale_result=None, use_fast_accum=True, out=None, backend="auto")
    for name in valid:
        plan = mmaemu.explain(**valid | {name: value})
        assert plan.validation == "ok" or plan.validation[0] in ("TypeError", "KeyError", "ValueError")


def test_a_missing_argument_is_a_type_error_of_python() -> None:
    with pytest.raises(TypeError, match="scale_b"):
        mmaemu.explain(codes(16, 32), codes(16, 32).t(), torch.tensor(1.0))


def test_a_split_scheme_of_another_preset_is_the_value_error_of_the_call() -> None:
    name, message = explain(profile="hopper", splitk=(2, "serial")).validation
    assert name == "ValueError"
    assert message == 'split scheme "serial" does not belong to preset "hopper", which takes "contiguous"'


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"use_fast_accum": False}, "slow accumulation"), ({"splitk": (2, "contiguous")}, "S > 1")],
    ids=["slow accumulation", "a split"],
)
def test_what_a_preset_without_a_gemm_level_cannot_do_is_unsupported(changes: dict[str, Any], words: str) -> None:
    name, message = explain(**EXPERIMENTAL | changes).validation
    assert name == "UnsupportedFeatureError"
    assert 'preset "b200_mma_sync" has no characterised GEMM level' in message
    assert words in message


def test_an_unsplit_fast_call_with_a_deep_k_is_ok() -> None:
    """CUDA kernels have limits of their own, which they check when they run."""
    deep = torch.zeros(16, 2**24, dtype=torch.uint8).view(E4M3)
    plan = explain(input=deep, mat2=deep.t(), use_fast_accum=True)
    assert (plan.validation, plan.split.S) == ("ok", 1)


def test_explain_computes_nothing() -> None:
    row = torch.zeros(1, 4096, dtype=torch.uint8).view(E4M3)
    start = time.monotonic()
    plan = explain(input=row.expand(2**40, 4096), mat2=codes(16, 4096).t())
    assert time.monotonic() - start < 1.0
    assert plan.validation == "ok"


def test_explain_leaves_out_unchanged() -> None:
    for out in (torch.full((16, 16), 7.0), torch.full((3, 3), 7.0), torch.full((16, 32), 7.0)[:, ::2]):
        before = out.clone()
        assert explain(out=out).validation == "ok"
        assert torch.equal(out, before)


def test_the_platform_and_the_instruction_model_are_named() -> None:
    plan = explain()
    assert (plan.profile, plan.preset, plan.preset_maturity) == ("ada", "ada", "validated")
    plan = explain(**EXPERIMENTAL)
    assert (plan.profile, plan.preset) == ("b200-mma-sync-experimental", "b200_mma_sync")
    assert plan.preset_maturity == "experimental"


def test_the_platform_is_named_where_the_call_would_raise() -> None:
    plan = explain(scale_a=1.0)
    assert plan.validation[0] == "TypeError"
    assert (plan.profile, plan.preset, plan.preset_maturity) == ("ada", "ada", "validated")
    plan = explain(profile="rtx")
    assert (plan.validation[0], plan.profile, plan.preset, plan.preset_maturity) == ("KeyError", "", "", "")


def test_the_split_is_the_decision_that_the_call_takes() -> None:
    size = (64, 256, 2048)
    call = {"input": codes(64, 2048), "mat2": codes(256, 2048, E5M2).t(), "splitk": "auto"}
    how = {"out_dtype": torch.bfloat16, "use_fast_accum": True}
    want = mmaemu.resolve_splitk(*size, a_dtype=E4M3, b_dtype=E5M2, profile="ada", **how)
    assert want.S == 3
    assert explain(**call, **how).split == want


def test_the_split_of_operands_with_padded_rows_is_not_looked_up_in_the_table() -> None:
    """Padded rows are row-major to cuBLAS, and no recorded call has them."""
    padded = codes(64, 2048 + 16)[:, :2048]
    call = {"mat2": codes(256, 2048, E5M2).t(), "splitk": "auto", "out_dtype": torch.bfloat16, "use_fast_accum": True}
    assert explain(input=codes(64, 2048), **call).split.source == "table"
    name, message = explain(input=padded, **call).validation
    assert name == "SplitKUnknownError"
    assert "not in the standard layout" in message


def test_the_backend_that_would_run_is_named_with_what_was_tried_before_it() -> None:
    plan = explain()
    assert (plan.backend, plan.fallbacks) == ("reference", ["cuda: tensors on cpu"])
    plan = explain(backend="reference")
    assert (plan.backend, plan.fallbacks) == ("reference", [])


@pytest.mark.parametrize("backend", ["cuda", "cuda:v1", "cuda:v4", "cuda:v9", "cuda:tc3", "cuda:h1", "cuda:h4"])
def test_a_cuda_backend_is_unavailable_for_cpu_tensors(backend: str) -> None:
    name, message = explain(backend=backend).validation
    assert name == "BackendUnavailableError"
    assert f'backend "{backend}" is unavailable: tensors on cpu' in message


CALLS_THAT_WARN = {
    "an experimental preset": EXPERIMENTAL,
    "an experimental profile": {"profile": "hopper-experimental"},
    "a split not replayed": {
        "splitk": (17, "serial"),
        "input": codes(16, 1024),
        "mat2": codes(16, 1024).t(),
        "use_fast_accum": True,
    },
    "two warnings": {
        "profile": "hopper-experimental",
        "splitk": (2, "contiguous"),
        "input": codes(16, 1024),
        "mat2": codes(16, 1024).t(),
    },
    "a resized out": {"out": torch.zeros(3)},
    "an unchanged out": {"out": torch.zeros(16, 32)[:, ::2]},
}


@pytest.mark.parametrize("name", CALLS_THAT_WARN)
def test_the_warnings_are_those_that_the_call_would_emit(name: str) -> None:
    changes = CALLS_THAT_WARN[name]
    out = changes.get("out")
    fresh = {} if out is None else {"out": out.clone() if out.is_contiguous() else out}
    planned = explain(**changes | fresh).warnings
    assert planned
    assert planned == emitted(**changes | fresh)


def test_explain_itself_emits_no_warning_and_uses_none_up() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = explain(**EXPERIMENTAL)
        second = explain(**EXPERIMENTAL)
    assert first.warnings == second.warnings != []
    assert emitted(**EXPERIMENTAL) == first.warnings
    assert emitted(**EXPERIMENTAL) == []


def test_explain_is_not_changed_by_the_float_environment_of_other_calls() -> None:
    torch.set_flush_denormal(True)
    assert explain().validation[0] == "MmaemuError"
    torch.set_flush_denormal(False)
    assert explain().validation == "ok"


def test_explain_uses_the_environment_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_BACKEND", "reference")
    assert explain().fallbacks == []
    monkeypatch.setenv("MMAEMU_BACKEND", "cuda:v4")
    assert explain().validation[0] == "BackendUnavailableError"
    assert explain(backend="reference").validation == "ok"
    monkeypatch.setenv("MMAEMU_BACKEND", "gpu")
    name, message = explain().validation
    assert (name, "MMAEMU_BACKEND=" in message) == ("ValueError", True)


def test_explain_needs_less_than_a_second_without_a_cuda_context() -> None:
    result = run_python(
        """
        import time, torch, mmaemu
        a = torch.zeros(16, 32, dtype=torch.uint8).view(torch.float8_e4m3fn)
        one = torch.tensor(1.0)
        start = time.monotonic()
        plan = mmaemu.explain(a, a.t(), one, one, out_dtype=torch.float32, splitk=1)
        assert plan.validation == "ok", plan
        assert time.monotonic() - start < 1.0
        assert not torch.cuda.is_initialized()
        """
    )
    assert (result.returncode, result.stderr) == (0, "")
