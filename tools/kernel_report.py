#!/usr/bin/env python3
"""What the compiler made of the CUDA kernels: registers, spills, occupancy and instructions a product, as a table.

Reads the fatbins of a build (FOLDER, build/release/cuda) with cuobjdump: the toolkit's, or that of the pip packages
nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm in this interpreter's environment. --check: exits with 1 where a kernel
spills or spends more than it may.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

MOST_SPILLED = 24  # bytes a thread, outside of the inner loops
LANES = 128  # instructions that an SM starts in a cycle, times the lanes of a warp, over its four schedulers
REGISTERS = 65536  # of an SM, given to warps by 256
WARPS = {75: 32, 80: 64, 86: 48, 89: 48, 90: 64, 100: 64, 120: 48}  # that an SM holds
FP32_LANES = {75: 64, 80: 64}  # fused multiply-adds a cycle and SM; 128 on the others
FP32 = ("FFMA", "FADD", "FMUL")


@dataclass(frozen=True)
class Loop:
    """Products that a thread makes in its loop over blocks, and the instructions a product that it may take."""

    products: int
    most: float


LOOPS = {
    "v1": Loop(16, 36),
    "h1": Loop(32, 36),
    "v4": Loop(64 * 16, 2.25),
    "h4": Loop(64 * 32, 2.05),
    "v9": Loop(64 * 16, 1.75),
    "tc3": Loop(64 * 16, 1.6),
}


@dataclass(frozen=True)
class Binary:
    kernel: str
    pair: str
    architecture: int
    registers: int
    spilled: int
    shared: int
    loop: Counter[str]

    @property
    def per_product(self) -> float:
        return self.loop.total() / LOOPS[self.kernel].products

    @property
    def products_per_cycle(self) -> float:
        """Of an SM: bound by what it starts, or by its fp32 lanes."""
        fp32 = sum(count for name, count in self.loop.items() if name.split(".")[0] in FP32)
        products = LOOPS[self.kernel].products
        return min(LANES / self.per_product, FP32_LANES.get(self.architecture, 128) * products / fp32)

    @property
    def warps(self) -> int:
        """That an SM holds by registers, in blocks of eight."""
        by_registers = REGISTERS // (-(-self.registers * 32 // 256) * 256)
        return min(by_registers // 8 * 8, WARPS[self.architecture])


def cuobjdump() -> str:
    beside = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/cuobjdump"))
    found = str(beside[-1]) if beside else shutil.which("cuobjdump")
    if found is None:
        sys.exit("kernel_report.py: no cuobjdump: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
    return found


def dump(option: str, fatbin: Path) -> list[str]:
    tool = cuobjdump()
    environment = {"PATH": f"{Path(tool).parent}:/usr/bin:/bin"}  # cuobjdump runs nvdisasm
    done = subprocess.run([tool, option, str(fatbin)], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


def by_function(lines: list[str]) -> dict[tuple[int, str], list[str]]:
    """The lines that belong to each function of each architecture."""
    functions: dict[tuple[int, str], list[str]] = {}
    architecture, lines_of = 0, []
    for line in lines:
        if found := re.match(r"\s*arch = sm_(\d+)", line):
            architecture = int(found[1])
        elif found := re.search(r"Function\s*:?\s+(\w+)", line):
            lines_of = functions.setdefault((architecture, found[1]), [])
        else:
            lines_of.append(line)
    return functions


def longest_loop(lines: list[str]) -> Counter[str]:
    """The instructions from the target of the widest jump back to the jump, by the first two parts of their names."""
    code = [(int(found[1], 16), found[2]) for line in lines if (found := re.match(r"\s*/\*(\w{4,})\*/\s+(.+?);", line))]
    begin, end = 0, -1
    for address, text in code:
        target = re.search(r"\bBRA\b.*?\b0x([0-9a-f]+)", text)
        if target and address - int(target[1], 16) > end - begin:
            begin, end = int(target[1], 16), address
    names: Counter[str] = Counter()
    for address, text in code:
        if begin <= address <= end:
            names[".".join(re.sub(r"^@!?\w+\s+", "", text).split()[0].split(".")[:2])] += 1
    return names


def binaries(folder: Path) -> list[Binary]:
    found = []
    for fatbin in sorted(folder.glob("*.fatbin")):
        code = by_function(dump("-sass", fatbin))
        for (architecture, function), lines in by_function(dump("-res-usage", fatbin)).items():
            name = re.fullmatch(r"mmaemu_(v1|h1|v4|h4|v9|tc3)_(\w+)", function)
            if not name:
                continue
            usage = {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED):(\d+)", " ".join(lines))}
            loop = longest_loop(code[architecture, function])
            found.append(Binary(name[1], name[2], architecture, usage["REG"], usage["STACK"], usage["SHARED"], loop))
    if not found:
        sys.exit(f"kernel_report.py: no kernels in {folder}: build with an nvcc first")
    return sorted(found, key=lambda b: (list(LOOPS).index(b.kernel), b.architecture, b.pair))


def problems(found: list[Binary]) -> list[str]:
    wrong = []
    for b in found:
        name = f"{b.kernel} {b.pair} for sm_{b.architecture}"
        if b.spilled > MOST_SPILLED:
            wrong.append(f"{name} spills {b.spilled} bytes; {MOST_SPILLED} are allowed")
        if b.pair == "e4m3e4m3" and b.per_product > LOOPS[b.kernel].most:
            wrong.append(f"{name} takes {b.per_product:.2f} instructions a product; {LOOPS[b.kernel].most} are allowed")
    return wrong


def table(found: list[Binary], architectures: list[int]) -> str:
    rows = [
        "| kernel | sm | registers | spilled, bytes | shared, bytes | warps of most | instructions a product |"
        " products a cycle and SM | most frequent in the loop |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for b in found:
        if b.pair != "e4m3e4m3" or b.architecture not in architectures:
            continue
        frequent = ", ".join(f"{name} {count}" for name, count in b.loop.most_common(5))
        cells = [b.kernel, b.architecture, b.registers, b.spilled, b.shared, f"{b.warps} of {WARPS[b.architecture]}"]
        cells += [f"{b.per_product:.2f}", f"{b.products_per_cycle:.0f}", frequent]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/release/cuda"), metavar="FOLDER")
    parser.add_argument("--architectures", default="89,90,120", metavar="89,90")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    found = binaries(arguments.folder)
    print(table(found, [int(text) for text in arguments.architectures.split(",")]))
    wrong = problems(found) if arguments.check else []
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
