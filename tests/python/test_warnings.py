"""The warnings: their classes, when they are given, how often, and at which line."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import mmaemu
from calls import E4M3, arguments, codes, run_python, scaled
from mmaemu import (
    BackendFallbackWarning,
    ExperimentalPresetWarning,
    UnvalidatedEnvelopeWarning,
    UnverifiedSplitWarning,
)

A = codes(16, 1024)
NO_ROW = (8192, 8192, 4112)


def recorded(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return caught


def classes(call: Callable[[], Any]) -> list[type[Warning]]:
    return [warning.category for warning in recorded(call)]


def resolve(size: tuple[int, int, int], **changes: Any) -> mmaemu.SplitDecision:
    how = {"a_dtype": E4M3, "b_dtype": E4M3, "out_dtype": torch.float32, "use_fast_accum": True, "profile": "ada"}
    return mmaemu.resolve_splitk(*size, **how | changes)


@pytest.mark.parametrize(
    ("warning", "base"),
    [
        (ExperimentalPresetWarning, UserWarning),
        (UnverifiedSplitWarning, UserWarning),
        (UnvalidatedEnvelopeWarning, UnverifiedSplitWarning),
        (BackendFallbackWarning, RuntimeWarning),
    ],
)
def test_warnings_have_the_documented_bases(warning: type[Warning], base: type[Warning]) -> None:
    assert warning.__bases__ == (base,)
    assert warning.__module__ == "mmaemu"


# --- ExperimentalPresetWarning: an experimental preset or profile is used -------------------------------------

EXPERIMENTAL_USES: dict[str, Callable[[], Any]] = {
    "get_preset": lambda: mmaemu.get_preset("b200_mma_sync"),
    "dot": lambda: mmaemu.model.dot(A, A, preset="b200_mma_sync"),
    "dot of a custom preset": lambda: mmaemu.model.dot(A, A, preset=mmaemu.Preset("own", 8, 9, 9, -99, True, 8)),
    "accumulate": lambda: mmaemu.accumulate(A, A, use_fast_accum=True, splitk=1, profile="b200-mma-sync-experimental"),
    "scaled_mm": lambda: scaled(profile="b200-mma-sync-experimental", use_fast_accum=True),
    "an experimental profile of a validated preset": lambda: scaled(profile="hopper-experimental"),
}


@pytest.mark.parametrize("use", EXPERIMENTAL_USES)
def test_an_experimental_preset_or_profile_warns_once_per_process(use: str) -> None:
    assert classes(EXPERIMENTAL_USES[use]) == [ExperimentalPresetWarning]
    assert classes(EXPERIMENTAL_USES[use]) == []


def test_the_warning_of_a_preset_is_given_once_for_all_its_uses() -> None:
    uses = [EXPERIMENTAL_USES[name] for name in ("accumulate", "get_preset", "dot", "scaled_mm")]
    assert [classes(use) for use in uses] == [[ExperimentalPresetWarning], [], [], []]


def test_each_preset_name_warns_for_itself() -> None:
    for name in ("one", "two"):
        preset = mmaemu.Preset(name, 8, 9, 9, -99, True, 8)
        (warning,) = recorded(lambda preset=preset: mmaemu.model.dot(A, A, preset=preset))
        assert f'preset "{name}" is custom' in str(warning.message)


def test_the_alias_blackwell_warns_every_time() -> None:
    def lookup() -> None:
        mmaemu.get_preset("blackwell")

    assert classes(lookup) == classes(lookup) == [ExperimentalPresetWarning]
    (warning,) = recorded(lambda: mmaemu.model.dot(A, A, preset="blackwell"))
    assert '"blackwell" is an alias: preset "b200_mma_sync" is experimental' in str(warning.message)


def test_the_warning_says_what_stands_behind_the_preset() -> None:
    (warning,) = recorded(EXPERIMENTAL_USES["get_preset"])
    assert "not B200 cuBLAS, not sm_120" in str(warning.message)
    (warning,) = recorded(EXPERIMENTAL_USES["an experimental profile of a validated preset"])
    assert 'profile "hopper-experimental" is experimental' in str(warning.message)
    assert "no reference platform stands behind this profile" in str(warning.message)


@pytest.mark.parametrize("name", ["ada", "hopper"])
def test_a_validated_preset_does_not_warn(name: str) -> None:
    assert classes(lambda: mmaemu.get_preset(name)) == []
    assert classes(lambda: mmaemu.model.dot(A, A, preset=name)) == []


@pytest.mark.parametrize("name", ["ada", "ada-te", "ada-ws0", "hopper", "hopper-te", "hopper-ws0"])
def test_a_validated_profile_does_not_warn(name: str) -> None:
    assert classes(lambda: scaled(profile=name)) == []


def test_looking_names_up_does_not_warn() -> None:
    assert classes(lambda: [mmaemu.get_profile(name) for name in mmaemu.list_profiles()]) == []
    assert classes(mmaemu.list_presets) == []


def test_a_zero_size_call_does_not_warn() -> None:
    assert classes(lambda: scaled(input=codes(0, 32), profile="hopper-experimental")) == []


# --- UnverifiedSplitWarning: a split decision that was not replayed on hardware -------------------------------

UNVERIFIED = {"splitk": (17, "serial")}
SIZE = (16, 16, 8192)


def test_a_split_that_was_not_replayed_warns_once_per_combination() -> None:
    assert classes(lambda: resolve(SIZE, **UNVERIFIED)) == [UnverifiedSplitWarning]
    assert classes(lambda: resolve((32, 48, 16384), **UNVERIFIED)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"splitk": (18, "serial")},
        {"splitk": (17, "pairwise")},
        {"out_dtype": torch.float16},
        {"use_fast_accum": False},
        {"a_dtype": torch.float8_e5m2},
        {"profile": "ada-te"},
    ],
    ids=str,
)
def test_another_combination_warns_for_itself(change: dict[str, Any]) -> None:
    resolved = {"profile": "ada", "use_fast_accum": True} | UNVERIFIED
    assert classes(lambda: resolve(SIZE, **resolved)) == [UnverifiedSplitWarning]
    assert classes(lambda: resolve(SIZE, **resolved | change)) == [UnverifiedSplitWarning]
    assert classes(lambda: resolve(SIZE, **resolved | change)) == []


def test_scaled_mm_and_accumulate_share_the_warnings_of_resolve_splitk() -> None:
    call = {"use_fast_accum": True, "profile": "ada"} | UNVERIFIED
    assert classes(lambda: mmaemu.accumulate(A, A, **call)) == [UnverifiedSplitWarning]
    assert classes(lambda: scaled(input=A, mat2=A.t(), **call)) == []
    assert classes(lambda: resolve((16, 16, 1024), **UNVERIFIED)) == []


def test_a_split_that_was_replayed_does_not_warn() -> None:
    assert classes(lambda: resolve(SIZE, splitk=(2, "serial"))) == []
    assert classes(lambda: resolve(SIZE, splitk=1)) == []


@pytest.mark.parametrize("profile", ["ada-te", "hopper-te"])
def test_splits_of_the_transformer_engine_profiles_are_experimental(profile: str) -> None:
    scheme = "serial" if profile == "ada-te" else "contiguous"
    (warning,) = recorded(lambda: resolve(SIZE, profile=profile, splitk=(2, scheme)))
    assert warning.category is UnverifiedSplitWarning
    assert "split decisions of this profile are experimental" in str(warning.message)
    assert classes(lambda: resolve(SIZE, profile=profile, splitk=1)) == []


def test_the_warning_says_that_the_bits_may_differ() -> None:
    (warning,) = recorded(lambda: resolve(SIZE, **UNVERIFIED))
    assert str(warning.message) == (
        "S = 17 (serial) for M=16, N=16, K=8192 (e4m3 x e4m3 to float32, fast accumulation) on profile ada is not "
        "verified: this combination of split, output and formats was not replayed on hardware. The bits may differ "
        "from the platform's."
    )


# --- UnvalidatedEnvelopeWarning: S = 1 inferred by an envelope that failed its held-out test ------------------


def test_the_envelope_of_the_h100_at_32_mib_warns_once_per_setting() -> None:
    assert classes(lambda: resolve(NO_ROW, profile="hopper-te")) == [UnvalidatedEnvelopeWarning]
    assert classes(lambda: resolve((8192, 16384, 4112), profile="hopper-te")) == []
    assert classes(lambda: resolve(NO_ROW, profile="hopper-te", use_fast_accum=False)) == [UnvalidatedEnvelopeWarning]
    assert classes(lambda: resolve(NO_ROW, profile="hopper-te", out_dtype=E4M3)) == [UnvalidatedEnvelopeWarning]


@pytest.mark.parametrize("profile", ["ada", "ada-te", "hopper"])
def test_a_validated_envelope_does_not_warn(profile: str) -> None:
    assert classes(lambda: resolve(NO_ROW, profile=profile)) == []


# --- BackendFallbackWarning: the reference runs instead of a CUDA kernel --------------------------------------


def test_cuda_tensors_computed_by_the_reference_warn_of_the_fallback() -> None:
    native = mmaemu._native

    def described(dtype: str, shape: list[int], strides: list[int]) -> Any:
        return native.TensorDesc(dtype, shape, strides, 0, "cuda:0", False)

    scale = described("float32", [], [])
    plan = native.plan_scaled_mm(
        described("float8_e4m3fn", [16, 32], [32, 1]),
        described("float8_e4m3fn", [32, 16], [1, 32]),
        scale,
        scale,
        None,
        None,
        "float32",
        False,
        None,
        mmaemu.platforms.to_native(mmaemu.get_profile("ada")),
        1,
        "auto",
        False,
    )
    assert (plan.error, plan.backend) == (None, "reference")
    (fallback,) = plan.fallbacks
    assert fallback.startswith("cuda: ")
    assert classes(lambda: mmaemu._emit.emit(plan.warnings)) == [BackendFallbackWarning]
    assert classes(lambda: mmaemu._emit.emit(plan.warnings)) == []


# --- once, dry, errors, lines ---------------------------------------------------------------------------------


def test_dry_warns_every_time_and_uses_nothing_up() -> None:
    for _ in range(2):
        assert classes(lambda: resolve(SIZE, **UNVERIFIED, dry=True)) == [UnverifiedSplitWarning]
        assert classes(lambda: resolve(NO_ROW, profile="hopper-te", dry=True)) == [UnvalidatedEnvelopeWarning]
    assert classes(lambda: resolve(SIZE, **UNVERIFIED)) == [UnverifiedSplitWarning]
    assert classes(lambda: resolve(SIZE, **UNVERIFIED, dry=True)) == [UnverifiedSplitWarning]
    assert classes(lambda: resolve(SIZE, **UNVERIFIED)) == []


def test_a_warning_made_an_error_ends_the_call_and_is_not_used_up() -> None:
    out = torch.full((16, 16), 7.0)
    for _ in range(2):
        with pytest.raises(ExperimentalPresetWarning):
            scaled(profile="hopper-experimental", out=out)
        assert (out == 7.0).all()
    assert classes(lambda: scaled(profile="hopper-experimental", out=out)) == [ExperimentalPresetWarning]


def test_an_ignored_warning_is_used_up() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaled(profile="hopper-experimental")
    assert classes(lambda: scaled(profile="hopper-experimental")) == []


AT_THE_CALLERS_LINE: dict[str, Callable[[], Any]] = {
    "scaled_mm": lambda: mmaemu.scaled_mm(**arguments(profile="hopper-experimental")),
    "accumulate": lambda: mmaemu.accumulate(A, A, use_fast_accum=True, splitk=1, profile="hopper-experimental"),
    "dot": lambda: mmaemu.model.dot(A, A, preset="b200_mma_sync"),
    "get_preset": lambda: mmaemu.get_preset("b200_mma_sync"),
    "the alias": lambda: mmaemu.get_preset("blackwell"),
    "resolve_splitk": lambda: mmaemu.resolve_splitk(
        *SIZE,
        a_dtype="e4m3",
        b_dtype="e4m3",
        out_dtype="float32",
        use_fast_accum=True,
        profile="ada",
        splitk=(17, "serial"),
    ),
    "an unchanged out": lambda: mmaemu.scaled_mm(**arguments(out=torch.zeros(16, 32)[:, ::2])),
    "a resized out": lambda: mmaemu.scaled_mm(**arguments(out=torch.zeros(3))),
}


@pytest.mark.parametrize("entry", AT_THE_CALLERS_LINE)
def test_a_warning_names_the_line_of_the_call(entry: str) -> None:
    call = AT_THE_CALLERS_LINE[entry]
    (warning,) = recorded(call)
    source, first = inspect.getsourcelines(call)
    assert warning.filename == __file__
    assert first <= warning.lineno < first + len(source)


def test_many_threads_get_one_warning_between_them() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        barrier = threading.Barrier(8)

        def first() -> None:
            barrier.wait()
            mmaemu.get_preset("b200_mma_sync")

        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(caught) == 1


def test_a_process_prints_a_warning_once_under_the_default_filters() -> None:
    result = run_python(
        """
        import mmaemu
        for _ in range(3):
            mmaemu.get_preset("b200_mma_sync")
        for _ in range(3):
            mmaemu.resolve_splitk(16, 16, 8192, a_dtype="e4m3", b_dtype="e4m3", out_dtype="float32",
                                  use_fast_accum=True, profile="ada", splitk=(17, "serial"))
        """
    )
    assert result.returncode == 0
    assert result.stderr.count("ExperimentalPresetWarning: ") == 1
    assert result.stderr.count("UnverifiedSplitWarning: ") == 1
