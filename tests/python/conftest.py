"""How much Hypothesis tries: HYPOTHESIS_PROFILE is "short" (every run, the default) or "long" (hours of a soak).

Every run draws a fresh seed and prints it. The seed alone decides the examples, so it is all that a rerun needs.
"""

import os
import secrets

import pytest
from hypothesis import HealthCheck, settings

# Derived data are slow to draw and the referee is slow by design; neither says anything about the product.
_COMMON = {
    "database": None,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
}
settings.register_profile("short", max_examples=400, **_COMMON)
settings.register_profile("long", max_examples=20000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's own plugin reads the option
def pytest_configure(config):
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_terminal_summary(terminalreporter, config):
    profile = settings.get_current_profile_name()
    terminalreporter.write_line(
        f"hypothesis: profile {profile}; the same examples again: --hypothesis-seed={config.option.hypothesis_seed}"
    )
