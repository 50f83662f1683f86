#!/usr/bin/env python3
"""Packs a recorded split-K table (NAME.npz, NAME.json) into the file that the library embeds (NAME.bin).

Owns the writing side of the format in data/splitk/README.md; src/platform/split_table.cpp reads it.
Usage: pack_splitk.py RECORDED_DIR OUTPUT_DIR [--check]. Needs numpy; building the library does not run it.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

import numpy as np

NAMES = ("rtx4060", "h100pcie")
MAGIC = b"MMSPLITK"
VERSION = 1
SIZE_BITS = 21
CRC64_POLYNOMIAL = 0xC96C5795D7870F42  # ECMA-182, reflected (CRC-64/XZ)
SETTING_COLUMNS = ("ws", "out", "fast", "fa", "fb")


def crc64(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (CRC64_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    crc = (1 << 64) - 1
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ ((1 << 64) - 1)


def text(value: str) -> bytes:
    return struct.pack("<H", len(value)) + value.encode("ascii")


def counted(items: list[bytes]) -> bytes:
    return struct.pack("<I", len(items)) + b"".join(items)


class Codes:
    """The code of every name in a setting, as the columns of the .npz use them."""

    def __init__(self, meta: dict):
        self.fmt = {name: code for code, name in enumerate(meta["codes"]["fmt"])}
        self.out = {name: code for code, name in enumerate(meta["codes"]["out"])}
        self.ws = {size: code for code, size in enumerate(meta["codes"]["ws"])}

    def setting(self, entry: dict) -> tuple[int, int, int, int, int]:
        return (
            self.ws[entry["ws"]],
            self.out[entry["out"]],
            int(entry["fast"]),
            self.fmt[entry["fmt_a"]],
            self.fmt[entry["fmt_b"]],
        )


def check_envelope_against_rows(meta: dict, codes: Codes, rows: dict[str, np.ndarray]) -> None:
    """The .json's largest M*N that split, setting by setting, is what the rows say."""
    split = rows["splitK"] > 1
    area = rows["M"] * rows["N"]
    listed = set()
    for entry in meta["envelope"]["settings"]:
        setting = codes.setting(entry)
        listed.add(setting)
        inside = np.logical_and.reduce([rows[c] == v for c, v in zip(SETTING_COLUMNS, setting, strict=True)])
        largest = int(area[inside & split].max()) if (inside & split).any() else None
        if int(inside.sum()) != entry["rows"] or largest != entry["max_split_MN"]:
            raise ValueError(f"{meta['table_id']}: envelope of {entry} differs from the rows")
    present = np.unique(np.stack([rows[c] for c in SETTING_COLUMNS]), axis=1).T
    if {tuple(int(v) for v in setting) for setting in present} != listed:
        raise ValueError(f"{meta['table_id']}: the envelope lists other settings than the rows have")


def pack_envelope(meta: dict, codes: Codes) -> bytes:
    envelope = meta["envelope"]
    if envelope["kind"] == "max_split_MN":
        settings = sorted((*codes.setting(e), e["max_split_MN"] or 0) for e in envelope["settings"])
        packed = [struct.pack("<5BQ", *setting) for setting in settings]
        return struct.pack("<BQ", 0, envelope["margin"]) + counted(packed)
    if envelope["kind"] != "k_grid":
        raise ValueError(f"{meta['table_id']}: unknown envelope kind {envelope['kind']!r}")
    grid = envelope["K_grid"]
    if (grid[0], grid[-1]) != (envelope["K_min"], envelope["K_max"]):
        raise ValueError(f"{meta['table_id']}: K_min and K_max are not the ends of K_grid")
    bounds = sorted((*codes.setting(e), *e["B"]) for e in envelope["bounds"])
    validation = sorted(
        (codes.ws[int(ws)], entry["status"] == "validated", entry["tested"], entry["split_above_bound"])
        for ws, entry in envelope["validation"].items()
    )
    return (
        struct.pack("<B", 1)
        + counted([struct.pack("<Q", k) for k in grid])
        + counted([struct.pack(f"<5B{len(grid)}Q", *b) for b in bounds])
        + counted([struct.pack("<BBQQ", *v) for v in validation])
    )


