#!/usr/bin/env python3
"""Computes slices of three Evo 2 1B projections as an RTX 4060 did and compares them with its recorded bits, then times
a projection of full size on random operands.

Run from a checkout, with mmaemu, torch and numpy installed: the recordings lie in tests/data/golden.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import mmaemu

RECORDINGS = Path(__file__).resolve().parent.parent / "tests" / "data" / "golden" / "rtx4060"
INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}


def scale(bits: int) -> torch.Tensor:
    return torch.tensor([bits], dtype=torch.int64).to(torch.int32).view(torch.float32)


def first_difference(result: torch.Tensor, recorded: torch.Tensor) -> str | None:
    """Where and how `result` first differs from the recorded bits."""
    bits = result.view(INTEGERS[result.dtype])
    different = (bits != recorded).nonzero()
    if len(different) == 0:
        return None
    m, n = different[0].tolist()
    mask = (1 << 8 * bits.element_size()) - 1
    got, want = int(bits[m, n]) & mask, int(recorded[m, n]) & mask
    return f"{len(different)} differ, first at [{m}, {n}]: {got:#x}, recorded {want:#x}"


def replay() -> bool:
    arrays = np.load(RECORDINGS / "evo2.npz")
    exact = True
    for line in (RECORDINGS / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        if not case["id"].startswith("evo2."):
            continue
        x = torch.from_numpy(arrays[case["a"][1]]).view(torch.float8_e4m3fn)
        w = torch.from_numpy(arrays[case["b"][1]]).view(torch.float8_e4m3fn)
        for output in case["outputs"]:
            if output["api"] != "scaled_mm":
                continue
            dtype = getattr(torch, output["out_dtype"])
            y = mmaemu.scaled_mm(
                x,
                w.t(),
                scale(output["scale_a_bits"]),
                scale(output["scale_b_bits"]),
                out_dtype=dtype,
                use_fast_accum=output["fast"],
                profile="ada",
                splitk=mmaemu.SplitK(
                    *output["splitk"]
                ),  # the whole projection's: these rows and columns are a part of it
            )
            recorded = torch.from_numpy(arrays[output["expect"]["bits"][1]].view(f"i{dtype.itemsize}"))
            difference = first_difference(y, recorded)
            exact = exact and difference is None
            shape = f"{x.shape[0]} x {w.shape[0]}, K = {x.shape[1]}"
            print(f"{case['id']:30} {shape}, {output['out_dtype']:8}  {difference or 'bit for bit'}")
    return exact


def time_projection(tokens: int) -> None:
    M, N, K = tokens, 5760, 1920
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(M, K, generator=generator).to(torch.float8_e4m3fn)
    w = torch.randn(N, K, generator=generator).to(torch.float8_e4m3fn)
    one = torch.ones(1)
    for profile in ("ada", "hopper"):
        begin = time.perf_counter()
        mmaemu.scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True, profile=profile, splitk=1)
        seconds = time.perf_counter() - begin
        rate = M * N * K / seconds / 1e9
        threads = torch.get_num_threads()
        print(f"{M} x {N}, K = {K}, profile {profile}: {seconds:.2f} s, {rate:.2f} GMAC/s on {threads} threads")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2048, help="rows of the timed projection; 0: no timing")
    arguments = parser.parse_args()
    print("Evo 2 1B projections, recorded on an RTX 4060:")
    exact = replay()
    if arguments.tokens > 0:
        print("A whole projection with random operands:")
        time_projection(arguments.tokens)
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
