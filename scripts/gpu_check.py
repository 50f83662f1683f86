"""Checks mmaemu's CUDA kernels on a GPU and writes one JSON file with everything it found.

Needs the installed package and a CUDA torch; reads the recordings of this checkout. Steps, each within its share of the
budget: the gates (selftest), the recordings on every kernel, random products against the CPU engine, rates beside
torch._scaled_mm, and on compute capability 9.0 which explicit split of profile hopper torch._scaled_mm itself takes
(reported, never a failure: cuBLAS's choice belongs to the GPU).

Exit status: 0 everything passed, 1 something failed, 2 usage error, 4 there is no GPU to check (--dry-run: nothing is
computed on one).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform as host
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KERNELS = {"ada": ("tc3", "v9", "v4", "v1"), "hopper": ("h4", "h1")}
SCHEMES = {"ada": ("serial", "pairwise"), "hopper": ("contiguous",)}
# In the reason of a kernel that does not serve the formats of a product.
UNSERVED = "is unavailable: serves "
# Share of the budget that a step may use.
SHARES = {"selftest": 0.25, "recordings": 0.35, "random": 0.15, "rates": 0.15, "native": 0.1}
RATE_SIZES = ((4096, 4096, 4096), (512, 4096, 4096), (8192, 8192, 8192))


class Clock:
    """The time that a step may still use."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def up(self) -> bool:
        return time.monotonic() >= self.end


def imports() -> tuple[Any, Any, Any]:
    """torch, mmaemu and the reader of the recordings."""
    import torch

    import mmaemu

    sys.path.insert(0, str(ROOT / "tests" / "python"))
    import golden

    return torch, mmaemu, golden


# --- the device ----------------------------------------------------------------------------------------------------


