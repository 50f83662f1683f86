"""The exact bits that an NVIDIA H100 PCIe or RTX 4060 returns for an FP8 matrix product.

Every public name is importable from here. Importing the package imports neither torch nor numpy and touches no
device; a name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "accumulate": "gemm",
    "scaled_mm": "gemm",
    "explain": "plan",
    "CallPlan": "plan",
    "Preset": "presets",
    "get_preset": "presets",
    "list_presets": "presets",
    "Profile": "platforms",
    "Rejection": "platforms",
    "get_profile": "platforms",
    "list_profiles": "platforms",
    "SplitK": "splitk",
    "SplitDecision": "splitk",
    "resolve_splitk": "splitk",
    "BackendStatus": "backends",
    "GateResult": "backends",
    "backends_status": "backends",
    "selftest": "backends",
    "MmaemuError": "errors",
    "ReferenceRejectsError": "errors",
    "UnsupportedFeatureError": "errors",
    "SplitKUnknownError": "errors",
    "BackendUnavailableError": "errors",
    "ExperimentalPresetWarning": "errors",
    "UnverifiedSplitWarning": "errors",
    "UnvalidatedEnvelopeWarning": "errors",
    "BackendFallbackWarning": "errors",
    "NativeCallWarning": "errors",
    "RecordingError": "errors",
    "RecordingWarning": "errors",
    "emulate": "emulation",
    "PackedWeight": "weights",
    "pack": "weights",
    "record": "recording",
    "audit": "auditing",
    "AuditReport": "auditing",
}
_MODULES = ("errors", "model", "testing")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name == "__version__":
        value = importlib.import_module(f"{__name__}._native").version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from . import errors as errors
    from . import model as model
    from . import testing as testing
    from .auditing import AuditReport as AuditReport
    from .auditing import audit as audit
    from .backends import BackendStatus as BackendStatus
    from .backends import GateResult as GateResult
    from .backends import backends_status as backends_status
    from .backends import selftest as selftest
    from .emulation import emulate as emulate
    from .errors import BackendFallbackWarning as BackendFallbackWarning
    from .errors import BackendUnavailableError as BackendUnavailableError
    from .errors import ExperimentalPresetWarning as ExperimentalPresetWarning
    from .errors import MmaemuError as MmaemuError
    from .errors import NativeCallWarning as NativeCallWarning
    from .errors import RecordingError as RecordingError
    from .errors import RecordingWarning as RecordingWarning
    from .errors import ReferenceRejectsError as ReferenceRejectsError
    from .errors import SplitKUnknownError as SplitKUnknownError
    from .errors import UnsupportedFeatureError as UnsupportedFeatureError
    from .errors import UnvalidatedEnvelopeWarning as UnvalidatedEnvelopeWarning
    from .errors import UnverifiedSplitWarning as UnverifiedSplitWarning
    from .gemm import accumulate as accumulate
    from .gemm import scaled_mm as scaled_mm
    from .plan import CallPlan as CallPlan
    from .plan import explain as explain
    from .platforms import Profile as Profile
    from .platforms import Rejection as Rejection
    from .platforms import get_profile as get_profile
    from .platforms import list_profiles as list_profiles
    from .presets import Preset as Preset
    from .presets import get_preset as get_preset
    from .presets import list_presets as list_presets
    from .recording import record as record
    from .splitk import SplitDecision as SplitDecision
    from .splitk import SplitK as SplitK
    from .splitk import resolve_splitk as resolve_splitk
    from .weights import PackedWeight as PackedWeight
    from .weights import pack as pack

    __version__: str
