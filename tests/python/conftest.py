"""What all tests share: each starts as a fresh process would, and Hypothesis draws a fresh seed in every run.

HYPOTHESIS_PROFILE is "short" (the default) or "long" (hours of a soak). The seed, which is printed, alone decides the
examples, so it is all that a rerun needs.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from mmaemu import _emit

# Derived data are slow to draw and the referee is slow by design; neither says anything about the product.
_COMMON = {
    "database": None,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,  # fresh_process: examples of one test need no separation
    ],
}
settings.register_profile("short", max_examples=300, **_COMMON)
settings.register_profile("long", max_examples=20000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's own plugin reads the option
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    profile = settings.get_current_profile_name()
    terminalreporter.write_line(
        f"hypothesis: profile {profile}; the same examples again: --hypothesis-seed={config.option.hypothesis_seed}"
    )


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No MMAEMU_ variable set, no warning yet given."""
    for variable in [name for name in os.environ if name.startswith("MMAEMU_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(_emit, "_seen", set())
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