def pack_meta(meta: dict, codes: Codes) -> bytes:
    schemes = sorted((int(custom), scheme) for custom, scheme in meta["codes"]["custom_to_scheme"].items())
    replayed = []
    for entry in meta["replayed_combinations"]:
        fmt_a, fmt_b = entry["fmt_pair"].split("x")
        key = (codes.out[entry["out"]], int(entry["fast"]), codes.fmt[fmt_a], codes.fmt[fmt_b])
        replayed.append((*key, entry["S"], entry["scheme"]))
    return b"".join(
        [
            text(meta["table_id"]),
            text(meta["device"]["gpu"]),
            text(meta["device"]["cublaslt"]),
            struct.pack("<QQ", meta["rows"], meta["split_rows"]),
            struct.pack("<QQ", meta["workspace0_queries"], meta["workspace0_split_rows"]),
            counted([struct.pack("<Q", size) for size in meta["codes"]["ws"]]),
            counted([text(name) for name in meta["codes"]["out"]]),
            counted([text(name) for name in meta["codes"]["fmt"]]),
            counted([struct.pack("<I", custom) + text(scheme) for custom, scheme in schemes]),
            text(meta["codes"]["custom_unlisted_scheme"] or ""),
            struct.pack("<B", meta.get("split_layouts", {}).get("empty_split_replayed", False)),
            counted([struct.pack("<4BI", *r[:5]) + text(r[5]) for r in sorted(replayed)]),
            pack_envelope(meta, codes),
        ]
    )


def pack_rows(meta: dict, rows: dict[str, np.ndarray]) -> bytes:
    """Shape -> pattern -> block of one (workspace, output) -> choice; equal patterns and blocks once."""
    limits = {"algo": 1 << 16, "tile": 1 << 16, "splitK": 1 << 16, "custom": 1 << 16}
    limits |= dict.fromkeys("MNK", 1 << SIZE_BITS)
    for column, limit in limits.items():
        if rows[column].min() < 0 or rows[column].max() >= limit:
            raise ValueError(f"{meta['table_id']}: column {column} is not in 0..{limit - 1}")
    n_ws, n_out, n_fmt = (len(meta["codes"][k]) for k in ("ws", "out", "fmt"))
    n_block = 2 * n_fmt * n_fmt

    columns = np.stack([rows[c] for c in ("algo", "tile", "splitK", "custom")], axis=1)
    choices, choice = np.unique(columns, axis=0, return_inverse=True)
    shapes, shape = np.unique(
        (rows["M"] << (2 * SIZE_BITS)) | (rows["N"] << SIZE_BITS) | rows["K"], return_inverse=True
    )
    place = rows["ws"]
    for column, count in (("out", n_out), ("fast", 2), ("fa", n_fmt), ("fb", n_fmt)):
        if rows[column].max() >= count:
            raise ValueError(f"{meta['table_id']}: column {column} has an unknown code")
        place = place * count + rows[column]
    if len(np.unique(shape * (n_ws * n_out * n_block) + place)) != len(place):
        raise ValueError(f"{meta['table_id']}: a key has several rows")

    cells = np.zeros((len(shapes), n_ws * n_out * n_block), np.int64)
    cells[shape.reshape(-1), place] = choice.reshape(-1) + 1  # 0: no row
    blocks, block = np.unique(cells.reshape(-1, n_block), axis=0, return_inverse=True)
    patterns, pattern = np.unique(block.reshape(-1, n_ws * n_out), axis=0, return_inverse=True)
    if max(len(choices), len(blocks) - 1, len(patterns) - 1) >= 1 << 16:
        raise ValueError(f"{meta['table_id']}: more than 65,536 distinct entries")
    counts = struct.pack("<4I", len(choices), len(blocks), len(patterns), len(shapes))
    u2 = b"".join(array.astype("<u2").tobytes() for array in (choices, blocks, patterns, pattern))
    return counts + shapes.astype("<u8").tobytes() + u2


def pack(recorded: Path, name: str) -> bytes:
    meta = json.loads((recorded / f"{name}.json").read_text())
    with np.load(recorded / f"{name}.npz") as archive:
        rows = {column: archive[column].astype(np.int64) for column in archive.files}
    codes = Codes(meta)
    if len(rows["M"]) != meta["rows"] or int((rows["splitK"] > 1).sum()) != meta["split_rows"]:
        raise ValueError(f"{meta['table_id']}: the .json counts other rows than the .npz has")
    if meta["envelope"]["kind"] == "max_split_MN":
        check_envelope_against_rows(meta, codes, rows)
    body = pack_meta(meta, codes) + pack_rows(meta, rows)
    header = MAGIC + struct.pack("<IQ", VERSION, len(body))
    return header + struct.pack("<Q", crc64(header + body)) + body


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recorded", type=Path, help="folder with the .npz and .json files")
    parser.add_argument("output", type=Path, help="folder for the .bin files")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a .bin that is not current")
    arguments = parser.parse_args()
    stale = False
    for name in NAMES:
        packed = pack(arguments.recorded, name)
        target = arguments.output / f"{name}.bin"
        if not arguments.check:
            target.write_bytes(packed)
        elif not target.is_file() or target.read_bytes() != packed:
            print(f"{target} is not what {arguments.recorded / name}.npz and .json pack to", file=sys.stderr)
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
