"""Keeps torch.compile from tracing into the entry points."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """torch.compiler.disable, applied when torch.compile is first in use: it costs a second to import."""
    disabled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def entry(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo.eval_frame" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            import torch

            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **kwargs)

    entry._torchdynamo_disable = True  # type: ignore[attr-defined]  # the mark of torch.compiler.disable
    return cast(F, entry)
