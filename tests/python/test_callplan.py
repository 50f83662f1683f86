"""CallPlan: its fields, its text and its HTML."""

from __future__ import annotations

import dataclasses

import torch

import mmaemu
from calls import E5M2, arguments, codes
from mmaemu import CallPlan, SplitDecision


def split_call() -> CallPlan:
    return mmaemu.explain(
        **arguments(
            input=codes(64, 2048),
            mat2=codes(256, 2048, E5M2).t(),
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
            splitk="auto",
            profile="ada-te",
        )
    )


def test_a_plan_has_the_documented_fields_in_their_order() -> None:
    names = [field.name for field in dataclasses.fields(CallPlan)]
    assert names == [
        "validation",
        "profile",
        "preset",
        "preset_maturity",
        "split",
        "backend",
        "fallbacks",
        "warnings",
    ]


def test_a_plan_of_a_valid_call_holds_what_the_call_would_do() -> None:
    assert mmaemu.explain(**arguments()) == CallPlan(
        validation="ok",
        profile="ada",
        preset="ada",
        preset_maturity="validated",
        split=SplitDecision(1, "none", "explicit", True, None, "given by the caller"),
        backend="reference",
        fallbacks=["cuda: tensors on cpu"],
        warnings=[],
    )


def test_a_plan_of_a_refused_call_holds_the_error_and_the_platform() -> None:
    plan = mmaemu.explain(**arguments(mat2=codes(24, 32).t()))
    assert plan == CallPlan(validation=plan.validation, profile="ada", preset="ada", preset_maturity="validated")
    assert plan.validation[0] == "ReferenceRejectsError"


def test_the_fields_have_plain_types() -> None:
    plan = split_call()
    assert isinstance(plan.split, SplitDecision)
    assert all(type(reason) is str for reason in [*plan.fallbacks, *plan.warnings])
    assert dataclasses.asdict(plan)["split"]["S"] == 3


def test_the_text_says_in_a_line_each_what_would_happen() -> None:
    lines = str(split_call()).splitlines()
    assert lines[:5] == [
        "validation  ok",
        "profile     ada-te",
        "preset      ada (validated)",
        "split       S = 3, pairwise (from table, verified; table row: algo 60, tile 13, numSplitsK 3, customOption 1)",
        "backend     reference",
    ]
    assert lines[5] == "fallback    cuda: tensors on cpu"
    assert lines[6].startswith("warning     S = 3 (pairwise) for M=64, N=256, K=2048")
    assert len(lines) == 7


def test_the_text_of_a_refused_call_is_the_error() -> None:
    lines = str(mmaemu.explain(**arguments(scale_a=1.0))).splitlines()
    assert lines == [
        "validation  TypeError: scaled_mm(): argument 'scale_a' must be Tensor, not float",
        "profile     ada",
        "preset      ada (validated)",
    ]


def test_the_html_holds_the_same_rows_escaped() -> None:
    plan = CallPlan(validation=("ValueError", 'a < b & "c"'), profile="<script>", warnings=["x > y"])
    text = plan._repr_html_()
    assert text.startswith("<table>")
    assert text.endswith("</table>")
    assert "ValueError: a &lt; b &amp; &quot;c&quot;" in text
    assert "&lt;script&gt;" in text
    assert "x &gt; y" in text
    assert text.count("<tr>") == 3
