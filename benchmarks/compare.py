#!/usr/bin/env python3
"""Times mmaemu, the fp32 matrix product of torch and, where its interpreter is given, mmaemu 0.1.0, in one run.

Rates are GMAC/s, each the best of several alternating runs on warm code; all use the same number of threads. Prints a
Markdown table; --json and --plot write the same figures to files.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import mmaemu

FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@dataclasses.dataclass(frozen=True)
class Case:
    """A product [M, K] x [K, N], and the model's projection it belongs to."""

    of: str
    M: int
    N: int
    K: int
    profile: str = "hopper"
    fast: bool = True
    b: str = "e4m3"
    splitk: Any = 1
    packed: bool = False

    @property
    def macs(self) -> int:
        return self.M * self.N * self.K

    def __str__(self) -> str:
        text = f"{self.M} x {self.N} x {self.K} {self.profile} {'fast' if self.fast else 'slow'}"
        if self.b != "e4m3":
            text += f" e4m3 x {self.b}"
        if self.splitk != 1:
            text += f" split {self.splitk[0]} {self.splitk[1]}"
        return text + (", weight packed before" if self.packed else "")


CORE = [
    Case("Evo 2 1B qkv", 2048, 5760, 1920),
    Case("Evo 2 1B qkv", 64, 5760, 1920),
    Case("Evo 2 1B qkv", 1, 5760, 1920),
    Case("Evo 2 1B qkv", 1, 5760, 1920, packed=True),
    Case("Evo 2 1B qkv", 2048, 5760, 1920, profile="ada"),
    Case("Evo 2 1B qkv", 2048, 5760, 1920, fast=False),
    Case("Evo 2 7B out", 1024, 4096, 4096, b="e5m2"),
    Case("8192 to 2048", 256, 2048, 8192, splitk=(4, "contiguous")),
]
PROJECTIONS = [
    ("Evo 2 1B out", 1920, 1920),
    ("Evo 2 7B qkv", 12288, 4096),
    ("Llama 3 8B qkv", 6144, 4096),
    ("Llama 3 8B up", 14336, 4096),
    ("Llama 3 8B down", 4096, 14336),
    ("Llama 3 70B qkv", 10240, 8192),
    ("Llama 3 70B down", 8192, 28672),
]
ROWS = [1, 2, 4, 8, 16, 64, 256]
DECODE_ROWS = ROWS[:4]  # sizes at which a weight that was packed before matters
FULL = [
    *CORE,
    *(Case(of, M, N, K) for of, N, K in PROJECTIONS for M in ROWS),
    *(Case(of, M, N, K, packed=True) for of, N, K in PROJECTIONS for M in DECODE_ROWS),
    Case("Evo 2 1B qkv", 4096, 5760, 1920),
    Case("Evo 2 1B qkv", 4096, 5760, 1920, profile="ada", fast=False),
    Case("Llama 3 8B qkv", 1024, 6144, 4096),
]

PUBLISHED = """
import sys, time, torch, mmaemu
torch.set_num_threads(int(sys.argv[1]))
g = torch.Generator().manual_seed(0)
x = torch.randn(64, 1920, generator=g).to(torch.float8_e4m3fn)
w = torch.randn(1920, 1920, generator=g).to(torch.float8_e4m3fn)
one = torch.ones(1)
best = float("inf")
for _ in range(4):
    begin = time.perf_counter()
    mmaemu.scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True, profile="hopper", splitk=1)
    best = min(best, time.perf_counter() - begin)
print(64 * 1920 * 1920 / best / 1e9)
"""


