#!/usr/bin/env python3
"""Runs a small FP8 transformer with fixed random weights as an H100 PCIe, as an RTX 4060 and with exact accumulation,
shows how far the layers and the logits drift apart, and audits a recording of it.

Needs torch and safetensors; nothing is downloaded. --figure writes the drift by layer as an SVG file.
"""

import argparse
import html
import math
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import mmaemu

TOKENS, WIDTH, HEADS, LAYERS, VOCABULARY = 64, 1024, 8, 6, 512  # splits of these sizes are known on both GPUs
E4M3 = torch.float8_e4m3fn


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 codes and the scale that multiplies them back: the largest element becomes 448."""
    scale = x.abs().amax().float().clamp(min=1e-12) / 448
    return (x.float() / scale).clamp(-448, 448).to(E4M3), scale


class Float8Linear(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        weight, scale = quantise(torch.randn(outputs, inputs) / math.sqrt(inputs))
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes, scale = quantise(x.reshape(-1, x.shape[-1]))
        y = torch._scaled_mm(codes, self.weight.t(), scale, self.scale, out_dtype=torch.bfloat16, use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = Float8Linear(WIDTH, WIDTH), Float8Linear(WIDTH, WIDTH)
        self.value, self.out = Float8Linear(WIDTH, WIDTH), Float8Linear(WIDTH, WIDTH)
        self.up, self.down = Float8Linear(WIDTH, 4 * WIDTH), Float8Linear(4 * WIDTH, WIDTH)
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norms[0](x)
        heads = [part(normed).reshape(TOKENS, HEADS, -1).transpose(0, 1) for part in (self.query, self.key, self.value)]
        attended = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(0, 1).reshape(TOKENS, WIDTH))
        return x + self.down(torch.nn.functional.silu(self.up(self.norms[1](x))))


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = Float8Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The stream after each block, and the logits."""
        x, streams = self.embedding(tokens), []
        for block in self.blocks:
            x = block(x)
            streams.append(x)
        return streams, self.head(x).float()


class ExactProducts(TorchDispatchMode):
    """Answers torch._scaled_mm with the exact sum of products, rounded once to float32 and then to the result.

    float64 holds these sums exactly: products of e4m3 numbers are multiples of 2^-18, and sums stay below 2^30.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not torch.ops.aten._scaled_mm.default:
            return func(*args, **(kwargs or {}))
        codes, weight, scale_a, scale_b, _, _, out_dtype, _ = args
        exact = codes.double() @ weight.double()
        return (exact.float() * (scale_a * scale_b)).to(out_dtype)


def drift(a: torch.Tensor, b: torch.Tensor) -> float:
    """Root mean square difference over root mean square."""
    return float((a.double() - b.double()).square().mean().sqrt() / b.double().square().mean().sqrt())


def compare(name: str, one: tuple, other: tuple) -> list[float]:
    """Prints how far two runs are apart; returns the drift after each block and of the logits."""
    (streams, logits), (others, other_logits) = one, other
    drifts = [drift(a, b) for a, b in zip([*streams, logits], [*others, other_logits], strict=True)]
    by_block = "  ".join(f"{value:.1e}" for value in drifts[:-1])
    agree = (logits.argmax(-1) == other_logits.argmax(-1)).float().mean()
    print(f"{name:18} after each block: {by_block}")
    print(f"{'':18} logits: {drifts[-1]:.1e}, largest {float((logits - other_logits).abs().max()):.3f}; "
          f"the same next token in {agree:.1%} of positions")  # fmt: skip
    return drifts


def figure(lines: dict[str, list[float]]) -> str:
    """The drifts, on a logarithmic scale, as SVG."""
    left, top, width, height = 70, 30, 520, 260
    colours = dict(zip(lines, ("#3b6ea5", "#c0392b", "#27804a"), strict=False))
    positive = [value for drifts in lines.values() for value in drifts if value > 0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    points = max(map(len, lines.values()))

    def x(i: int) -> float:
        return left + width * i / (points - 1)

    def y(value: float) -> float:
        return top + height * (high - math.log10(max(value, 10.0**low))) / (high - low)

    parts = [f'<text x="{left}" y="18">relative drift of the stream after each block, and of the logits</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at}" y2="{at}" stroke="#8886"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4}" text-anchor="end">1e{power}</text>')
    for i in range(points):
        label = f"block {i + 1}" if i < points - 1 else "logits"
        parts.append(f'<text x="{x(i)}" y="{top + height + 20}" text-anchor="middle">{label}</text>')
    for row, (name, drifts) in enumerate(lines.items()):
        path = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(drifts))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
        label = f'<text x="{left + width + 12}" y="{top + 14 + 20 * row}" style="fill:{colours[name]}">'
        parts.append(f"{label}{html.escape(name)}</text>")
    size = f'viewBox="0 0 {left + width + 190} {top + height + 40}"'
    style = "<style>text{font:13px sans-serif;fill:#777}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{"".join(parts)}</svg>\n'


def audit(folder: Path) -> bool:
    """Whether the recording is equal under its own profile, and told apart from the other."""
    own = mmaemu.audit(folder, profile="hopper")
    other = mmaemu.audit(folder, profile="ada")
    print(own.verdict)
    print(f"{other.verdict}\n  {other.diagnosis}")
    return own.exit_code == 0 and "profile hopper" in other.diagnosis


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, metavar="PATH", help="write the drift by layer as an SVG file")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        model = Transformer()
        tokens = torch.randint(0, VOCABULARY, (TOKENS,))
        begin = time.perf_counter()
        with mmaemu.record(folder), mmaemu.emulate("hopper") as log:
            hopper = model(tokens)
        print(log.summary(), f"({time.perf_counter() - begin:.1f} s with the recording)\n")
        with mmaemu.emulate("ada"):
            ada = model(tokens)
        with ExactProducts():
            exact = model(tokens)
        lines = {
            "H100 - RTX 4060": compare("H100 - RTX 4060", hopper, ada),
            "H100 - exact": compare("H100 - exact", hopper, exact),
            "RTX 4060 - exact": compare("RTX 4060 - exact", ada, exact),
        }
        print()
        found = audit(Path(folder))
    if arguments.figure:
        arguments.figure.write_text(figure(lines))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
