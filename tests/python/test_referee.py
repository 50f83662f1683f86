"""The referee against what hardware returned (tests/data/golden), so that the judge is itself judged.

A fixed sample of every recording; HYPOTHESIS_PROFILE=long replays forty times as much of each.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import referee

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
THOROUGHNESS = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1
PTX_NAMES = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


@functools.cache
def arrays(path: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / path) as stored:
        return {key: stored[key] for key in stored.files}


@functools.cache
def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in (GOLDEN / path).read_text().splitlines()]


def hardware(key: list[str]) -> np.ndarray:
    return arrays(f"rtx4060/{key[0]}.npz")[key[1]]


def unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(f"uint{8 * values.dtype.itemsize}")


def sample(name: str, count: int, depth: int, terms: int) -> Iterator[int]:
    """Evenly spread indices below count, at least one, so that about terms products of depth elements are computed."""
    wanted = max(1, THOROUGHNESS * terms // max(depth, 1))
    step = max(1, count // wanted)
    return iter(range(zlib.crc32(name.encode()) % step, count, step))


class Tally:
    """Compares referee and recording output by output."""

    def __init__(self) -> None:
        self.compared = 0
        self.differences: list[str] = []

    def check(self, name: str, got: int, recorded: int) -> None:
        self.compared += 1
        if got != recorded:
            self.differences.append(f"{name}: referee 0x{got:x}, recorded 0x{recorded:x}")

    def settle(self) -> None:
        assert self.compared > 0
        shown = "\n".join(self.differences[:10])
        assert not self.differences, f"{len(self.differences)} of {self.compared} outputs differ:\n{shown}"


# One instruction


@pytest.mark.parametrize("shard", ["c2", "c3", "c6", "epilogue"])
def test_chains_recorded_on_an_rtx_4060(shard):
    tally = Tally()
    for case in lines("rtx4060/cases.jsonl"):
        if case["kind"] != "mma" or case["d"][0] != shard:
            continue
        a, b, c, d = (hardware(case[key]) for key in "abcd")
        for i in sample(case["id"], d.size, a.shape[-1], 1500):
            if case["layout"] == "tile":
                tile, row, column = np.unravel_index(i, (a.shape[0], a.shape[1], b.shape[1]))
                x, y = a[tile, row].tolist(), b[tile, column].tolist()
            else:
                x, y = a[i].tolist(), b[i].tolist()
            start = int(unsigned(c).flat[i])
            got = referee.dot(x, case["fmt_a"], y, case["fmt_b"], start, referee.PRESETS[case["preset"]])
            tally.check(f"{case['id']}[{i}]", got, int(unsigned(d).flat[i]))
    tally.settle()


TOOLBOX_PRESETS = {"Ada": "ada", "L40S": "ada", "H100": "hopper", "H200": "hopper", "B200": "b200_mma_sync"}
TOOLBOX = json.loads((GOLDEN / "toolbox" / "sets.json").read_text())


@pytest.mark.parametrize("recorded", TOOLBOX, ids=lambda r: f"{r['gpu']}-{r['fmt']}")
def test_chains_of_the_toolbox(recorded):
    """fp32 patterns of FP8 values; H100 and H200 were recorded without c, whatever the set holds."""
    a, b, c, d = (arrays("toolbox/vectors.npz")[recorded[key]] for key in "abcd")
    name = recorded["fmt"]
    fmt = referee.FORMATS[name]
    codes = {
        referee.encode(referee.decode(code, fmt), referee.FP32, negative_zero=code >= 128): code for code in range(256)
    }
    preset = referee.PRESETS[TOOLBOX_PRESETS[recorded["gpu"]]]
    has_c = recorded["gpu"] not in ("H100", "H200")
    tally = Tally()
    for i in sample(name, d.size, a.shape[-1], 16000):
        x, y = ([codes[bits] for bits in values[i].tolist()] for values in (a, b))
        tally.check(f"[{i}]", referee.dot(x, name, y, name, int(c[i]) if has_c else 0, preset), int(d[i]))
    tally.settle()


@pytest.mark.parametrize("preset", ["ada", "hopper", "b200_mma_sync", "custom"])
def test_chains_of_the_oracle(preset):
    tally = Tally()
    stored = arrays("oracle/dot_arrays.npz")
    for case in lines("oracle/dot.jsonl"):
        name = case["preset"] if isinstance(case["preset"], str) else "custom"
        if name != preset:
            continue
        numbers = referee.PRESETS.get(name) or referee.Preset(*(case["preset"][f] for f in referee.Preset._fields))
        depth = stored[case["a"]].shape[-1]
        a, b = (stored[case[key]].reshape(-1, depth) for key in "ab")
        d = unsigned(stored[case["d"]]).ravel()
        c = np.zeros_like(d) if case["c"] is None else unsigned(stored[case["c"]]).ravel()
        for i in sample(case["id"], d.size, depth, 400):
            x, y = a[i].tolist(), b[i].tolist()
            tally.check(
                f"dot {case['id']}[{i}]",
                referee.dot(x, case["fmt_a"], y, case["fmt_b"], int(c[i]), numbers),
                int(d[i]),
            )
    tally.settle()


# Products


class Product:
    """A recorded product's operands; accumulators are kept, since many outputs of a case share them."""

    def __init__(self, a: np.ndarray, fmt_a: str, b: np.ndarray, fmt_b: str, preset: referee.Preset) -> None:
        self.a, self.b, self.formats, self.preset = a, b, (fmt_a, fmt_b), preset
        self.accumulator = functools.cache(self._accumulator)

    def _accumulator(self, m: int, n: int, fast: bool, S: int, scheme: str) -> int:
        a, b = self.a[m].tolist(), self.b[n].tolist()
        return referee.accumulator(a, self.formats[0], b, self.formats[1], self.preset, fast, S, scheme)

    def compare(self, tally: Tally, name: str, output: dict, recorded: np.ndarray, terms: int) -> None:
        M, N, K = self.a.shape[0], self.b.shape[0], self.a.shape[1]
        out = PTX_NAMES.get(output["out_dtype"], output["out_dtype"])
        flat = unsigned(recorded).ravel()
        diagonal = output.get("out_select") == "diagonal"
        assert flat.size == (min(M, N) if diagonal else M * N)
        case = name.rpartition("/")[0]
        for i in sample(case, flat.size, K, terms):
            m, n = (i, i) if diagonal else divmod(i, N)
            acc = self.accumulator(m, n, output["fast"], *output["splitk"])
            scales = (output[f"scale_{which}_bits"] for which in ("a", "b", "result"))
            tally.check(f"{name}[{m},{n}]", referee.epilogue(acc, *scales, out), int(flat[i]))