class OnDevice:
    """mmaemu with the tensors of every product moved to a CUDA device, and its result brought back.

    Stands in for the package where the recordings are replayed: it counts the products that the backend served, and
    those of formats that it does not serve.
    """

    def __init__(self, torch: Any, mmaemu: Any, device: str, backend: str) -> None:
        self._torch, self._mmaemu, self._device, self._backend = torch, mmaemu, device, backend
        self.served = 0
        self.unserved = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mmaemu, name)

    def _move(self, value: Any) -> Any:
        """The tensor with its strides and its offset from an aligned address."""
        if not isinstance(value, self._torch.Tensor):
            return value
        held = value.detach()
        storage = held.untyped_storage().cuda(self._torch.device(self._device).index)
        moved = self._torch.empty(0, dtype=held.dtype, device=self._device)
        moved.set_(storage, held.storage_offset(), held.size(), held.stride())
        return moved.requires_grad_(value.requires_grad)

    def _run(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        moved = {name: self._move(value) for name, value in keywords.items()}
        moved.setdefault("backend", self._backend)
        try:
            result = function(*(self._move(value) for value in args), **moved)
        except self._mmaemu.BackendUnavailableError as problem:
            if UNSERVED not in str(problem):
                raise
            self.unserved += 1
            return function(*args, **keywords)
        self.served += 1
        out = keywords.get("out")
        if out is None:
            return result.cpu()
        return out.resize_(result.shape).copy_(result.cpu()) if out.shape != result.shape else out.copy_(result.cpu())

    def scaled_mm(self, *args: Any, **keywords: Any) -> Any:
        return self._run(self._mmaemu.scaled_mm, *args, **keywords)

    def accumulate(self, *args: Any, **keywords: Any) -> Any:
        return self._run(self._mmaemu.accumulate, *args, **keywords)


def available(mmaemu: Any, device: str) -> dict[str, list[str]]:
    """Preset -> the kernels that passed their gates on the device, by falling priority."""
    status = mmaemu.backends_status(device)
    return {
        preset: [kernel for kernel in kernels if status[f"cuda:{kernel}"].available]
        for preset, kernels in KERNELS.items()
    }


# --- the steps -----------------------------------------------------------------------------------------------------


def selftest(mmaemu: Any, device: str) -> dict[str, Any]:
    results = mmaemu.selftest(device, force=True)
    status = mmaemu.backends_status(device)
    return {
        "gates": {kernel: [dataclasses.asdict(gate) for gate in gates] for kernel, gates in results.items()},
        "status": {name: dataclasses.asdict(entry) for name, entry in status.items()},
        "failed": sorted(k for k, gates in results.items() if not all(g.passed for g in gates)),
    }


def replay(golden: Any, on_device: OnDevice, preset: str, clock: Clock) -> dict[str, Any]:
    """The recorded products of a preset's profiles on one kernel; the hardware's first."""
    wrong: list[str] = []
    cases = left = 0
    package, golden.mmaemu = golden.mmaemu, on_device
    try:
        for name, problems in recorded_products(golden, on_device, preset):
            if clock.up():
                left += 1
                continue
            cases += 1
            wrong += [f"{name}: {problem}" for problem in problems()]
    finally:
        golden.mmaemu = package
    return {
        "cases": cases,
        "left_out_for_time": left,
        "products_served": on_device.served,
        "products_of_other_formats": on_device.unserved,
        "wrong": len(wrong),
        "first_wrong": wrong[:20],
    }


def recorded_products(golden: Any, mmaemu: Any, preset: str) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    if preset == "ada":
        calls = {"gemm": golden.product, "call": golden.torch_call}
        for case in golden.cases("rtx4060/cases.jsonl"):
            if case["kind"] in calls:
                yield case["id"], lambda c=case: golden.wrong_outputs(c, calls[c["kind"]])
    for case in golden.cases("oracle/cases.jsonl"):
        if case["profile"].split("-")[0] == preset:
            yield case["id"], lambda c=case: oracle_problems(golden, mmaemu, c)


def oracle_problems(golden: Any, mmaemu: Any, case: dict[str, Any]) -> list[str]:
    def bits(name: str) -> Any:
        return golden.oracle("oracle/arrays.npz", case[name])

    a, b = (golden.tensor(bits(name), golden.OPERANDS[case[f"fmt_{name}"]]) for name in "ab")
    how = {"use_fast_accum": case["fast"], "profile": case["profile"], "splitk": golden.splitk(case["splitk"])}
    scale_result = case["scale_result_bits"]
    scales = [golden.float32(case[f"scale_{name}_bits"]) for name in "ab"]
    out_dtype = golden.dtype(case["out_dtype"])
    how_scaled = how | {"out_dtype": out_dtype}
    if scale_result is not None:
        how_scaled["scale_result"] = golden.float32(scale_result)
    found = {
        "acc": golden.difference(lambda: mmaemu.accumulate(a, b, **how), bits("acc")),
        "y": golden.difference(lambda: mmaemu.scaled_mm(a, b.t(), *scales, **how_scaled), bits("y"), out_dtype),
    }
    return [f"{name}: {problem}" for name, problem in found.items() if problem]


def random_codes(torch: Any, generator: Any, rows: int, depth: int, fmt: str, style: str) -> Any:
    """rows x depth codes: any of the finite ones, of few exponents, mostly zeros, or non-finite ones among them."""
    largest = {"e4m3": 0x7E, "e5m2": 0x7B}[fmt]
    low, high = (0x30, 0x48) if style == "narrow" else (0, largest + 1)
    codes = torch.randint(low, high, (rows, depth), generator=generator, dtype=torch.uint8)
    codes |= torch.randint(0, 2, (rows, depth), generator=generator, dtype=torch.uint8) << 7
    chance = torch.rand(rows, depth, generator=generator)
    if style == "sparse":
        codes[chance < 0.8] = 0
    if style == "non-finite":
        codes[chance < 0.001] |= 0x7C  # of e5m2 infinities too
    return codes.view({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fmt])


def differential(torch: Any, mmaemu: Any, device: str, kernels: dict[str, list[str]], seed: int, clock: Clock) -> Any:
    """Random products on every kernel against the CPU engine, until the time is up."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    counts = {kernel: 0 for names in kernels.values() for kernel in names}
    wrong = []
    while not clock.up() and any(kernels.values()):
        preset = draw.choice([name for name, names in kernels.items() if names])
        fmt_a, fmt_b = draw.choice([("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")])
        M, N, K = draw.randint(1, 400), 16 * draw.randint(1, 24), 16 * draw.randint(1, 200)
        style = draw.choice(["any", "narrow", "sparse", "non-finite"])
        S = draw.choice([1, 1, 2, 3, 5, 8])
        outs = ["float32", "bfloat16", "float16", "float8_e4m3fn"] + ["float8_e5m2"] * (fmt_a != fmt_b)
        call = {
            "profile": preset,
            "splitk": 1 if S == 1 else (S, draw.choice(SCHEMES[preset])),
            "use_fast_accum": draw.random() < 0.5,
            "out_dtype": getattr(torch, draw.choice(outs)),
        }
        a = random_codes(torch, generator, M, K, fmt_a, style)
        b = random_codes(torch, generator, N, K, fmt_b, style)
        scales = [torch.tensor(draw.choice([1.0, 0.5, 2.0**-9, 3.3e-5, -0.7])) for _ in range(2)]
        want = mmaemu.scaled_mm(a, b.t(), *scales, **call)
        on_device = [t.to(device) for t in (a, b, *scales)]
        for kernel in kernels[preset]:
            try:
                got = mmaemu.scaled_mm(
                    on_device[0], on_device[1].t(), *on_device[2:], backend=f"cuda:{kernel}", **call
                ).cpu()
            except mmaemu.BackendUnavailableError as problem:
                if UNSERVED not in str(problem):
                    raise
                continue
            counts[kernel] += 1
            view = integers[got.element_size()]
            different = int((got.view(view) != want.view(view)).sum())
            if different:
                described = {name: str(value) for name, value in call.items()}
                wrong.append(
                    {"kernel": kernel, "M": M, "N": N, "K": K, "a": fmt_a, "b": fmt_b, "codes": style}
                    | described
                    | {"different": different}
                )
    return {"seed": seed, "products": counts, "wrong": len(wrong), "first_wrong": wrong[:20]}


def seconds_per_call(torch: Any, call: Callable[[], Any], clock: Clock, least: float = 0.25) -> float:
    """The device's time for a call, in the mean over at least a quarter of a second."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    times, elapsed = 0, 0.0
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    while elapsed < least and not (times and clock.up()):
        begin.record()
        for _ in range(4):
            call()
        end.record()
        torch.cuda.synchronize()
        elapsed += begin.elapsed_time(end) / 1000
        times += 4
    return elapsed / times


def rates(torch: Any, mmaemu: Any, device: str, kernels: dict[str, list[str]], clock: Clock) -> list[dict[str, Any]]:
    """TMAC/s (10^12 products a second) of every kernel, fast and slow, beside torch._scaled_mm."""
    rows = []
    generator = torch.Generator().manual_seed(1)
    one = torch.ones((), device=device)
    for M, N, K in RATE_SIZES:
        a = random_codes(torch, generator, M, K, "e4m3", "any").to(device)
        b = random_codes(torch, generator, N, K, "e4m3", "any").to(device).t()
        for fast in (True, False):
            calls: dict[str, Callable[[], Any]] = {}
            for preset, names in kernels.items():
                for kernel in names:
                    how = {"profile": preset, "splitk": 1, "backend": f"cuda:{kernel}", "use_fast_accum": fast}
                    calls[kernel] = lambda a=a, b=b, how=how: mmaemu.scaled_mm(
                        a, b, one, one, out_dtype=torch.bfloat16, **how
                    )
            if torch.cuda.get_device_capability(device) >= (8, 9):
                calls["torch._scaled_mm"] = lambda a=a, b=b, fast=fast: torch._scaled_mm(
                    a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
                )
            for name, call in calls.items():
                if clock.up():
                    return rows
                seconds = seconds_per_call(torch, call, clock)
                rows.append(
                    {"kernel": name, "M": M, "N": N, "K": K, "fast": fast, "tmac_per_s": M * N * K / seconds / 1e12}
                )
    return rows


def native(torch: Any, mmaemu: Any, device: str, clock: Clock) -> list[dict[str, Any]]:
    """For each shape, the explicit splits of profile hopper that give the bits of torch._scaled_mm on this GPU."""
    rows = []
    generator = torch.Generator().manual_seed(2)
    one = torch.ones((), device=device)
    shapes = [(16, 16, 512), (64, 64, 4096), (128, 256, 8192), (256, 4096, 4096), (16, 1024, 16384), (1024, 1024, 1024)]
    for M, N, K in shapes:
        for fast in (True, False):
            for out_dtype in (torch.bfloat16, torch.float32):
                if clock.up():
                    return rows
                a = random_codes(torch, generator, M, K, "e4m3", "narrow").to(device)
                b = random_codes(torch, generator, N, K, "e4m3", "narrow").to(device).t()
                how = {"out_dtype": out_dtype, "use_fast_accum": fast}
                wanted = torch._scaled_mm(a, b, one, one, **how)
                integer = {2: torch.int16, 4: torch.int32}[wanted.element_size()]
                different = {}
                for S in (1, 2, 3, 4, 5, 6, 8, 12, 16, 32):
                    split = 1 if S == 1 else (S, "contiguous")
                    found = mmaemu.scaled_mm(a, b, one, one, profile="hopper", splitk=split, **how)
                    different[S] = int((found.view(integer) != wanted.view(integer)).sum())
                rows.append(
                    {"M": M, "N": N, "K": K, "fast": fast, "out_dtype": str(out_dtype).removeprefix("torch.")}
                    | {"reproduced_by": [S for S, count in different.items() if count == 0]}
                    | {"different_elements": different, "elements": M * N}
                )
    return rows


# --- the program ---------------------------------------------------------------------------------------------------


def environment(torch: Any, mmaemu: Any, device: str | None) -> dict[str, Any]:
    value = {
        "mmaemu": mmaemu.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": host.python_version(),
        "machine": host.machine(),
        "variables": {name: text for name, text in os.environ.items() if name.startswith("MMAEMU_")},
    }
    if device is not None:
        properties = torch.cuda.get_device_properties(device)
        value |= {
            "gpu": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "matching_profiles": [n for n in mmaemu.list_profiles() if mmaemu.get_profile(n).matches_device(device)],
        }
    return value


def attempt(step: Callable[..., Any], *arguments: Any) -> Any:
    """The step's result, or what it ended with: the report holds what the other steps found."""
    try:
        return step(*arguments)
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}", "traceback": traceback.format_exc()}


