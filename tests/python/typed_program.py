"""A user's program for type checkers: mypy --strict accepts it as it stands, and nothing runs it."""

import torch

import mmaemu

x: torch.Tensor = torch.empty(16, 1920).to(torch.float8_e4m3fn)
one: torch.Tensor = torch.ones(1)
y: torch.Tensor = mmaemu.scaled_mm(
    x, x.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True, splitk=(2, "serial")
)
plan: mmaemu.CallPlan = mmaemu.explain(x, x.t(), one, one)
decision: mmaemu.SplitDecision | None = plan.split
profile: mmaemu.Profile = mmaemu.get_profile("ada")
preset: mmaemu.Preset = mmaemu.get_preset("hopper")
names: list[str] = mmaemu.list_profiles()
weight: mmaemu.PackedWeight = mmaemu.pack(x)
version: str = mmaemu.__version__
with mmaemu.emulate("ada", unsupported="native") as log:
    table: str = str(log.summary())
report: mmaemu.AuditReport = mmaemu.audit("folder", profile=profile, workers=2)
status: int = report.exit_code
mmaemu.scaled_mm(x, x.t(), one, one, use_fast_acum=True)  # type: ignore[call-arg]  # names are checked
mmaemu.get_profile(3)  # type: ignore[arg-type]
