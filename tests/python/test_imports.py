"""Importing mmaemu has no side effects, and every public name is there."""

from __future__ import annotations

import pytest

import mmaemu
from calls import run_python

DOCUMENTED = [
    "scaled_mm",
    "accumulate",
    "explain",
    "CallPlan",
    "model",
    "Preset",
    "get_preset",
    "list_presets",
    "Profile",
    "get_profile",
    "list_profiles",
    "resolve_splitk",
    "SplitK",
    "SplitDecision",
    "backends_status",
    "selftest",
    "testing",
    "MmaemuError",
    "ReferenceRejectsError",
    "UnsupportedFeatureError",
    "SplitKUnknownError",
    "BackendUnavailableError",
    "ExperimentalPresetWarning",
    "UnverifiedSplitWarning",
    "UnvalidatedEnvelopeWarning",
    "BackendFallbackWarning",
    "emulate",
    "record",
    "audit",
    "AuditReport",
    "RecordingError",
    "NativeCallWarning",
    "RecordingWarning",
]


def test_import_imports_neither_torch_nor_numpy() -> None:
    result = run_python(
        """
        import sys, mmaemu
        loaded = {name.split(".")[0] for name in sys.modules}
        assert not loaded & {"torch", "numpy", "ml_dtypes"}, loaded
        assert not [name for name in sys.modules if name.startswith("mmaemu.")]
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_names_that_need_no_tensors_import_neither_torch_nor_numpy() -> None:
    result = run_python(
        """
        import sys, mmaemu
        for name in mmaemu.__all__:
            getattr(mmaemu, name)
        mmaemu.get_profile("ada").matches_device()
        mmaemu.resolve_splitk(16, 16, 32, a_dtype="e4m3", b_dtype="e4m3", out_dtype="float32", use_fast_accum=True,
                              splitk=1)
        mmaemu.backends_status(0)
        repr(mmaemu.accumulate), help
        assert not {name.split(".")[0] for name in sys.modules} & {"torch", "numpy", "ml_dtypes"}
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_name_is_importable_from_the_top(name: str) -> None:
    result = run_python(f"from mmaemu import {name}; import mmaemu; assert {name} is mmaemu.{name}")
    assert (result.returncode, result.stderr) == (0, "")


def test_dir_and_all_list_the_public_names() -> None:
    assert set(DOCUMENTED) <= set(mmaemu.__all__)
    assert dir(mmaemu) == sorted(mmaemu.__all__)
    assert all(hasattr(mmaemu, name) for name in mmaemu.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mmaemu' has no attribute 'scaled_nn'"):
        mmaemu.scaled_nn  # noqa: B018
    with pytest.raises(ImportError, match="scaled_nn"):
        from mmaemu import scaled_nn  # noqa: F401


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib import metadata

    assert mmaemu.__version__ == metadata.version("mmaemu")


def test_the_package_says_that_it_is_typed() -> None:
    from importlib import resources

    assert resources.files("mmaemu").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in ("model", "testing")])
def test_every_documented_name_has_a_docstring(name: str) -> None:
    assert getattr(mmaemu, name).__doc__
