"""Profiles and presets: what is shipped, how names are looked up, which device is a profile's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import mmaemu
from calls import arguments, bits, codes, run_python, scaled
from mmaemu import ExperimentalPresetWarning, Profile

TABLES = {"ada": "heur_rtx4060_lt12.8.3.14", "hopper": "heur_h100pcie_lt12.8.3.14"}
GPUS = {"ada": ("NVIDIA GeForce RTX 4060", (8, 9), 24), "hopper": ("NVIDIA H100 PCIe", (9, 0), 114)}
MIB = 2**20
# name: preset, workspace_bytes, align, caller, splitk_maturity
VALIDATED = {
    "ada": ("ada", MIB, None, "torch._scaled_mm", "validated"),
    "ada-te": ("ada", 4 * MIB, 256, "transformer_engine", "experimental"),
    "ada-ws0": ("ada", 0, None, "torch._scaled_mm", "validated"),
    "hopper": ("hopper", MIB, None, "torch._scaled_mm", "validated"),
    "hopper-te": ("hopper", 32 * MIB, 256, "transformer_engine", "experimental"),
    "hopper-ws0": ("hopper", 0, None, "torch._scaled_mm", "validated"),
}
EXPERIMENTAL = {"hopper-experimental": ("hopper", (9, 0)), "b200-mma-sync-experimental": ("b200_mma_sync", (10, 0))}
PRESETS = {
    "ada": (16, 13, 13, -132, False, 128, "validated"),
    "hopper": (32, 13, 13, -132, False, 128, "validated"),
    "b200_mma_sync": (32, 25, 23, -133, True, None, "experimental"),
}


def test_list_profiles_gives_the_shipped_names_in_their_order() -> None:
    assert mmaemu.list_profiles() == [*VALIDATED, *EXPERIMENTAL]


@pytest.mark.parametrize("name", VALIDATED)
def test_a_validated_profile_has_its_documented_fields(name: str) -> None:
    preset, workspace, align, caller, splitk_maturity = VALIDATED[name]
    gpu, capability, sm_count = GPUS[preset]
    profile = mmaemu.get_profile(name)
    assert (profile.name, profile.preset, profile.maturity) == (name, preset, "validated")
    assert (profile.gpu_name, profile.capability, profile.sm_count) == (gpu, capability, sm_count)
    assert (profile.cublaslt_version, profile.torch_version) == ("12.8.3.14", "2.7.1+cu128")
    assert (profile.workspace_bytes, profile.align, profile.caller) == (workspace, align, caller)
    assert (profile.splitk_table, profile.splitk_maturity) == (TABLES[preset], splitk_maturity)
    (rejection,) = profile.rejects
    assert dataclasses.astuple(rejection)[:3] == ("e4m3", "e4m3", "float8_e5m2")
    assert rejection.message


@pytest.mark.parametrize("name", EXPERIMENTAL)
def test_an_experimental_profile_has_no_reference_platform(name: str) -> None:
    preset, capability = EXPERIMENTAL[name]
    profile = mmaemu.get_profile(name)
    assert (profile.preset, profile.capability, profile.maturity) == (preset, capability, "experimental")
    for field in ("gpu_name", "sm_count", "cublaslt_version", "torch_version", "workspace_bytes", "splitk_table"):
        assert getattr(profile, field) is None
    assert (profile.splitk_maturity, profile.rejects) == ("none", ())
    assert not profile.matches_device()


def test_the_default_profile_is_hopper() -> None:
    assert mmaemu.get_profile() == mmaemu.get_profile(None) == mmaemu.get_profile("hopper")
    call = arguments(input=codes(16, 64, seed=5), mat2=codes(16, 64, seed=6).t())
    del call["profile"]
    assert mmaemu.explain(**call).profile == "hopper"
    assert bits(mmaemu.scaled_mm(**call)) == bits(mmaemu.scaled_mm(**call, profile="hopper"))
    assert bits(mmaemu.scaled_mm(**call)) != bits(mmaemu.scaled_mm(**call, profile="ada"))


def test_mmaemu_profile_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_PROFILE", "ada-ws0")
    assert mmaemu.get_profile().name == "ada-ws0"
    call = arguments(profile=None)
    assert mmaemu.explain(**call).profile == "ada-ws0"
    assert bits(mmaemu.scaled_mm(**call)) == bits(scaled(profile="ada-ws0"))
    decision = mmaemu.resolve_splitk(
        1, 1, 1, a_dtype="e4m3", b_dtype="e4m3", out_dtype="float32", use_fast_accum=True, strict=True
    )
    assert decision.source == "workspace0"
    monkeypatch.setenv("MMAEMU_PROFILE", "")
    assert mmaemu.get_profile().name == "hopper"


def test_an_argument_overrides_mmaemu_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_PROFILE", "no such profile")
    assert mmaemu.get_profile("ada").name == "ada"
    assert scaled(profile="ada").shape == (16, 16)


def test_an_unknown_mmaemu_profile_is_a_key_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_PROFILE", "h100")
    with pytest.raises(KeyError, match=r'unknown profile "h100" in MMAEMU_PROFILE; known profiles: ada, .*hopper'):
        scaled(profile=None)


def test_an_unknown_mmaemu_profile_may_be_any_bytes() -> None:
    result = run_python(
        """
        import os, mmaemu
        os.environb[b"MMAEMU_PROFILE"] = b"h\\xff100"
        try:
            mmaemu.get_profile()
        except KeyError as error:
            print(error.args[0].split(";")[0])
        """
    )
    assert (result.stdout, result.stderr) == ('unknown profile "h\\xff100" in MMAEMU_PROFILE\n', "")


@pytest.mark.parametrize("name", ["", "Hopper", "hopper ", "h100", "ada\0", "ädä", "\udcff"])
def test_an_unknown_profile_is_a_key_error_with_the_known_names(name: str) -> None:
    with pytest.raises(KeyError, match="known profiles: ada, ada-te, ada-ws0, hopper, hopper-te, hopper-ws0, "):
        mmaemu.get_profile(name)


@pytest.mark.parametrize("value", [3, True, b"ada", ("ada",), object()])
def test_a_profile_that_is_neither_name_nor_profile_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=f"profile must be a name or a Profile, not {type(value).__name__}"):
        mmaemu.get_profile(value)


def test_a_profile_passes_through_get_profile() -> None:
    profile = dataclasses.replace(mmaemu.get_profile("ada"), name="mine")
    assert mmaemu.get_profile(profile) is profile


def test_a_profile_is_taken_wherever_its_name_is() -> None:
    profile = mmaemu.get_profile("ada")
    assert bits(scaled(profile=profile)) == bits(scaled(profile="ada"))
    assert mmaemu.explain(**arguments(profile=profile)) == mmaemu.explain(**arguments(profile="ada"))


def test_a_profile_may_hold_a_preset_of_ones_own() -> None:
    coarse = mmaemu.Preset("coarse", 16, 3, 3, -132, False, 128)
    profile = Profile("mine", coarse, workspace_bytes=0, maturity="custom")
    a = codes(3, 64)
    with pytest.warns(ExperimentalPresetWarning, match='preset "coarse" is custom'):
        product = mmaemu.accumulate(a, a, use_fast_accum=True, profile=profile)
    assert bits(product.diagonal()) == bits(mmaemu.model.dot(a, a, preset=coarse))
    assert mmaemu.explain(**arguments(profile=profile)).preset == "coarse"


def test_the_rejections_of_a_profile_are_its_own() -> None:
    call = arguments(out_dtype=torch.float8_e5m2)
    with pytest.raises(mmaemu.ReferenceRejectsError, match=r"\(profile ada\)"):
        mmaemu.scaled_mm(**call)
    lenient = dataclasses.replace(mmaemu.get_profile("ada"), rejects=())
    assert mmaemu.scaled_mm(**call | {"profile": lenient}).dtype == torch.float8_e5m2
    strict = dataclasses.replace(
        lenient, name="strict", rejects=(mmaemu.Rejection("e4m3", "e4m3", "float32", "no float32 here"),)
    )
    with pytest.raises(mmaemu.ReferenceRejectsError, match=r"no float32 here \(profile strict\)"):
        scaled(profile=strict)


@pytest.mark.parametrize("name", [*VALIDATED, *EXPERIMENTAL])
@pytest.mark.parametrize("device", [None, 0, 7, "cuda", "cuda:3", "cpu", "cuda:x", torch.device("cpu")])
def test_no_profile_matches_where_cuda_is_disabled(monkeypatch: pytest.MonkeyPatch, name: str, device: Any) -> None:
    monkeypatch.setenv("MMAEMU_DISABLE_CUDA", "1")
    assert mmaemu.get_profile(name).matches_device(device) is False


def test_matches_device_creates_no_cuda_context_and_does_not_import_torch() -> None:
    result = run_python(
        """
        import sys, mmaemu
        mmaemu.get_profile("ada").matches_device()
        assert "torch" not in sys.modules
        import torch
        mmaemu.get_profile("ada").matches_device(torch.device("cuda:0"))
        assert not torch.cuda.is_initialized()
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_list_presets_gives_the_shipped_names_sorted_and_no_alias() -> None:
    assert mmaemu.list_presets() == sorted(PRESETS)


