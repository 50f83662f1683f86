#!/usr/bin/env python3
"""Draws the figures of the documentation with mmaemu itself: `draw.py` writes the SVG files beside it and
`draw.py --check` fails where one of them is out of date.

Lines and letters take the colour of the page (currentColor), so that a figure serves in light and in dark. Run from a
checkout with mmaemu, numpy, ml_dtypes and matplotlib installed; the operands of the projections lie in
tests/data/golden.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import ml_dtypes
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import mmaemu

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parents[1] / "tests" / "data" / "golden" / "rtx4060"
E4M3 = ml_dtypes.float8_e4m3fn

INK = "#010203"  # becomes currentColor
FAINT = "#9aa0a6"
MINUS = "\N{MINUS SIGN}"
H100, RTX4060, OTHER, SUM = "#1f9e89", "#e2711d", "#8a63d2", "#5b6b7d"  # each reads on white and on near-black
STYLE = {
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


# --- one block -------------------------------------------------------------------------------------------------


def block() -> Figure:
    """Six products and the accumulator, bit by bit: what is kept at 2^(E - 13), what is dropped, and the sum."""
    pairs = [(15.0, 15.0), (1.625, 1.875), (-1.125, 0.05078125), (0.21875, 0.6875), (0.0859375, 0.03125), (0, 7.5)]
    c = np.float32(19.0 + 2.0**-5 + 2.0**-7 + 2.0**-8)
    a, b = (np.array([[pair[i] for pair in pairs]]).astype(E4M3) for i in (0, 1))
    preset = mmaemu.get_preset("hopper")
    exponents = [_exponent(x) + _exponent(y) for x, y in zip(a[0], b[0], strict=True) if x and y]
    largest = max([*exponents, math.floor(math.log2(abs(c)))])
    last = largest - preset.frac
    exact = [float(x) * float(y) for x, y in zip(a[0], b[0], strict=True)] + [float(c)]
    kept = [math.trunc(value * 2.0**-last) * 2.0**last for value in exact]
    total = sum(kept)
    unit = 2.0 ** (math.floor(math.log2(abs(total))) - preset.frac_out)
    result = math.trunc(total / unit) * unit
    assert np.float32(result) == mmaemu.model.dot(a, b, np.array([c]), preset=preset)[0]

    names = [f"{float(x):.8g} · {float(y):.8g}".replace("-", MINUS) for x, y in zip(a[0], b[0], strict=True)] + [
        f"c = {float(c):.8g}"
    ]
    first, lowest = largest + 1, last - 6
    figure = Figure(figsize=(9.6, 4.5))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-7.4, first - lowest + 7.6)
    axes.set_ylim(len(names) + 3.6, -2.3)
    axes.axis("off")
    edge = first - last + 1.0

    for place in range(first, lowest - 1, -1):
        x = first - place + 0.5
        if place in (first, largest, 0, last, lowest) or place % 4 == 0:
            axes.text(x, -0.35, f"$2^{{{place}}}$", ha="center", va="bottom", fontsize=8.5)
    for row, (name, value) in enumerate(zip(names, exact, strict=True)):
        axes.text(-0.4, row + 0.5, name, ha="right", va="center", fontsize=9.5)
        _cells(axes, row, value, first, lowest, last, OTHER if row == len(names) - 1 else H100)
        dropped = value - kept[row]
        note = (
            "zero: has no exponent"
            if value == 0
            else f"drops {dropped:.4f}".replace("-", MINUS)
            if dropped
            else "kept whole"
        )
        axes.text(first - lowest + 1.4, row + 0.5, note, ha="left", va="center", fontsize=8.5)
    row = len(names) + 0.7
    axes.plot((-6.9, first - lowest + 1), (row - 0.3,) * 2, color=INK, linewidth=0.8)
    axes.text(-0.4, row + 0.5, "sum of what is kept", ha="right", va="center", fontsize=9.5)
    _cells(axes, row, total, first, lowest, last, SUM)
    axes.text(-0.4, row + 1.7, "result, 13 fraction bits", ha="right", va="center", fontsize=9.5)
    _cells(axes, row + 1.2, result, first, lowest, math.floor(math.log2(abs(result))) - preset.frac_out, SUM)
    axes.text(first - lowest + 1.4, row + 0.5, f"{total:.9g}", ha="left", va="center", fontsize=8.5)
    axes.text(first - lowest + 1.4, row + 1.7, f"{result:.9g}", ha="left", va="center", fontsize=8.5)
    axes.plot((edge,) * 2, (-0.3, row + 2.3), color=RTX4060, linewidth=1.6)
    axes.text(edge + 0.2, -1.35, "truncated here,\n13 bits below E", color=RTX4060, ha="left", va="center", fontsize=9)
    axes.text(
        edge - 0.2,
        -1.35,
        f"E = {largest}, the largest exponent of a product\n(the sum of its operands' exponents) or of c",
        ha="right",
        va="center",
        fontsize=9,
    )
    return figure


def _exponent(value: float) -> int:
    return max(math.floor(math.log2(abs(float(value)))), -6)


def _cells(axes: Axes, row: float, value: float, first: int, lowest: int, last: int, colour: str) -> None:
    """The bits of |value| from 2^first down; those below 2^last hollow."""
    magnitude = abs(value)
    assert math.fmod(magnitude, 2.0**lowest) == 0, "the drawing shows every bit"
    if value == 0:
        return
    top = math.floor(math.log2(magnitude))
    if value < 0:
        axes.text(first - top - 0.25, row + 0.5, MINUS, ha="center", va="center", fontsize=11, color=colour)
    for place in range(top, lowest - 1, -1):
        bit = math.floor(magnitude / 2.0**place) % 2
        below = math.fmod(magnitude, 2.0 ** (place + 1))
        x = first - place
        if not below and place < last:
            break
        solid = place >= last
        axes.add_patch(
            matplotlib.patches.Rectangle(
                (x + 0.06, row + 0.12),
                0.88,
                0.76,
                facecolor=colour if solid and bit else "none",
                edgecolor=colour if solid else FAINT,
                linewidth=0.9,
                linestyle="-" if solid else (0, (2, 1.6)),
            )
        )
        shade = "#ffffff" if solid and bit else INK if solid else FAINT
        axes.text(x + 0.5, row + 0.5, str(bit), ha="center", va="center", fontsize=7.5, color=shade)


# --- the platforms on a real projection ------------------------------------------------------------------------


def platforms() -> Figure:
    """Where an H100 PCIe's bfloat16 results differ from an RTX 4060's, in ulps, on parts of Evo 2 projections."""
    arrays = np.load(RECORDINGS / "evo2.npz")
    cases = [json.loads(line) for line in (RECORDINGS / "cases.jsonl").read_text().splitlines()]
    cases = [case for case in cases if case["id"].startswith("evo2.")]
    figure = Figure(figsize=(9.6, 6.2))
    colours = ListedColormap([RTX4060, "#f2a65a", "#5fc9b5", H100])
    for index, case in enumerate(cases):
        output = next(output for output in case["outputs"] if output["name"] == "y_native")
        x, w = (arrays[case[name][1]].view(E4M3) for name in "ab")
        alpha = np.prod(np.array([output["scale_a_bits"], output["scale_b_bits"]], np.uint32).view(np.float32))
        bits = {}
        for profile in ("ada", "hopper"):
            sums = mmaemu.accumulate(x, w, use_fast_accum=output["fast"], profile=profile, splitk=1)
            bits[profile] = (sums * alpha + np.float32(0)).astype(ml_dtypes.bfloat16).view(np.int16)
        assert (bits["ada"].view(np.uint16) == arrays[output["expect"]["bits"][1]]).all()
        ulps = _ordered(bits["hopper"]) - _ordered(bits["ada"])
        axes = figure.add_axes((0.065, 0.705 - 0.305 * index, 0.785, 0.235))
        rows, columns = np.nonzero(ulps)
        cells = [[(n, m), (n + 1, m), (n + 1, m + 1), (n, m + 1)] for m, n in zip(rows, columns, strict=True)]
        image = PolyCollection(cells, array=np.digitize(ulps[rows, columns], (-1, 0, 2)), cmap=colours, linewidth=0)
        image.set_clim(-0.5, 3.5)
        axes.add_collection(image)
        axes.set_xlim(0, ulps.shape[1])
        axes.set_ylim(ulps.shape[0], 0)
        share = np.count_nonzero(ulps) / ulps.size
        ordinal = {"00": "1st", "10": "11th", "20": "21st"}[case["id"][-2:]]
        axes.set_title(
            f"{ordinal} FP8 call of a pass: {share:.0%} of the results differ, {_most(ulps)}",
            loc="left",
        )
        axes.grid(False)
        axes.set_ylabel("token")
        axes.set_yticks((0.5, 15.5, 31.5), ("1", "16", "32"))
        axes.set_xticks((0.5, 31.5, 63.5, 95.5, 127.5), ("1", "32", "64", "96", "128") if index == 2 else [""] * 5)
        axes.spines[["top", "right"]].set_visible(True)
    axes.set_xlabel("output")
    bar = figure.colorbar(image, cax=figure.add_axes((0.875, 0.33, 0.016, 0.37)), ticks=range(4))
    bar.ax.set_yticklabels((f"≤ {MINUS}2 ulp", f"{MINUS}1", "+1", "≥ 2 ulp"))
    bar.ax.set_title("H100 minus\nRTX 4060", fontsize=9, loc="left")
    bar.outline.set_edgecolor(FAINT)
    bar.ax.grid(False)
    bar.ax.tick_params(length=0)
    return figure


def _most(ulps: np.ndarray) -> str:
    beyond = np.count_nonzero(np.abs(ulps) > 1)
    return f"{beyond} of them by more than an ulp" if beyond else "all of them by one ulp"


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Integers in the order of the numbers that the bits are, one apart for neighbours."""
    wide = bits.astype(np.int64)
    return np.where(wide < 0, -(wide & 0x7FFF), wide)


