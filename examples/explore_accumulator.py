#!/usr/bin/env python3
"""How good would another tensor core be? Designs as custom presets, their errors against exact sums, and a plot.

Two numbers are varied: how many products a block aligns at once (nfma), and how many fraction bits are kept below the
largest exponent (frac). The presets describe no hardware; mmaemu says so once, and this script silences it.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import ml_dtypes
import numpy as np

import mmaemu

E4M3 = ml_dtypes.float8_e4m3fn
BLOCKS = (8, 16, 32, 64)
FRACTIONS = (10, 12, 13, 16, 20, 23)


def design(nfma: int, frac: int) -> mmaemu.Preset:
    return mmaemu.Preset(
        f"{nfma}x{frac}", nfma=nfma, frac=frac, frac_out=min(frac, 23), min_exp=-132, late_c=False, slow_chunk=128
    )


def error(preset: mmaemu.Preset, a: np.ndarray, b: np.ndarray) -> float:
    """The median distance from exact sums, relative to the root of the sum of squares."""
    computed = mmaemu.model.dot(a, b, preset=preset).astype(float)
    products = a.astype(float) * b.astype(float)
    return float(np.median(np.abs(computed - products.sum(axis=1)) / np.sqrt((products**2).sum(axis=1))))


def plot(errors: dict[tuple[int, int], float], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for nfma in BLOCKS:
        axes.plot(FRACTIONS, [errors[nfma, frac] for frac in FRACTIONS], "o-", label=f"blocks of {nfma}")
    axes.axvline(13, color="grey", linewidth=0.8)
    axes.annotate("ada, hopper", (13.2, axes.get_ylim()[1] / 2), color="grey")
    axes.set_yscale("log")
    axes.set_xlabel("fraction bits kept")
    axes.set_ylabel("median relative error, K = 4096")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="PNG")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", mmaemu.ExperimentalPresetWarning)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, 4096)).astype(E4M3) for _ in range(2))
    errors = {(nfma, frac): error(design(nfma, frac), a, b) for nfma in BLOCKS for frac in FRACTIONS}
    print("fraction bits " + "".join(f"{frac:>10}" for frac in FRACTIONS))
    for nfma in BLOCKS:
        print(f"blocks of {nfma:<4}" + "".join(f"{errors[nfma, frac]:10.1e}" for frac in FRACTIONS))
    if arguments.plot:
        plot(errors, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