@pytest.mark.filterwarnings("ignore::mmaemu.ExperimentalPresetWarning")
@pytest.mark.parametrize("name", PRESETS)
def test_a_shipped_preset_has_its_documented_fields(name: str) -> None:
    preset = mmaemu.get_preset(name)
    fields = ("nfma", "frac", "frac_out", "min_exp", "late_c", "slow_chunk", "maturity")
    assert tuple(getattr(preset, field) for field in fields) == PRESETS[name]
    assert preset.name == name
    assert preset.validated_scope
    assert preset.evidence
    assert all(isinstance(piece, str) and piece for piece in preset.evidence)


@pytest.mark.filterwarnings("ignore::mmaemu.ExperimentalPresetWarning")
def test_blackwell_is_an_alias_of_b200_mma_sync() -> None:
    assert mmaemu.get_preset("blackwell") == mmaemu.get_preset("b200_mma_sync")
    a = codes(3, 64)
    want = bits(mmaemu.model.dot(a, a, preset="b200_mma_sync"))
    assert bits(mmaemu.model.dot(a, a, preset="blackwell")) == want


@pytest.mark.parametrize(
    "name", ["sm_120", "SM_120", "sm120", "rtx_blackwell", "RTX-Blackwell", "rtx5070ti", "rtx_5070_ti"]
)
def test_names_of_sm_120_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(KeyError, match=r"is refused: no recording of sm_120 .*b200_mma_sync does not describe it"):
        mmaemu.get_preset(name)
    with pytest.raises(KeyError, match="is refused"):
        mmaemu.model.dot(codes(3, 32), codes(3, 32), preset=name)