# --- error against exact sums ----------------------------------------------------------------------------------


def _random(rows: int, depth: int, seed: int, *, positive: bool = False) -> np.ndarray:
    numbers = np.random.default_rng(seed).standard_normal((rows, depth))
    return (np.abs(numbers) if positive else numbers).astype(E4M3)


def _sums(a: np.ndarray, b: np.ndarray, profile: str, fast: bool) -> np.ndarray:
    return mmaemu.accumulate(a, b, use_fast_accum=fast, profile=profile, splitk=1).astype(np.float64)


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T  # of these sizes float64 holds the sums without rounding


_SERIES = (
    ("RTX 4060, fast", "ada", True, RTX4060, "-"),
    ("H100 PCIe, fast", "hopper", True, H100, "-"),
    ("RTX 4060, slow", "ada", False, RTX4060, (0, (4, 2))),
    ("H100 PCIe, slow", "hopper", False, H100, (0, (4, 2))),
)


def error_by_k() -> Figure:
    """Root mean square error of accumulators over the root mean square of the exact sums, for growing K."""
    depths = [2**n for n in range(5, 18)]
    figure = Figure(figsize=(9.6, 4.6))
    halves = (
        figure.add_axes((0.085, 0.13, 0.36, 0.78)),
        figure.add_axes((0.5, 0.13, 0.36, 0.78)),
    )
    for axes, positive in zip(halves, (False, True), strict=True):
        a, b = (_random(24, depths[-1], seed, positive=positive) for seed in (1, 2))
        for name, profile, fast, colour, dashes in _SERIES:
            errors = []
            for depth in depths:
                exact = _exact(a[:, :depth], b[:, :depth])
                found = _sums(a[:, :depth], b[:, :depth], profile, fast)
                errors.append(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))
            axes.loglog(depths, errors, color=colour, linestyle=dashes, linewidth=2, label=name)
            if positive:
                offset = 7 if profile == "ada" else -7  # the platforms' curves meet
                axes.annotate(
                    name,
                    (depths[-1], errors[-1]),
                    (7, offset),
                    textcoords="offset points",
                    va="center",
                    color=colour,
                    fontsize=9,
                )
        axes.axhline(2.0**-9, color=FAINT, linewidth=1, linestyle=":")
        axes.set_xlim(depths[0], depths[-1])
        axes.set_ylim(2e-5, 1)
        axes.set_xticks([2**n for n in (5, 8, 11, 14, 17)], ["32", "256", "2048", "16384", "131072"])
        axes.minorticks_off()
        axes.set_xlabel("K")
        axes.set_title("products of both signs" if not positive else "positive products", loc="left")
    halves[0].text(36, 2.0**-9 * 1.15, "half an ulp of bfloat16", fontsize=8.5, va="bottom")
    halves[0].set_ylabel("relative error (root mean square)")
    halves[1].tick_params(labelleft=False)
    return figure


