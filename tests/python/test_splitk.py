"""resolve_splitk: the order of the evidence, what each kind says of itself, and how a caller overrides it."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes, scaled
from mmaemu import SplitDecision, SplitK, SplitKUnknownError, UnvalidatedEnvelopeWarning, UnverifiedSplitWarning

ADA_TABLE, HOPPER_TABLE = "heur_rtx4060_lt12.8.3.14", "heur_h100pcie_lt12.8.3.14"
SPLIT_ROW = (64, 256, 2048)  # e4m3 by e5m2 to bfloat16, fast: S = 3, pairwise, on the RTX 4060 at 1 MiB
NO_ROW = (8192, 8192, 4112)  # so large that both envelopes infer S = 1
BEYOND = (7, 16, 48)  # in no table and in no envelope


def resolve(size: tuple[int, int, int], **changes: Any) -> SplitDecision:
    how = {"a_dtype": E4M3, "b_dtype": E5M2, "out_dtype": torch.bfloat16, "use_fast_accum": True, "profile": "ada"}
    return mmaemu.resolve_splitk(*size, **how | changes)


@pytest.fixture(autouse=True)
def no_live_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_DISABLE_CUDA", "1")


def test_resolve_splitk_takes_the_documented_arguments() -> None:
    signature = inspect.signature(mmaemu.resolve_splitk)
    parameters = [(p.name, p.default) for p in signature.parameters.values()]
    empty = inspect.Parameter.empty
    required = [(name, empty) for name in ("M", "N", "K", "a_dtype", "b_dtype", "out_dtype", "use_fast_accum")]
    optional = [("profile", None), ("splitk", "auto"), ("layout_std", True), ("strict", None), ("dry", False)]
    assert parameters == required + optional
    keyword_only = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert keyword_only == [name for name, _ in parameters[3:]]


# --- the order: explicit, workspace0, table, live-query, envelope ---------------------------------------------


@pytest.mark.parametrize("size", [SPLIT_ROW, NO_ROW, BEYOND])
@pytest.mark.parametrize("profile", ["ada", "ada-te", "ada-ws0"])
def test_an_explicit_split_comes_before_all_evidence(size: tuple[int, int, int], profile: str) -> None:
    assert resolve(size, profile=profile, splitk=1, strict=True) == SplitDecision(
        S=1, scheme="none", source="explicit", verified=True, table_id=None, note="given by the caller"
    )


@pytest.mark.parametrize(("profile", "table"), [("ada-ws0", ADA_TABLE), ("hopper-ws0", HOPPER_TABLE)])
@pytest.mark.parametrize("size", [SPLIT_ROW, NO_ROW, BEYOND])
def test_a_workspace_of_zero_comes_before_the_table(profile: str, table: str, size: tuple[int, int, int]) -> None:
    decision = resolve(size, profile=profile, strict=True, layout_std=False)
    assert (decision.S, decision.scheme, decision.source) == (1, "none", "workspace0")
    assert (decision.verified, decision.table_id) == (True, table)
    assert "workspace is 0 bytes" in decision.note


def test_a_recorded_row_comes_before_the_envelope() -> None:
    assert resolve(SPLIT_ROW, strict=True) == SplitDecision(
        S=3,
        scheme="pairwise",
        source="table",
        verified=True,
        table_id=ADA_TABLE,
        note="table row: algo 60, tile 13, numSplitsK 3, customOption 1",
    )


def test_the_recorded_rows_of_the_h100_are_contiguous() -> None:
    decision = resolve(
        (64, 64, 5760), profile="hopper", a_dtype=E5M2, b_dtype=E4M3, out_dtype=E4M3, use_fast_accum=False
    )
    assert (decision.S, decision.scheme, decision.source) == (2, "contiguous", "table")
    assert (decision.verified, decision.table_id) == (True, HOPPER_TABLE)


@pytest.mark.parametrize(("profile", "table"), [("ada", ADA_TABLE), ("ada-te", ADA_TABLE), ("hopper", HOPPER_TABLE)])
def test_the_envelope_infers_that_large_results_are_not_split(profile: str, table: str) -> None:
    decision = resolve(NO_ROW, profile=profile)
    assert (decision.S, decision.scheme, decision.source) == (1, "none", "envelope")
    assert (decision.verified, decision.table_id) == (True, table)
    assert "above the bound" in decision.note


def test_the_envelope_of_the_h100_at_32_mib_is_not_verified() -> None:
    with pytest.warns(UnvalidatedEnvelopeWarning, match="held-out test"):
        decision = resolve(NO_ROW, profile="hopper-te")
    assert (decision.S, decision.source, decision.verified) == (1, "envelope", False)


@pytest.mark.parametrize("profile", ["ada", "hopper"])
def test_a_size_of_zero_is_not_split(profile: str) -> None:
    for size in ((0, 16, 32), (16, 0, 32), (16, 16, 0)):
        decision = resolve(size, profile=profile, strict=True)
        assert (decision.S, decision.source, decision.verified) == (1, "envelope", True)


def test_operands_in_another_layout_have_neither_rows_nor_a_live_query() -> None:
    with pytest.raises(SplitKUnknownError, match="not in the standard layout, which recorded rows"):
        resolve(SPLIT_ROW, layout_std=False)
    assert resolve(NO_ROW, layout_std=False).source == "envelope"


# --- strict ---------------------------------------------------------------------------------------------------


def test_strict_disables_the_envelope() -> None:
    with pytest.raises(SplitKUnknownError, match=r"strict mode does not infer S = 1 although M\*N"):
        resolve(NO_ROW, strict=True)
    assert resolve(SPLIT_ROW, strict=True).source == "table"


def test_mmaemu_splitk_strict_is_the_default_of_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_SPLITK_STRICT", "1")
    with pytest.raises(SplitKUnknownError, match="strict mode"):
        resolve(NO_ROW)
    assert resolve(NO_ROW, strict=False).source == "envelope"
    plan = mmaemu.explain(**arguments(input=codes(1024, 4112), mat2=codes(1024, 4112).t(), splitk="auto"))
    assert plan.validation[0] == "SplitKUnknownError"


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_or_zero_mmaemu_splitk_strict_is_not_strict(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MMAEMU_SPLITK_STRICT", value)
    assert resolve(NO_ROW).source == "envelope"
    with pytest.raises(SplitKUnknownError):
        resolve(NO_ROW, strict=True)


@pytest.mark.parametrize("value", ["2", "yes", "true"])
def test_another_mmaemu_splitk_strict_is_a_value_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MMAEMU_SPLITK_STRICT", value)
    with pytest.raises(ValueError, match=f'MMAEMU_SPLITK_STRICT must be unset, empty, "0" or "1", not "{value}"'):
        resolve(NO_ROW)
    assert resolve(NO_ROW, splitk=1).S == 1


# --- where the evidence ends ----------------------------------------------------------------------------------


def test_splitk_unknown_names_the_call_the_reason_the_bound_and_the_ways_out() -> None:
    with pytest.raises(SplitKUnknownError) as caught:
        resolve(BEYOND)
    message = str(caught.value)
    for part in (
        "M=7, N=16, K=48 (e4m3 x e5m2 to bfloat16, fast accumulation) on profile ada",
        f"table {ADA_TABLE} has no row for it",
        "MMAEMU_DISABLE_CUDA",
        "M*N = 7*16 is not above the bound",
        "splitk=1 if the platform is known not to split",
        'splitk=(S, "serial") or (S, "pairwise") if its split is known',
        "run on the profile's GPU (NVIDIA GeForce RTX 4060 with cuBLASLt 12.8.3.14)",
    ):
        assert part in message


def test_the_ways_out_are_those_of_the_profile() -> None:
    with pytest.raises(SplitKUnknownError) as caught:
        resolve(BEYOND, profile="hopper-experimental")
    assert 'splitk=(S, "contiguous") if its split is known' in str(caught.value)
    assert "GPU" not in str(caught.value)
    with pytest.raises(SplitKUnknownError) as caught:
        resolve(BEYOND, profile="b200-mma-sync-experimental")
    assert "splitk=1" in str(caught.value)
    assert "splitk=(S" not in str(caught.value)


@pytest.mark.parametrize("depth", [1008, 2**22 + 16, 2**23])
def test_the_envelope_of_the_h100_has_a_range_of_k(depth: int) -> None:
    with pytest.raises(SplitKUnknownError, match="outside the range of the bounds, 1024 to 4194304"):
        resolve((8192, 8192, depth), profile="hopper")


def test_a_profile_without_a_table_decides_nothing() -> None:
    own = dataclasses.replace(mmaemu.get_profile("ada"), name="own", splitk_table=None)
    for profile in ("hopper-experimental", own):
        with pytest.raises(SplitKUnknownError, match="no reference platform whose splits were recorded"):
            resolve(NO_ROW, profile=profile)
    missing = dataclasses.replace(own, splitk_table="heur_rtx5090")
    with pytest.raises(SplitKUnknownError, match='has no table "heur_rtx5090"'):
        resolve(NO_ROW, profile=missing)


# --- explicit splits ------------------------------------------------------------------------------------------


def test_an_explicit_split_is_a_splitk_or_a_pair() -> None:
    want = resolve((128, 128, 1024), splitk=SplitK(2, "serial"))
    assert (want.S, want.scheme, want.source, want.verified, want.table_id) == (2, "serial", "explicit", True, None)
    assert resolve((128, 128, 1024), splitk=(2, "serial")) == want
    assert resolve((128, 128, 1024), splitk=(np.int64(2), "serial")) == want
    for unsplit in (1, np.int64(1), SplitK(), SplitK(1), SplitK(1, "none"), (1, "none")):
        assert resolve(BEYOND, splitk=unsplit).S == 1


@pytest.mark.parametrize(
    ("profile", "forms"), [("ada", '(5, "serial") or (5, "pairwise")'), ("hopper", '(5, "contiguous")')]
)
def test_a_bare_number_of_splits_names_the_form_of_the_profile(profile: str, forms: str) -> None:
    with pytest.raises(ValueError, match="splitk=5 does not say which K elements each part owns") as caught:
        resolve(SPLIT_ROW, profile=profile, splitk=5)
    assert forms in str(caught.value)


def test_resolving_takes_the_scheme_of_another_preset_and_computing_does_not() -> None:
    with pytest.warns(UnverifiedSplitWarning):
        decision = resolve((128, 128, 1024), a_dtype=E4M3, b_dtype=E4M3, splitk=(2, "contiguous"))
    assert (decision.scheme, decision.verified) == ("contiguous", False)
    with pytest.raises(ValueError, match='split scheme "contiguous" does not belong to preset "ada"'):
        scaled(
            input=codes(128, 1024),
            mat2=codes(128, 1024).t(),
            splitk=(2, "contiguous"),
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )


def test_a_split_with_an_empty_part_is_not_verified() -> None:
    with pytest.warns(UnverifiedSplitWarning, match="a part of the split is empty"):
        decision = resolve((128, 128, 512), profile="hopper", splitk=(3, "contiguous"))
    assert not decision.verified
    assert resolve((128, 128, 512), profile="hopper", splitk=(2, "contiguous")).verified


def test_an_automatic_split_computes_as_the_same_explicit_one() -> None:
    M, N, K = SPLIT_ROW
    call = {"input": codes(M, K), "mat2": codes(N, K, E5M2).t(), "out_dtype": torch.bfloat16, "use_fast_accum": True}
    automatic = bits(scaled(**call, splitk="auto"))
    assert automatic == bits(scaled(**call, splitk=(3, "pairwise")))
    assert automatic == bits(scaled(**call, splitk=SplitK(3, "pairwise")))
    assert automatic != bits(scaled(**call, splitk=1))


def test_accumulate_looks_the_split_up_under_out_dtype_for_split() -> None:
    M, N, K = SPLIT_ROW
    a, b = codes(M, K), codes(N, K, E5M2)

    def product(**how: Any) -> Any:
        return bits(mmaemu.accumulate(a, b, use_fast_accum=True, profile="ada", **how))

    unsplit, split = product(splitk=1), product(splitk=(3, "pairwise"))
    assert unsplit != split
    assert product() == product(out_dtype_for_split=torch.float32) == unsplit
    assert product(out_dtype_for_split=torch.bfloat16) == split


# --- arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e4m3", "e5m2", "bfloat16"),
    [
        (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16),
        ("e4m3", "e5m2", "bfloat16"),
        ("float8_e4m3fn", "float8_e5m2", "bfloat16"),
        (ml_dtypes.float8_e4m3fn, np.dtype(ml_dtypes.float8_e5m2), ml_dtypes.bfloat16),
    ],
    ids=["torch", "short names", "long names", "ml_dtypes"],
)
def test_dtypes_are_dtypes_or_their_names(e4m3: Any, e5m2: Any, bfloat16: Any) -> None:
    assert resolve(SPLIT_ROW, a_dtype=e4m3, b_dtype=e5m2, out_dtype=bfloat16) == resolve(SPLIT_ROW)


def test_out_dtype_none_means_a_dtype() -> None:
    assert resolve(SPLIT_ROW, out_dtype=None) == resolve(SPLIT_ROW, out_dtype=E4M3)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"a_dtype": 3}, TypeError, "a_dtype must be a dtype or the name of one, not 3"),
        ({"b_dtype": None}, TypeError, "b_dtype must be a dtype"),
        ({"a_dtype": "fp8"}, ValueError, 'a_dtype must be e4m3 or e5m2, not "fp8"'),
        ({"b_dtype": torch.float32}, ValueError, 'b_dtype must be e4m3 or e5m2, not "float32"'),
        ({"out_dtype": torch.int32}, ValueError, 'out_dtype must be one of .*, not "int32"'),
        ({"use_fast_accum": 1}, TypeError, "use_fast_accum must be a bool, not int"),
        ({"layout_std": None}, TypeError, "layout_std must be a bool, not NoneType"),
        ({"strict": 1}, TypeError, "strict must be None or a bool, not int"),
        ({"dry": "no"}, TypeError, "dry must be a bool, not str"),
        ({"splitk": [2, "serial"]}, TypeError, "splitk must be"),
        ({"splitk": 0}, ValueError, "S must be an integer >= 1"),
        ({"splitk": (2, "zigzag")}, ValueError, '"zigzag" is not a split scheme'),
        ({"profile": "rtx"}, KeyError, "known profiles"),
    ],
    ids=str,
)
def test_a_bad_argument_is_named(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        resolve(SPLIT_ROW, **changes)
    assert type(caught.value) is error


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (-1, ValueError, "must be at least 0, not -1"),
        (2**63, ValueError, "does not fit 64 bits"),
        (1.0, TypeError, "must be an int, not float"),
        (True, TypeError, "must be an int, not bool"),
        ("16", TypeError, "must be an int, not str"),
    ],
)
def test_a_bad_size_is_named(position: int, size: Any, error: type[Exception], message: str) -> None:
    sizes = [16, 16, 32]
    sizes[position] = size
    with pytest.raises(error, match=f"{'MNK'[position]}.*{message}"):
        resolve(tuple(sizes))


def test_sizes_up_to_64_bits_are_decided_at_once() -> None:
    assert resolve((2**62, 2**62, 2**62)).source == "envelope"
    with pytest.raises(SplitKUnknownError):
        resolve((1, 1, 2**62))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert resolve((1, 1, 2**62), splitk=(2**62, "serial")).S == 2**62
