"""The errors that mmaemu raises and the warnings that it emits."""

from __future__ import annotations


class MmaemuError(Exception):
    """Base of every mmaemu error. Itself raised when the CPU flushes subnormal numbers to zero."""


class ReferenceRejectsError(MmaemuError, RuntimeError):
    """torch 2.7.1 or the profile's cuBLAS rejects the call."""


class UnsupportedFeatureError(MmaemuError, NotImplementedError):
    """Bias, row-wise scales, grad mode, or a feature of a preset that no recording characterises."""


class SplitKUnknownError(MmaemuError, LookupError):
    """splitk="auto" cannot decide."""


class BackendUnavailableError(MmaemuError, RuntimeError):
    """An explicitly requested backend cannot serve the call."""


class RecordingError(MmaemuError):
    """A recording cannot be written or read; the message names the file and the way out."""


class ExperimentalPresetWarning(UserWarning):
    """An experimental or custom preset or profile is used."""


class UnverifiedSplitWarning(UserWarning):
    """A split decision was not replayed on hardware."""


class UnvalidatedEnvelopeWarning(UnverifiedSplitWarning):
    """S = 1 was inferred by an envelope that failed its held-out test."""


class BackendFallbackWarning(RuntimeWarning):
    """Another backend than the preferred one runs; the message says which and why."""


class NativeCallWarning(UserWarning):
    """A call under emulate(unsupported="native") ran as it is; the message says why."""


class RecordingWarning(UserWarning):
    """A call is left out of a recording; the message says why."""


for _class in list(vars().values()):
    if isinstance(_class, type):
        _class.__module__ = "mmaemu"
del _class