# --- fast against slow -----------------------------------------------------------------------------------------


def fast_slow() -> Figure:
    """One running sum of positive products, and the errors of many sums of both signs."""
    figure = Figure(figsize=(9.6, 4.3))
    left = figure.add_axes((0.08, 0.14, 0.4, 0.74))
    a, b = _random(1, 32768, 3, positive=True), _random(1, 32768, 4, positive=True)
    depths = [*range(128, 32768 + 1, 128)]
    running = np.cumsum((a.astype(np.float64) * b.astype(np.float64))[0])
    for name, fast, colour in (("slow", False, H100), ("fast", True, RTX4060)):
        sums = np.array([_sums(a[:, :depth], b[:, :depth], "hopper", fast)[0, 0] for depth in depths])
        error = 100 * (sums / running[np.array(depths) - 1] - 1)
        left.plot(depths, error, color=colour, linewidth=2)
        left.annotate(
            name,
            (depths[-24], error[-24]),
            (-6, -14 if fast else -12),
            textcoords="offset points",
            color=colour,
            ha="right",
            fontweight="bold",
        )
    left.set_xlim(0, 32768)
    left.set_xticks((0, 8192, 16384, 24576, 32768), ("0", "8192", "16384", "24576", "32768"))
    left.set_xlabel("elements summed")
    left.set_ylabel("error of the running sum, %")
    left.set_title("H100 PCIe, one sum of positive products", loc="left")

    right = figure.add_axes((0.57, 0.14, 0.4, 0.74))
    a, b = _random(256, 4096, 5), _random(256, 4096, 6)
    exact = _exact(a, b)
    edges = np.linspace(-0.5, 0.5, 81)
    for name, fast, colour in (("slow", False, H100), ("fast", True, RTX4060)):
        errors = (_sums(a, b, "hopper", fast) - exact).ravel()
        counts, _ = np.histogram(errors, edges)
        right.stairs(counts / counts.sum() * 100, edges, color=colour, linewidth=1.8)
        right.stairs(counts / counts.sum() * 100, edges, color=colour, alpha=0.18, fill=True)
        spread = np.sqrt(np.mean(errors**2))
        right.text(
            0.97,
            0.84 if fast else 0.94,
            f"{name}: rms {spread:.2g}",
            transform=right.transAxes,
            ha="right",
            va="top",
            color=colour,
            fontweight="bold",
            fontsize=9,
        )
    right.set_xlim(edges[0], edges[-1])
    right.set_xlabel(f"error of an accumulator (the sums are some {np.sqrt(np.mean(exact**2)):.0f} large)")
    right.set_ylabel("share of sums, %")
    right.set_title("H100 PCIe, 65,536 sums of both signs, K = 4096", loc="left")
    return figure