@pytest.mark.parametrize("name", ["volta", "", "Ada", "\udcff"])
def test_an_unknown_preset_is_a_key_error_with_the_known_names(name: str) -> None:
    with pytest.raises(KeyError, match=r'unknown preset ".*"; the presets are ada, b200_mma_sync, hopper, .*blackwell'):
        mmaemu.get_preset(name)


@pytest.mark.parametrize("value", [None, 3, b"ada", mmaemu.SplitK()])
def test_a_preset_that_is_neither_name_nor_preset_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="preset must be a name or a Preset, not"):
        mmaemu.get_preset(value)


def test_a_preset_passes_through_get_preset_without_a_warning() -> None:
    mine = mmaemu.Preset("mine", 8, 20, 22, -100, True, 64)
    assert mmaemu.get_preset(mine) is mine
    assert mine.maturity == "custom"


def test_scaled_mm_and_accumulate_take_profiles_and_no_presets() -> None:
    preset = mmaemu.get_preset("ada")
    with pytest.raises(TypeError, match="profile must be a name or a Profile, not Preset"):
        scaled(profile=preset)
    with pytest.raises(TypeError, match="profile must be a name or a Profile, not Preset"):
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=True, profile=preset)


@pytest.mark.filterwarnings("ignore::mmaemu.ExperimentalPresetWarning")
@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.parametrize("fast", [True, False])
def test_a_preset_without_slow_chunk_computes_fast_unsplit_products_alone(fast: bool) -> None:
    a = codes(16, 64)
    call = {"profile": "b200-mma-sync-experimental", "use_fast_accum": fast}
    if fast:
        product = mmaemu.accumulate(a, a, splitk=1, **call)
        assert bits(product.diagonal()) == bits(mmaemu.model.dot(a, a, preset="b200_mma_sync"))
    else:
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="slow accumulation"):
            mmaemu.accumulate(a, a, splitk=1, **call)
    with pytest.raises(mmaemu.UnsupportedFeatureError, match="slow_chunk is None"):
        mmaemu.accumulate(a, a, splitk=(2, "contiguous"), **call)