def operand(rows: int, depth: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(rows, depth, generator=torch.Generator().manual_seed(seed)).to(dtype)


def seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def measure(case: Case, budget: float) -> dict[str, Any]:
    x = operand(case.M, case.K, FORMATS["e4m3"], 0)
    w = operand(case.N, case.K, FORMATS[case.b], 1)
    x32, w32 = x.float(), w.float()
    one = torch.ones(1)
    weight = mmaemu.pack(w) if case.packed else w.t()

    def ours() -> None:
        mmaemu.scaled_mm(
            x,
            weight,
            one,
            one,
            out_dtype=torch.bfloat16,
            use_fast_accum=case.fast,
            profile=case.profile,
            splitk=case.splitk,
        )

    def fp32() -> None:
        torch.matmul(x32, w32.t())

    ours()
    fp32()
    best = {"mmaemu": float("inf"), "torch fp32": float("inf")}
    begin = time.perf_counter()
    runs = 0
    while runs < 3 or (runs < 50 and time.perf_counter() - begin < budget):
        best["mmaemu"] = min(best["mmaemu"], seconds(ours))
        best["torch fp32"] = min(best["torch fp32"], seconds(fp32))
        runs += 1
    rates = {name: case.macs / value / 1e9 for name, value in best.items()}
    return {"case": dataclasses.asdict(case), "name": str(case), "runs": runs, "GMAC/s": rates}


def published_rate(interpreter: Path, threads: int) -> float:
    """mmaemu 0.1.0 on 64 x 1920 x 1920, profile hopper, fast accumulation, in its own virtual environment."""
    done = subprocess.run([interpreter, "-c", PUBLISHED, str(threads)], capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        raise SystemExit(f"{interpreter} could not time mmaemu 0.1.0:\n{done.stderr}")
    return float(done.stdout)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def row(result: dict[str, Any], published: float | None) -> str:
    ours, fp32 = result["GMAC/s"]["mmaemu"], result["GMAC/s"]["torch fp32"]
    against = f"{ours / published:.0f} x" if published else "-"
    return f"| {result['case']['of']} | {result['name']} | {ours:.2f} | {fp32:.2f} | {ours / fp32:.2f} | {against} |"


def plot(results: list[dict[str, Any]], path: str) -> None:
    """Two panels over M: the weight as it is, and packed before. Lines join usual products of the same N and K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    usual: dict[tuple[bool, str], dict[int, float]] = {}
    others: list[tuple[str, int, float]] = []
    for result in results:
        case = result["case"]
        ratio = result["GMAC/s"]["mmaemu"] / result["GMAC/s"]["torch fp32"]
        if (case["profile"], case["fast"], case["b"], case["splitk"]) == ("hopper", True, "e4m3", 1):
            label = f"{case['of']}, {case['N']} x {case['K']}"
            usual.setdefault((case["packed"], label), {})[case["M"]] = ratio
        else:
            others.append((result["name"], case["M"], ratio))
    colors = dict(zip(dict.fromkeys(label for _, label in usual), plt.get_cmap("tab10").colors, strict=False))
    figure, panels = plt.subplots(1, 2, figsize=(12, 6.5), sharey=True, layout="constrained")
    for packed, axes in enumerate(panels):
        for (of_packed, label), ratios in usual.items():
            if of_packed == bool(packed):
                sizes = sorted(ratios)
                axes.plot(sizes, [ratios[M] for M in sizes], "o-", markersize=4, label=label, color=colors[label])
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_title("weight packed before" if packed else "weight as it is")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("M, rows of activations")
        axes.grid(alpha=0.3)
    for marker, (name, M, ratio) in zip("sDv^P*X", others, strict=False):
        panels[0].plot([M], [ratio], marker, color="black", markersize=6, linestyle="none", label=name)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("rate as a multiple of torch's fp32 product of the same shape")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--published", type=Path, metavar="PYTHON", help="interpreter with mmaemu 0.1.0")
    parser.add_argument("--full", action="store_true", help="all projections and sizes, not only the main ones")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for a shape, at least three runs")
    parser.add_argument("--json", metavar="PATH")
    parser.add_argument("--plot", metavar="PNG")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    machine = f"{processor()}, {arguments.threads} threads, torch {torch.__version__}, mmaemu {mmaemu.__version__}"
    published = published_rate(arguments.published, arguments.threads) if arguments.published else None
    print(f"{machine}\n")
    if published:
        print(f"mmaemu 0.1.0, 64 x 1920 x 1920 hopper fast: {published:.3f} GMAC/s\n")
    print("| projection | product | mmaemu GMAC/s | torch fp32 GMAC/s | of torch fp32 | of mmaemu 0.1.0 |")
    print("|---|---|---|---|---|---|")
    results = []
    for case in FULL if arguments.full else CORE:
        results.append(measure(case, arguments.budget))
        print(row(results[-1], published), flush=True)
    if arguments.json:
        report = {"machine": machine, "published GMAC/s": published, "results": results}
        Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    if arguments.plot:
        plot(results, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
