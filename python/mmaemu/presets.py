"""The instruction model: what a tensor core does with one block of products."""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any

from . import _emit, _native

_ALIAS = "blackwell"


def _integer(owner: str, field: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{owner}: {field} must be an int, not {type(value).__name__}")
    return operator.index(value)


def plain(text: str) -> str:
    """Text that C++ can hold: lone surrogates, as argv has them for bytes that are not UTF-8, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(owner: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{owner}: {field} must be a str, not {type(value).__name__}")
    return value


@dataclasses.dataclass(frozen=True)
class Preset:
    """The arithmetic of one tensor-core instruction.

    nfma: products per block, at least 1. frac, frac_out: fraction bits kept of each aligned term (1..40) and of
    the block result (1..23). min_exp: floor of the block exponent. late_c: c is added after the block sum, in
    fp32, instead of inside the alignment. slow_chunk: elements of a slow chain, or None where slow and split
    products are not characterised. TypeError or ValueError names the field that does not fit.
    """

    name: str
    nfma: int
    frac: int
    frac_out: int
    min_exp: int
    late_c: bool
    slow_chunk: int | None
    maturity: str = "custom"
    validated_scope: str = ""
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        def settle(field: str, value: Any) -> None:
            object.__setattr__(self, field, value)

        for field in ("name", "maturity", "validated_scope"):
            _text("Preset", field, getattr(self, field))
        for field in ("nfma", "frac", "frac_out", "min_exp"):
            settle(field, _integer("Preset", field, getattr(self, field)))
        if self.slow_chunk is not None:
            settle("slow_chunk", _integer("Preset", "slow_chunk", self.slow_chunk))
        if not isinstance(self.late_c, bool):
            raise TypeError(f"Preset: late_c must be a bool, not {type(self.late_c).__name__}")
        if isinstance(self.evidence, str):
            raise TypeError("Preset: evidence must be a sequence of str, not one str")
        settle("evidence", tuple(self.evidence))
        if self.maturity not in ("validated", "experimental", "custom"):
            raise ValueError(f'Preset: maturity must be "validated", "experimental" or "custom", not {self.maturity!r}')
        for field in ("nfma", "slow_chunk"):
            if abs(getattr(self, field) or 0) >= 2**63:
                raise ValueError(f"Preset: {field} must be below 2^63")
        for field in ("frac", "frac_out", "min_exp"):
            if abs(getattr(self, field)) >= 2**31:
                raise ValueError(f"Preset: {field} = {getattr(self, field)} is out of range")
        to_native(self)


@functools.lru_cache(maxsize=256)
def to_native(preset: Preset) -> _native.Preset:
    """The C++ object; ValueError where a field is out of range."""
    return _native.Preset(**{f.name: getattr(preset, f.name) for f in dataclasses.fields(preset)})


@functools.cache
def _shipped() -> dict[str, Preset]:
    fields = [f.name for f in dataclasses.fields(Preset)]
    return {p.name: Preset(**{f: getattr(p, f) for f in fields}) for p in _native.shipped_presets()}


def lookup(name_or_preset: str | Preset) -> Preset:
    """get_preset without its warning."""
    if isinstance(name_or_preset, Preset):
        return name_or_preset
    if not isinstance(name_or_preset, str):
        raise TypeError(f"preset must be a name or a Preset, not {type(name_or_preset).__name__}")
    return _shipped()[_native.find_preset(plain(name_or_preset)).name]


def warn_of_maturity(name_or_preset: str | Preset, preset: Preset) -> None:
    """Emits what the use of a preset that is not validated says, as get_preset documents."""
    warning = _native.maturity_warning(to_native(preset))
    if warning is None:
        return
    if name_or_preset == _ALIAS:
        _emit.warn(warning.category, f'"{_ALIAS}" is an alias: {warning.message}')
    else:
        _emit.emit([warning])


def get_preset(name: str | Preset) -> Preset:
    """The shipped preset called `name`; a Preset passes through.

    KeyError for an unknown or refused name, with the reason. Emits ExperimentalPresetWarning for an experimental
    preset once per process, and for the alias "blackwell" every time.
    """
    preset = lookup(name)
    if isinstance(name, str):
        warn_of_maturity(name, preset)
    return preset


def list_presets() -> list[str]:
    """The names of the shipped presets, sorted; aliases are left out."""
    return sorted(_shipped())
