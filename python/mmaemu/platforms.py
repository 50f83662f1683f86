"""Reference platforms: a GPU, its cuBLASLt and the caller's settings."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from . import _native, presets
from .presets import Preset, _integer, _text, plain


@dataclasses.dataclass(frozen=True)
class Rejection:
    """A combination that the platform's cuBLAS refuses: formats by PTX name, the result by torch's."""

    a_format: str
    b_format: str
    out_dtype: str
    message: str


@dataclasses.dataclass(frozen=True)
class Profile:
    """A reference platform. docs/presets_profiles.md says what each field is and what stands behind it.

    preset: a preset's name or a Preset. capability: (major, minor). workspace_bytes, align: what the caller gives
    and promises cuBLASLt, in bytes. splitk_table: id of the recorded split table. dataclasses.replace derives
    another profile. TypeError or ValueError names the field that does not fit.
    """

    name: str
    preset: str | Preset
    gpu_name: str | None = None
    capability: tuple[int, int] | None = None
    sm_count: int | None = None
    cublaslt_version: str | None = None
    caller: str = "torch._scaled_mm"
    torch_version: str | None = None
    workspace_bytes: int | None = None
    align: int | None = None
    splitk_table: str | None = None
    rejects: tuple[Rejection, ...] = ()
    maturity: str = "custom"
    splitk_maturity: str = "none"

    def __post_init__(self) -> None:
        def settle(field: str, value: Any) -> None:
            object.__setattr__(self, field, value)

        for field in ("name", "caller", "maturity", "splitk_maturity"):
            _text("Profile", field, getattr(self, field))
        for field in ("gpu_name", "cublaslt_version", "torch_version", "splitk_table"):
            if getattr(self, field) is not None:
                _text("Profile", field, getattr(self, field))
        for field in ("sm_count", "workspace_bytes", "align"):
            value = getattr(self, field)
            if value is not None:
                value = _integer("Profile", field, value)
                if not 0 <= value < 2**31:
                    raise ValueError(f"Profile: {field} must be in 0..2^31 - 1, not {value}")
                settle(field, value)
        if self.capability is not None:
            pair = tuple(_integer("Profile", "capability", v) for v in self.capability)
            if len(pair) != 2 or not all(0 <= v < 1000 for v in pair):
                raise ValueError(f"Profile: capability must be (major, minor), not {self.capability!r}")
            settle("capability", pair)
        if self.caller not in ("torch._scaled_mm", "transformer_engine"):
            raise ValueError(f'Profile: caller must be "torch._scaled_mm" or "transformer_engine", not {self.caller!r}')
        for field, words in (
            ("maturity", ("validated", "experimental", "custom")),
            ("splitk_maturity", ("validated", "experimental", "custom", "none")),
        ):
            if getattr(self, field) not in words:
                raise ValueError(f"Profile: {field} must be one of {words}, not {getattr(self, field)!r}")
        settle("rejects", tuple(self.rejects))
        for rule in self.rejects:
            if not isinstance(rule, Rejection):
                raise TypeError(f"Profile: rejects must hold Rejection objects, not {type(rule).__name__}")
        presets.lookup(self.preset)

    def matches_device(self, device: Any = None) -> bool:
        """Whether a CUDA device is this platform: its GPU name, SM count and the loaded cuBLASLt version.

        device: None (the current one), an index, "cuda", "cuda:N" or a torch.device. False without CUDA, with
        MMAEMU_DISABLE_CUDA=1 or on any probe error; creates no CUDA context.
        """
        index = cuda_index(device)
        return index is not _NOT_CUDA and _native.matches_device(to_native(self), index)


_NOT_CUDA = object()


def cuda_index(device: Any) -> Any:
    """The CUDA index that a device argument means: None for the current one, _NOT_CUDA for another device."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool)):
        return device
    kind, _, number = str(device).partition(":")
    if kind != "cuda" or (number and not number.isdecimal()):
        return _NOT_CUDA
    return int(number) if number else None


@functools.lru_cache(maxsize=256)
def to_native(profile: Profile) -> _native.Profile:
    """The C++ object of a profile."""
    fields = {f.name: getattr(profile, f.name) for f in dataclasses.fields(profile)}
    fields["preset"] = presets.to_native(presets.lookup(profile.preset))
    fields["rejects"] = [list(dataclasses.astuple(rule)) for rule in profile.rejects]
    if profile.splitk_maturity == "none":
        fields["splitk_maturity"] = None
    return _native.Profile(**fields)


@functools.cache
def _shipped() -> dict[str, Profile]:
    profiles = {}
    for native in _native.shipped_profiles():
        fields = {f.name: getattr(native, f.name) for f in dataclasses.fields(Profile)}
        fields["preset"] = native.preset.name
        fields["rejects"] = tuple(
            Rejection(**{f.name: getattr(rule, f.name) for f in dataclasses.fields(Rejection)})
            for rule in native.rejects
        )
        fields["splitk_maturity"] = native.splitk_maturity or "none"
        profiles[native.name] = Profile(**fields)
    return profiles


def get_profile(name_or_profile: str | Profile | None = None) -> Profile:
    """The shipped profile of a name; None: $MMAEMU_PROFILE or "hopper". A Profile passes through.

    KeyError with the known names for another name, TypeError for another type.
    """
    if isinstance(name_or_profile, Profile):
        return name_or_profile
    if name_or_profile is None:
        return _shipped()[_native.find_profile("").name]
    if not isinstance(name_or_profile, str):
        raise TypeError(f"profile must be a name or a Profile, not {type(name_or_profile).__name__}")
    # To C++ an empty name means the default; here it is a name, and an unknown one.
    return _shipped()[_native.find_profile(plain(name_or_profile) or '""').name]


def list_profiles() -> list[str]:
    """The names of the shipped profiles."""
    return list(_shipped())