def check(
    torch: Any, mmaemu: Any, golden: Any, device: str, budget: float, seed: int, keep: Callable[[Any], None]
) -> dict[str, Any]:
    """The report, which `keep` gets after each step too: whoever ends the run loses one step."""
    report: dict[str, Any] = {"environment": attempt(environment, torch, mmaemu, device)}

    def clock(step: str) -> Clock:
        keep(report)
        print(f"{step} ...", file=sys.stderr, flush=True)
        return Clock(SHARES[step] * budget)

    clock("selftest")
    report["selftest"] = attempt(selftest, mmaemu, device)
    kernels = available(mmaemu, device)
    report["kernels"] = kernels
    count = sum(map(len, kernels.values()))
    clock("recordings")
    report["recordings"] = {
        kernel: attempt(
            replay,
            golden,
            OnDevice(torch, mmaemu, device, f"cuda:{kernel}"),
            preset,
            Clock(SHARES["recordings"] * budget / count),
        )
        for preset, names in kernels.items()
        for kernel in names
    }
    report["random"] = attempt(differential, torch, mmaemu, device, kernels, seed, clock("random"))
    report["rates"] = attempt(rates, torch, mmaemu, device, kernels, clock("rates"))
    if torch.cuda.get_device_capability(device) == (9, 0):
        report["native"] = attempt(native, torch, mmaemu, device, clock("native"))
    report["failures"] = failures(report)
    return report


