#!/usr/bin/env python3
"""Draws the figures of the documentation with the library itself: python docs/figures/draw.py [FOLDER].

Needs mmaemu, numpy, ml_dtypes, torch and matplotlib, and a checkout: the recordings lie in tests/data/golden.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import ml_dtypes
import numpy as np
import torch
from matplotlib.colors import ListedColormap

import mmaemu

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parents[1] / "tests" / "data" / "golden" / "rtx4060"
E4M3 = ml_dtypes.float8_e4m3fn
HOPPER, ADA = "#00897b", "#d1495b"  # legible on white and on black
ULPS = ListedColormap([HOPPER, "#e9a23b", "#e76f51", "#b5179e"])
INK = "#808081"  # becomes the colour of the page's text
FRACTION_BITS = 13

plt.rcParams |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "mmaemu",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}


def save(figure: Any, folder: Path, name: str) -> None:
    path = folder / f"{name}.svg"
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    path.write_text(path.read_text().replace(INK, "currentColor"))


def block(folder: Path) -> None:
    """How the products of one block are aligned to the largest exponent and cut."""
    a = np.array([[96.0, -1.25, 7.5, 0.21875, 0.013671875]]).astype(E4M3)
    b = np.array([[15.0, 0.9375, 0.08203125, -0.3125, 0.05078125]]).astype(E4M3)
    products = a.astype(float)[0] * b.astype(float)[0]
    largest = max(
        int(np.floor(np.log2(abs(x)))) + int(np.floor(np.log2(abs(y))))
        for x, y in zip(a.astype(float)[0], b.astype(float)[0], strict=True)
    )
    quantum = 2.0 ** (largest - FRACTION_BITS)
    kept = [float(np.trunc(p / quantum) * quantum) for p in products]
    result = float(mmaemu.model.dot(a, b, preset="hopper")[0])
    assert result == sum(kept), "the drawing shows what the library computes"

    lowest = largest - FRACTION_BITS - 10
    figure, axes = plt.subplots(figsize=(9.5, 3.9), layout="constrained")
    axes.axvspan(largest - FRACTION_BITS - 0.5, lowest - 0.5, color=ADA, alpha=0.12, linewidth=0)
    rows = [*zip(products, kept, strict=True), (result, result)]
    for row, (value, cut) in enumerate(rows):
        y = len(rows) - row - (0 if row < len(products) else 0.35)
        for weight in range(largest + 1, lowest - 1, -1):
            bit = int(abs(value) * 2.0**-weight) & 1
            lost = weight < largest - FRACTION_BITS
            first = int(np.floor(np.log2(abs(value))))
            if weight > max(first, -99) or (lost and not bit and weight < first - 12):
                continue
            color = ADA if lost and bit else HOPPER if bit else INK
            axes.text(weight, y, str(bit), ha="center", va="center", color=color, family="monospace", fontsize=11)
        sign = "-" if value < 0 else "+"
        axes.text(largest + 2, y, sign, ha="center", va="center", family="monospace", fontsize=11)
        label = f"{float(a[0, row])} x {float(b[0, row])}" if row < len(products) else "sum"
        axes.text(largest + 2.8, y, label, ha="right", va="center", fontsize=9)
        axes.text(lowest - 1.2, y, f"{cut:.10g}", ha="left", va="center", fontsize=9)
    axes.text(lowest - 1.2, len(rows) + 1, "kept", ha="left", va="center", fontsize=9)
    axes.text(lowest - 1.2, 0.2, f"exact: {sum(products):.8g}", ha="left", va="center", fontsize=9, alpha=0.7)
    axes.axhline(1.32, xmin=0.02, xmax=0.98, color=INK, linewidth=0.8)
    ticks = [largest, largest - 5, largest - 10, largest - FRACTION_BITS]
    for weight in ticks:
        axes.text(weight, len(rows) + 1, f"$2^{{{weight}}}$", ha="center", va="center", fontsize=9)
    middle = (largest - FRACTION_BITS + lowest) / 2 - 0.5
    axes.text(middle, len(rows) + 1, "cut toward zero", ha="center", va="center", fontsize=9, color=ADA)
    axes.set_xlim(largest + 11, lowest - 7)
    axes.set_ylim(-0.1, len(rows) + 1.5)
    axes.axis("off")
    save(figure, folder, "block")


def projections() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Case id, recorded bits of an RTX 4060, bits of profile hopper: bfloat16 results [32, 128]."""
    arrays = np.load(RECORDINGS / "evo2.npz")
    found = []
    for case in map(json.loads, (RECORDINGS / "cases.jsonl").read_text().splitlines()):
        if not case["id"].startswith("evo2."):
            continue
        x, w = (torch.from_numpy(arrays[case[name][1]]).view(torch.float8_e4m3fn) for name in "ab")
        output = next(o for o in case["outputs"] if o["api"] == "scaled_mm" and o["out_dtype"] == "bfloat16")
        scales = [
            torch.from_numpy(np.array([output[f"scale_{name}_bits"]], np.uint32).view(np.float32)) for name in "ab"
        ]
        y = mmaemu.scaled_mm(x, w.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=True, splitk=1)
        recorded = arrays[output["expect"]["bits"][1]].view(np.int16)
        found.append((case["id"], recorded.reshape(y.shape), y.view(torch.int16).numpy()))
    return found


