"""Every recorded bit, decision and refusal in tests/data/golden, through the package's API."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter

import numpy as np
import pytest
import torch

import golden
import mmaemu

RTX4060 = golden.cases("rtx4060/cases.jsonl")
ORACLE_PRODUCTS = golden.cases("oracle/cases.jsonl")
ORACLE_CHAINS = golden.cases("oracle/dot.jsonl")
AUTOMATIC_SPLITS = golden.cases("oracle/auto.jsonl")
SPLIT_QUERIES = golden.cases("oracle/splitk_queries.jsonl")
TOOLBOX = json.loads((golden.FOLDER / "toolbox" / "sets.json").read_text(encoding="utf-8"))

# A recorded split may be one that was not replayed elsewhere; that the bits are right is what these tests show.
pytestmark = [
    pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning"),
    pytest.mark.filterwarnings("ignore::mmaemu.ExperimentalPresetWarning"),
]


def of_kind(kind: str) -> list[golden.Case]:
    return [case for case in RTX4060 if case["kind"] == kind]


def name_of(case: golden.Case) -> str:
    return case["id"]


def test_the_recordings_are_complete() -> None:
    assert Counter(case["kind"] for case in RTX4060) == {"mma": 94, "gemm": 677, "call": 1073}
    assert sum(len(case.get("outputs", ["d"])) for case in RTX4060) == 10_338
    counts = [len(part) for part in (ORACLE_PRODUCTS, ORACLE_CHAINS, AUTOMATIC_SPLITS, SPLIT_QUERIES, TOOLBOX)]
    assert counts == [600, 500, 120, 4000, 10]


@pytest.mark.parametrize("case", of_kind("mma"), ids=name_of)
def test_instruction_of_the_rtx_4060(case: golden.Case) -> None:
    want = golden.recorded(case["d"])
    assert golden.difference(lambda: golden.chains(case).reshape(want.shape), want) is None


@pytest.mark.parametrize("case", of_kind("gemm"), ids=name_of)
def test_product_of_the_rtx_4060(case: golden.Case) -> None:
    assert golden.wrong_outputs(case, golden.product) == []


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")
@pytest.mark.parametrize("case", of_kind("call"), ids=name_of)
def test_torch_call_on_the_rtx_4060(case: golden.Case) -> None:
    assert golden.wrong_outputs(case, golden.torch_call) == []


@pytest.mark.parametrize("case", TOOLBOX, ids=lambda case: f"{case['gpu']}-{case['fmt']}")
def test_instruction_vectors_of_the_toolbox(case: golden.Case) -> None:
    preset = {"Ada": "ada", "L40S": "ada", "H100": "hopper", "H200": "hopper", "B200": "b200_mma_sync"}[case["gpu"]]
    a, b, c, d = (golden.oracle("toolbox/vectors.npz", case[name]) for name in "abcd")
    a, b = (golden.tensor(bits, torch.float32).double() for bits in (a, b))
    # H100 and H200 were recorded by wgmma, which was given no c.
    start = None if preset == "hopper" else golden.tensor(c, torch.float32)
    assert golden.difference(lambda: mmaemu.model.dot(a, b, start, preset=preset, fmt=case["fmt"]), d) is None


@pytest.mark.parametrize("case", ORACLE_PRODUCTS, ids=name_of)
def test_product_of_the_h100_oracle(case: golden.Case) -> None:
    def bits(name: str) -> np.ndarray:
        return golden.oracle("oracle/arrays.npz", case[name])

    a, b = (golden.tensor(bits(name), golden.OPERANDS[case[f"fmt_{name}"]]) for name in "ab")
    how = {
        "use_fast_accum": case["fast"],
        "profile": case["profile"],
        "splitk": golden.splitk(case["splitk"]),
    }
    scale_result = case["scale_result_bits"]
    out_dtype = golden.dtype(case["out_dtype"])

    def scaled() -> torch.Tensor:
        return mmaemu.scaled_mm(
            a,
            b.t(),
            golden.float32(case["scale_a_bits"]),
            golden.float32(case["scale_b_bits"]),
            scale_result=None if scale_result is None else golden.float32(scale_result),
            out_dtype=out_dtype,
            **how,
        )

    assert golden.difference(lambda: mmaemu.accumulate(a, b, **how), bits("acc")) is None
    assert golden.difference(scaled, bits("y"), out_dtype) is None


@pytest.mark.parametrize("case", ORACLE_CHAINS, ids=name_of)
def test_chain_of_the_oracle(case: golden.Case) -> None:
    def stored(name: str, dtype: torch.dtype) -> torch.Tensor:
        return golden.tensor(golden.oracle("oracle/dot_arrays.npz", case[name]), dtype)

    a, b = (stored(name, golden.OPERANDS[case[f"fmt_{name}"]]) for name in "ab")
    c = None if case["c"] is None else stored("c", torch.float32)
    preset = case["preset"] if isinstance(case["preset"], str) else mmaemu.Preset(**case["preset"])
    want = golden.oracle("oracle/dot_arrays.npz", case["d"])
    assert golden.difference(lambda: mmaemu.model.dot(a, b, c, preset=preset), want) is None


def test_automatic_splits_of_both_platforms_are_recorded() -> None:
    assert {case["profile"].split("-")[0] for case in AUTOMATIC_SPLITS} == {"ada", "hopper"}
    assert all(case["S"] > 1 for case in AUTOMATIC_SPLITS)


@pytest.mark.parametrize(
    "case", AUTOMATIC_SPLITS, ids=lambda c: f"{c['profile']}-{c['M']}x{c['N']}x{c['K']}-{c['seed']}"
)
def test_product_whose_split_the_table_decides(case: golden.Case) -> None:
    random = np.random.default_rng(case["seed"])

    def operand(rows: int, fmt: str) -> torch.Tensor:
        magnitude = random.integers(0, 120, (rows, case["K"]), dtype=np.uint8)
        sign = random.integers(0, 2, (rows, case["K"]), dtype=np.uint8)
        return golden.tensor(magnitude | (sign << 7), golden.OPERANDS[fmt])

    a = operand(case["M"], case["fmt_a"])
    b = operand(case["N"], case["fmt_b"])
    result = mmaemu.scaled_mm(
        a,
        b.t(),
        torch.tensor(2.0**-9),
        torch.tensor(0.75),
        out_dtype=golden.dtype(case["out_dtype"]),
        use_fast_accum=case["fast"],
        profile=case["profile"],
    )
    assert hashlib.sha256(golden.bits_of(result).tobytes()).hexdigest() == case["sha256"]


def query_name(query: golden.Case) -> str:
    size = "x".join(str(query[name]) for name in "MNK")
    return f"{query['profile']}-{size}-{query['splitk']}"


@pytest.mark.parametrize("query", SPLIT_QUERIES, ids=query_name)
def test_split_decision_of_the_oracle(query: golden.Case) -> None:
    splitk = query["splitk"]
    got: golden.Case = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            decision = mmaemu.resolve_splitk(
                query["M"],
                query["N"],
                query["K"],
                a_dtype=golden.OPERANDS[query["a_dtype"]],
                b_dtype=golden.OPERANDS[query["b_dtype"]],
                out_dtype=golden.dtype(query["out_dtype"]),
                use_fast_accum=query["fast"],
                profile=query["profile"],
                splitk=tuple(splitk) if isinstance(splitk, list) else splitk,
                layout_std=query["layout_std"],
                strict=query["strict"],
                dry=True,
            )
            got["decision"] = {name: getattr(decision, name) for name in query.get("decision", ["S", "scheme"])}
        except Exception as error:
            got["error"] = type(error).__name__
    got["warnings"] = [warning.category.__name__ for warning in caught]
    assert got == {name: query[name] for name in ("decision", "error", "warnings") if name in query}