def failures(report: dict[str, Any]) -> list[str]:
    steps = {name: report.get(name) for name in ("selftest", "random", "rates", "native")}
    steps |= {f"recordings: {kernel}": result for kernel, result in report["recordings"].items()}
    found = [f"{name}: {step['error']}" for name, step in steps.items() if isinstance(step, dict) and "error" in step]
    found += [f"selftest: {k}" for k in report["selftest"].get("failed", []) if k not in ("v9", "tc3")]
    found += [f"recordings: {kernel}" for kernel, result in report["recordings"].items() if result.get("wrong")]
    if report["random"].get("wrong"):
        found.append("random products")
    # A kernel that computed nothing, or not all, has passed nothing.
    for kernel in (kernel for names in report["kernels"].values() for kernel in names):
        replayed = report["recordings"].get(kernel, {})
        served, left = replayed.get("products_served", 0), replayed.get("left_out_for_time", 0)
        if "error" not in replayed and (not served or left):
            found.append(f"recordings: {kernel} served {served} products, {left} cases were left out for time")
        if "error" not in report["random"] and not report["random"]["products"].get(kernel):
            found.append(f"random products: none on {kernel}")
    if not any(report["kernels"].values()):
        found.append("no kernel is available")
    return found


def dry_run(mmaemu: Any, golden: Any) -> dict[str, Any]:
    """What would be done, and that the recordings can be read."""
    products = {preset: sum(1 for _ in recorded_products(golden, mmaemu, preset)) for preset in KERNELS}
    return {"steps": SHARES, "kernels": KERNELS, "recorded_products": products, "rate_sizes": RATE_SIZES}


