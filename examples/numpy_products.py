#!/usr/bin/env python3
"""FP8 products without torch: numpy arrays of ml_dtypes types in, bits out.

Recomputes accumulators of Evo 2 1B projections that an RTX 4060 returned and compares them bit by bit, then shows what
an H100 PCIe makes of the same operands. Run from a checkout: the recordings lie in tests/data/golden.
"""

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import mmaemu

RECORDINGS = Path(__file__).resolve().parent.parent / "tests" / "data" / "golden" / "rtx4060"


def main() -> int:
    arrays = np.load(RECORDINGS / "evo2.npz")
    lines = (RECORDINGS / "cases.jsonl").read_text().splitlines()
    cases = [case for case in map(json.loads, lines) if case["id"].startswith("evo2.")]
    exact = True
    for case in cases:
        x, w = (arrays[case[name][1]].view(ml_dtypes.float8_e4m3fn) for name in "ab")  # [32, K] and [128, K]
        (recorded,) = (
            arrays[output["expect"]["bits"][1]] for output in case["outputs"] if output["out_dtype"] == "float32"
        )
        # These rows and columns are a part of a projection that cuBLAS did not split: splitk=1.
        rtx4060 = mmaemu.accumulate(x, w, use_fast_accum=True, profile="ada", splitk=1)
        h100 = mmaemu.accumulate(x, w, use_fast_accum=True, profile="hopper", splitk=1)
        equal = np.count_nonzero(rtx4060.view(np.uint32) == recorded)
        other = np.count_nonzero(rtx4060.view(np.uint32) != h100.view(np.uint32))
        exact = exact and equal == recorded.size
        print(f"{case['id']}: K = {x.shape[1]}, {equal} of {recorded.size} accumulators are the recorded bits;")
        print(f"  an H100 PCIe returns other bits for {other}")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
