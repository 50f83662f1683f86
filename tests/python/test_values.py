"""Preset, Profile, SplitK, SplitDecision, CallPlan, BackendStatus and GateResult as Python values."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

import mmaemu
from calls import arguments, codes
from mmaemu import BackendStatus, CallPlan, GateResult, Preset, Profile, SplitDecision, SplitK


def custom_preset() -> Preset:
    return Preset("mine", 8, 20, 22, -100, True, 64, evidence=("a measurement",))


def custom_profile() -> Profile:
    return dataclasses.replace(mmaemu.get_profile("ada"), name="mine", preset=custom_preset(), maturity="custom")


# Each entry makes equal values; no two entries make the same.
MAKERS = {
    "shipped preset": lambda: mmaemu.get_preset("ada"),
    "custom preset": custom_preset,
    "shipped profile": lambda: mmaemu.get_profile("hopper-te"),
    "custom profile": custom_profile,
    "split": lambda: SplitK(3, "pairwise"),
    "unsplit": SplitK,
    "decision": lambda: SplitDecision(2, "serial", "table", True, "heur", "a note"),
    "backend status": lambda: mmaemu.backends_status()["cuda:v4"],
    "gate result": lambda: GateResult("exactness", True, "", {"cases": 3}, 0.5, False),
    "plan": lambda: mmaemu.explain(**arguments()),
    "plan of a refused call": lambda: mmaemu.explain(**arguments(scale_a=1.0)),
}
UNHASHABLE = ("plan", "plan of a refused call", "gate result")  # they hold lists and dicts


@pytest.mark.parametrize("name", MAKERS)
def test_values_are_equal_by_their_fields(name: str) -> None:
    assert MAKERS[name]() == MAKERS[name]()
    others = [make() for other, make in MAKERS.items() if other != name]
    assert all(MAKERS[name]() != other for other in others)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_values_survive_pickling(name: str, protocol: int) -> None:
    value = MAKERS[name]()
    revived = pickle.loads(pickle.dumps(value, protocol))
    assert revived == value
    assert type(revived) is type(value)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_values_survive_copying(name: str, duplicate: Any) -> None:
    assert duplicate(MAKERS[name]()) == MAKERS[name]()


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in UNHASHABLE])
def test_equal_values_hash_alike(name: str) -> None:
    assert len({MAKERS[name](), copy.deepcopy(MAKERS[name]())}) == 1


@pytest.mark.parametrize("name", MAKERS)
def test_the_repr_names_every_field(name: str) -> None:
    value = MAKERS[name]()
    assert repr(value).startswith(f"{type(value).__name__}(")
    for field in dataclasses.fields(value):
        assert f"{field.name}={getattr(value, field.name)!r}" in repr(value)


@pytest.mark.parametrize("name", MAKERS)
def test_values_are_frozen(name: str) -> None:
    value = MAKERS[name]()
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, field.name)


@pytest.mark.parametrize("name", ["custom preset", "custom profile", "split", "unsplit", "decision"])
def test_the_repr_of_a_value_makes_it_again(name: str) -> None:
    value = MAKERS[name]()
    assert eval(repr(value), {**vars(mmaemu), "Rejection": mmaemu.Rejection}) == value


@pytest.mark.parametrize("kind", [Preset, Profile, SplitK, SplitDecision, CallPlan, BackendStatus, GateResult])
def test_values_know_the_package_that_they_come_from(kind: type) -> None:
    assert kind.__module__.startswith("mmaemu")
    assert kind.__qualname__ == kind.__name__


def test_a_revived_profile_computes_like_the_original() -> None:
    revived = pickle.loads(pickle.dumps(custom_profile()))
    a = codes(3, 64)

    def product(profile: Profile) -> list[Any]:
        return mmaemu.accumulate(a, a, use_fast_accum=False, splitk=1, profile=profile).tolist()

    with pytest.warns(mmaemu.ExperimentalPresetWarning, match='"mine" is custom'):
        want = product(custom_profile())
    assert product(revived) == want


class Index:
    """An integer that is no int, as numpy's are."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_integer_fields_become_ints() -> None:
    preset = dataclasses.replace(custom_preset(), nfma=Index(8), frac=Index(20), slow_chunk=Index(64))
    assert preset == custom_preset()
    assert type(preset.nfma) is int
    assert SplitK(Index(3), "serial") == SplitK(3, "serial")
    assert dataclasses.replace(mmaemu.get_profile("ada"), sm_count=Index(24)) == mmaemu.get_profile("ada")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"nfma": 0}, ValueError, "nfma is 0; it must be at least 1"),
        ({"nfma": -5}, ValueError, "nfma is -5"),
        ({"nfma": 2**63}, ValueError, "nfma must be below"),
        ({"nfma": 1.0}, TypeError, "nfma must be an int, not float"),
        ({"nfma": True}, TypeError, "nfma must be an int, not bool"),
        ({"frac": 0}, ValueError, "frac is 0; it must be in 1..40"),
        ({"frac": 41}, ValueError, "frac is 41; it must be in 1..40"),
        ({"frac_out": 0}, ValueError, "frac_out is 0; it must be in 1..23"),
        ({"frac_out": 24}, ValueError, "frac_out is 24; it must be in 1..23"),
        ({"min_exp": 2**31}, ValueError, "min_exp = 2147483648 is out of range"),
        ({"slow_chunk": 0}, ValueError, "slow_chunk is 0; it must be None or at least 1"),
        ({"slow_chunk": "128"}, TypeError, "slow_chunk must be an int, not str"),
        ({"late_c": 1}, TypeError, "late_c must be a bool, not int"),
        ({"name": None}, TypeError, "name must be a str, not NoneType"),
        ({"maturity": "proven"}, ValueError, "maturity must be .* not 'proven'"),
        ({"evidence": "one"}, TypeError, "evidence must be a sequence of str"),
    ],
    ids=str,
)
def test_a_preset_out_of_range_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Preset: {message}") as caught:
        dataclasses.replace(custom_preset(), **changes)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "changes", [{"nfma": 1}, {"frac": 1}, {"frac": 40}, {"frac_out": 1}, {"frac_out": 23}], ids=str
)
def test_a_preset_at_the_ends_of_the_ranges_computes(changes: dict[str, Any]) -> None:
    preset = dataclasses.replace(custom_preset(), **changes)
    with pytest.warns(mmaemu.ExperimentalPresetWarning):
        assert mmaemu.model.dot(codes(3, 64), codes(3, 64), preset=preset).isfinite().all()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": 3}, TypeError, "Profile: name must be a str"),
        ({"preset": "adaa"}, KeyError, 'unknown preset "adaa"'),
        ({"preset": None}, TypeError, "preset must be a name or a Preset"),
        ({"capability": (8,)}, ValueError, "capability must be"),
        ({"capability": (8, "9")}, TypeError, "capability must be an int"),
        ({"sm_count": -1}, ValueError, "sm_count must be in"),
        ({"workspace_bytes": 2**31}, ValueError, "workspace_bytes must be in"),
        ({"caller": "jax"}, ValueError, "caller must be"),
        ({"maturity": "none"}, ValueError, "maturity must be one of"),
        ({"splitk_maturity": None}, TypeError, "splitk_maturity must be a str"),
        ({"rejects": [("e4m3", "e4m3", "float8_e5m2", "no")]}, TypeError, "rejects must hold Rejection objects"),
    ],
    ids=str,
)
def test_a_profile_that_does_not_fit_is_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        dataclasses.replace(mmaemu.get_profile("ada"), **changes)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("S", "scheme", "error", "message"),
    [
        (0, "none", ValueError, "S must be an integer >= 1"),
        (-2, "serial", ValueError, "S must be an integer >= 1"),
        (2**63, "serial", ValueError, "does not fit 64 bits"),
        (2, "none", ValueError, 'S=2, scheme="none"'),
        (1, "serial", ValueError, 'S=1, scheme="serial"'),
        (2, "zigzag", ValueError, '"zigzag" is not a split scheme'),
        (2, "\udcff", ValueError, "is not a split scheme"),
        (True, "none", TypeError, "S must be an int, not bool"),
        (2.0, "serial", TypeError, "S must be an int, not float"),
        ("2", "serial", TypeError, "S must be an int, not str"),
        (2, None, TypeError, "scheme must be a str, not NoneType"),
    ],
)
def test_an_impossible_split_is_refused(S: Any, scheme: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        SplitK(S, scheme)
    assert type(caught.value) is error