def as_text(report: Any) -> str:
    return json.dumps(report, indent=1, default=str) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", type=int, default=0, metavar="N", help="CUDA device index (0)")
    parser.add_argument("--json", default="gpu-check.json", metavar="PATH", help="where the report goes; - for stdout")
    parser.add_argument("--budget", type=float, default=200, metavar="SECONDS", help="for all steps together (200)")
    parser.add_argument("--seed", type=int, default=None, help="of the random products; default: a fresh one")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done; touch no GPU")
    args = parser.parse_args(argv)
    try:
        torch, mmaemu, golden = imports()
    except ImportError as problem:
        print(f"gpu-check: {problem}; it needs torch, numpy and mmaemu (pip install .)", file=sys.stderr)
        return 4
    for category in (mmaemu.UnverifiedSplitWarning, mmaemu.BackendFallbackWarning, UserWarning):
        warnings.simplefilter("ignore", category)

    def keep(report: Any) -> None:
        if args.json != "-":
            Path(args.json).write_text(as_text(report), encoding="utf-8")

    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    if args.dry_run:
        report = {"environment": environment(torch, mmaemu, None), "plan": dry_run(mmaemu, golden)}
    elif not torch.cuda.is_available() or args.device >= torch.cuda.device_count():
        print(
            f"gpu-check: torch {torch.__version__} sees no CUDA device {args.device}; nothing was checked",
            file=sys.stderr,
        )
        return 4
    else:
        torch.cuda.set_device(args.device)  # whose events time the rates
        report = check(torch, mmaemu, golden, f"cuda:{args.device}", args.budget, seed, keep)
    if args.json == "-":
        sys.stdout.write(as_text(report))
    else:
        keep(report)
        print(f"gpu-check: report in {args.json}", file=sys.stderr)
    if args.dry_run:
        return 4
    for failure in report["failures"]:
        print(f"gpu-check: FAILED {failure}", file=sys.stderr)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