# --- files -----------------------------------------------------------------------------------------------------

FIGURES: dict[str, Callable[[], Figure]] = {
    "block": block,
    "platforms": platforms,
    "error_by_k": error_by_k,
    "fast_slow": fast_slow,
}
_COLOURS = "<style>svg{color:#1c1e21}@media (prefers-color-scheme:dark){svg{color:#e3e5e8}}</style>"


def drawn(name: str) -> str:
    """The SVG text of a figure."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        file = io.StringIO()
        FIGURES[name]().savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue().replace(INK, "currentColor")
    svg = re.sub(r"(<svg [^>]*>)", rf"\1{_COLOURS}", svg, count=1)
    return re.sub(r" +$", "", svg, flags=re.M)


def same(one: str, other: str) -> bool:
    """Whether two drawings are alike: the same text, and numbers that differ by less than a hundredth of a point."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.sub("", one) != number.sub("", other):
        return False
    pairs = zip(number.findall(one), number.findall(other), strict=True)
    return all(abs(float(x) - float(y)) < 0.01 for x, y in pairs if x != y)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a figure is out of date")
    parser.add_argument("names", nargs="*", default=list(FIGURES), help="which figures; default: all")
    arguments = parser.parse_args()
    status = 0
    for name in arguments.names:
        path, svg = HERE / f"{name}.svg", drawn(name)
        if not arguments.check:
            path.write_text(svg)
        elif not same(path.read_text(), svg):
            print(f"{path.name} is out of date: run docs/figures/draw.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