def platforms(folder: Path) -> None:
    """Where an H100 PCIe returns other bits than an RTX 4060 on parts of three projections of Evo 2 1B."""
    cases = projections()
    figure, panels = plt.subplots(len(cases), 1, figsize=(9.5, 8.2), layout="constrained", sharex=True)
    for number, (axes, (_, rtx4060, h100)) in enumerate(zip(panels, cases, strict=True)):
        distance = np.abs(h100.astype(int) - rtx4060.astype(int))
        shown = np.ma.masked_equal(np.minimum(distance, 4), 0)
        image = axes.imshow(shown, cmap=ULPS, vmin=0.5, vmax=4.5, aspect="auto", interpolation="nearest")
        differing = np.count_nonzero(distance)
        call = (1, 11, 21)[number]
        axes.set_title(f"FP8 call {call}: {differing} of {distance.size} outputs differ", fontsize=10, loc="left")
        axes.set_ylabel("token")
        axes.spines[["top", "right"]].set_visible(True)
    panels[-1].set_xlabel("output")
    bar = figure.colorbar(image, ax=panels, ticks=[1, 2, 3, 4], shrink=0.5, aspect=30)
    bar.ax.set_yticklabels(["1 ulp", "2", "3", "4 or more"])
    bar.outline.set_edgecolor(INK)
    save(figure, folder, "platforms")


def relative_errors(K: int, profile: str, fast: bool, positive: bool) -> np.ndarray:
    """|accumulator - exact| over the root of the sum of squared products, for 32 x 32 outputs."""
    random = np.random.default_rng(K)
    x, w = (random.standard_normal((32, K)) for _ in range(2))
    if positive:
        x, w = abs(x), abs(w)
    x, w = x.astype(E4M3), w.astype(E4M3)
    computed = mmaemu.accumulate(x, w, use_fast_accum=fast, profile=profile, splitk=1).astype(float)
    x, w = x.astype(float), w.astype(float)
    return np.abs(computed - x @ w.T) / np.sqrt((x**2) @ (w**2).T)


def error_by_k(folder: Path) -> None:
    """The error of each platform and accumulation as K grows."""
    sizes = 2 ** np.arange(5, 16)
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", sharey=True)
    for axes, positive in zip(panels, (False, True), strict=True):
        for fast in (True, False):
            for profile, color, name in (("hopper", HOPPER, "H100 PCIe"), ("ada", ADA, "RTX 4060")):
                errors = [np.median(relative_errors(int(K), profile, fast, positive)) for K in sizes]
                style = "-" if fast else "--"
                axes.plot(sizes, errors, style, color=color, label=f"{name}, {'fast' if fast else 'slow'}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("K")
        axes.set_title("positive products" if positive else "products of both signs", fontsize=10)
    panels[0].set_ylabel("median error / root of the sum of squares")
    panels[0].legend()
    save(figure, folder, "error_by_k")


def fast_slow(folder: Path) -> None:
    """One positive sum over K, and the signed errors of many sums, fast against slow."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    random = np.random.default_rng(1)
    x, w = (abs(random.standard_normal((1, 16384))).astype(E4M3) for _ in range(2))
    exact = np.cumsum(x.astype(float)[0] * w.astype(float)[0])
    sizes = np.arange(256, 16385, 256)
    for fast, color in ((True, ADA), (False, HOPPER)):
        sums = [mmaemu.accumulate(x[:, :K], w[:, :K], use_fast_accum=fast, splitk=1)[0, 0] for K in sizes]
        error = 100 * (np.array(sums, float) / exact[sizes - 1] - 1)
        left.plot(sizes, error, color=color, label="fast" if fast else "slow")
    left.axhline(0, color=INK, linewidth=0.8)
    left.set_xlabel("elements summed so far")
    left.set_ylabel("error of the sum, %")
    left.legend(loc="lower left")
    a, b = (random.standard_normal((96, 4096)).astype(E4M3) for _ in range(2))
    products = a.astype(float) @ b.astype(float).T
    bins = np.linspace(-0.15, 0.15, 61)
    for fast, color in ((True, ADA), (False, HOPPER)):
        error = mmaemu.accumulate(a, b, use_fast_accum=fast, splitk=1).astype(float) - products
        right.hist(error.ravel(), bins, color=color, alpha=0.6, label="fast" if fast else "slow")
    right.set_xlabel(f"error of {products.size:,} sums of both signs, K = 4096")
    right.set_yticks([])
    right.spines["left"].set_visible(False)
    save(figure, folder, "fast_slow")


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (block, platforms, error_by_k, fast_slow):
        draw(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
