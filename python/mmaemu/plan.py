"""What a call would do, without doing it."""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from . import _native, contract, platforms
from ._compile import untraced
from .errors import MmaemuError
from .platforms import Profile
from .splitk import SplitDecision, to_decision


@dataclasses.dataclass(frozen=True)
class CallPlan:
    """What a scaled_mm call would do.

    validation: "ok", or (error class name, message) where the call would raise. profile, preset,
    preset_maturity: the platform and instruction model. split: the SplitDecision, None where none is taken.
    backend: what would run. fallbacks: why each backend tried before it does not serve the call. warnings: what
    the call would emit.
    """

    validation: str | tuple[str, str] = "ok"
    profile: str = ""
    preset: str = ""
    preset_maturity: str = ""
    split: SplitDecision | None = None
    backend: str = ""
    fallbacks: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def _rows(self) -> list[tuple[str, str]]:
        validation = self.validation if isinstance(self.validation, str) else ": ".join(self.validation)
        preset = f"{self.preset} ({self.preset_maturity})" if self.preset else ""
        rows = [("validation", validation), ("profile", self.profile), ("preset", preset)]
        if self.split is not None:
            split = f"S = {self.split.S}"
            if self.split.scheme != "none":
                split += f", {self.split.scheme}"
            verified = "verified" if self.split.verified else "not verified"
            rows.append(("split", f"{split} (from {self.split.source}, {verified}; {self.split.note})"))
        rows.append(("backend", self.backend))
        rows += [("fallback", reason) for reason in self.fallbacks]
        rows += [("warning", message) for message in self.warnings]
        return [(label, text) for label, text in rows if text]

    def __str__(self) -> str:
        return "\n".join(f"{label:<11} {text}" for label, text in self._rows())

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{label}</th><td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self._rows()
        )
        return f"<table>{cells}</table>"


def refused(error: Exception, profile: Any) -> CallPlan:
    """The CallPlan of a call that raises `error`; its platform is left out where `profile` names none."""
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    validation = (type(error).__name__, message)
    try:
        return _on_platform(platforms.get_profile(profile), validation)
    except (KeyError, TypeError):
        return CallPlan(validation)


def _on_platform(profile: Profile, validation: str | tuple[str, str]) -> CallPlan:
    preset = platforms.to_native(profile).preset
    return CallPlan(validation, profile.name, preset.name, preset.maturity)


def summarize(native: _native.CallPlan, profile: Profile) -> CallPlan:
    """The CallPlan of a native plan."""
    if native.error:
        return _on_platform(profile, native.error)
    return dataclasses.replace(
        _on_platform(profile, "ok"),
        split=None if native.split is None else to_decision(native.split),
        backend=native.backend,
        fallbacks=list(native.fallbacks),
        warnings=[w.message for w in native.warnings],
    )


def from_json(value: dict[str, Any]) -> CallPlan:
    """The CallPlan that the command line's JSON describes."""
    split, validation = value["split"], value["validation"]
    return CallPlan(
        **value
        | {
            "split": None if split is None else SplitDecision(**split),
            "validation": validation if isinstance(validation, str) else tuple(validation),
        }
    )


@untraced
def explain(
    input: Any,
    mat2: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
    *,
    out: Any = None,
    profile: str | Profile | None = None,
    splitk: Any = "auto",
    backend: str = "auto",
) -> CallPlan:
    """Validates a scaled_mm call and reports what it would do, without computing it.

    Takes scaled_mm's arguments. Never raises for an invalid call: CallPlan.validation holds the error.
    """
    try:
        call = contract.Call(
            input,
            mat2,
            scale_a,
            scale_b,
            bias,
            scale_result,
            out_dtype,
            use_fast_accum,
            out,
            profile,
            splitk,
            backend,
        )
        native = call.plan()
        plan = summarize(native, call.profile)
        if plan.validation == "ok":
            call.check_runnable(native)
    except (MmaemuError, TypeError, ValueError, KeyError) as error:
        return refused(error, profile)
    return plan