@pytest.mark.parametrize("shard", ["c3", "c4", "c5", "c6", "emulator", "epilogue", "evo2", "misc", "r2", "r4", "r5"])
def test_products_recorded_on_an_rtx_4060(shard):
    tally = Tally()
    for case in lines("rtx4060/cases.jsonl"):
        outputs = [o for o in case.get("outputs", ()) if o["expect"].get("bits", [""])[0] == shard]
        if case["kind"] != "gemm" or not outputs:
            continue
        a, b = hardware(case["a"]), hardware(case["b"])
        product = Product(a, case["fmt_a"], b, case["fmt_b"], referee.PRESETS["ada"])
        for output in outputs:
            name = f"{case['id']}/{output['name']}"
            product.compare(tally, name, output, hardware(output["expect"]["bits"]), 250)
    tally.settle()


def fp32_pattern(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


@pytest.mark.parametrize("shard", ["r1", "r6"])
def test_calls_recorded_on_an_rtx_4060(shard):
    """Calls that hardware accepted, without an out= of their own: ordinary products, many of them of K = 0."""
    tally = Tally()
    for case in lines("rtx4060/cases.jsonl"):
        for output in case.get("outputs", ()) if case["kind"] == "call" else ():
            call = output.get("call") or case.get("call")
            if output["expect"].get("bits", [""])[0] != shard or call["out"]:
                continue
            assert not call["bias"] or 0 in (call["M"], call["N"])
            formats = [PTX_NAMES.get(call[mat]["dtype"]) for mat in ("mat1", "mat2")]
            scales = [call[s] and fp32_pattern(float(call[s]["value"])) for s in ("scale_a", "scale_b", "scale_result")]
            out = PTX_NAMES.get(output["result_dtype"], output["result_dtype"])
            recorded = unsigned(hardware(output["expect"]["bits"])).ravel()
            a, b = hardware(case["a"]), hardware(case["b"])
            for i in sample(case["id"], recorded.size, a.shape[1], 100):
                m, n = divmod(i, call["N"])
                row, column = [a[m].tolist()], [b[n].tolist()]
                preset, split = referee.PRESETS["ada"], output["splitk"]
                got = referee.scaled_mm(
                    row, formats[0], column, formats[1], *scales, out, preset, output["fast"], *split
                )
                tally.check(f"{case['id']}/{output['name']}[{m},{n}]", got[0][0], int(recorded[i]))
    tally.settle()


@pytest.mark.parametrize("platform", ["ada", "hopper"])
def test_products_of_the_oracle(platform):
    """The oracle answers for the H100 PCIe, of which no raw recording is at hand."""
    tally = Tally()
    stored = arrays("oracle/arrays.npz")
    for case in lines("oracle/cases.jsonl"):
        if case["profile"].partition("-")[0] != platform:
            continue
        a, b = stored[case["a"]], stored[case["b"]]
        product = Product(a, case["fmt_a"], b, case["fmt_b"], referee.PRESETS[platform])
        product.compare(tally, f"{case['id']}/y", case, stored[case["y"]], 1000)
        one = 0x3F800000
        plain = {**case, "out_dtype": "float32", "scale_a_bits": one, "scale_b_bits": one}
        product.compare(tally, f"{case['id']}/acc", plain, stored[case["acc"]], 1000)
    tally.settle()
