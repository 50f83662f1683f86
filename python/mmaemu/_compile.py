"""Keeps torch.compile from tracing into the entry points."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """torch.compiler.disable, applied when torch.compile is first in use: it costs a second to import."""
    disabled: Callable[..., Any] | None = None

    @functools.wraps(function)
    def entry(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if "torch._dynamo.eval_frame" not in sys.modules:
            return function(*args, **kwargs)
        if disabled is None:
            import torch

            # The mark below keeps callers from inlining this function; its own frame would still be compiled, anew
            # for each combination of arguments.
            torch._dynamo.decorators.skip(entry)
            disabled = torch.compiler.disable(function)
        return disabled(*args, **kwargs)

    entry._torchdynamo_disable = True  # type: ignore[attr-defined]  # the mark of torch.compiler.disable
    return cast(F, entry)
