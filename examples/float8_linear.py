#!/usr/bin/env python3
"""A linear layer with FP8 operands whose outputs are those of an H100 PCIe, bit for bit, on any machine.

The layer quantises per tensor, as Transformer Engine and torchao do for inference, and calls torch's product where it
would run on a GPU. profile="hopper" is torch._scaled_mm on an H100 PCIe; for a layer of Transformer Engine it is
"hopper-te", whose split of K may be another.
"""

from __future__ import annotations

import torch

import mmaemu


class Float8Linear(torch.nn.Module):
    """y = x @ weight.T for weight [N, K], K and N multiples of 16."""

    def __init__(self, linear: torch.nn.Linear, profile: str = "hopper") -> None:
        super().__init__()
        if linear.bias is not None:
            raise ValueError("where cuBLAS rounds with a bias is not recorded: add it after the layer")
        weight, self.weight_scale = quantise(linear.weight.detach())
        self.weight = mmaemu.pack(weight)  # once: every call reads it in the CPU's order
        self.profile = profile

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes, scale = quantise(x.reshape(-1, x.shape[-1]))
        y = mmaemu.scaled_mm(
            codes,
            self.weight,
            scale,
            self.weight_scale,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
            profile=self.profile,
        )
        return y.reshape(*x.shape[:-1], -1)


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E4M3 codes of x, and the scale that gives x back."""
    scale = x.abs().amax().float().clamp(min=1e-12) / torch.finfo(torch.float8_e4m3fn).max
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def main() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(4096, 1024, bias=False)
    x = torch.randn(4, 8, 4096)
    with torch.no_grad():
        full = linear(x)
        results = {profile: Float8Linear(linear, profile)(x) for profile in ("hopper", "ada")}
    for profile, y in results.items():
        error = (y.float() - full).norm() / full.norm()
        print(f"{profile:7} {list(y.shape)} {y.dtype}, {100 * error:.2f} % from the float32 layer")
    different = int((mmaemu.testing.bits(results["hopper"]) != mmaemu.testing.bits(results["ada"])).sum())
    print(f"{different} of {results['ada'].numel()} outputs differ between the two GPUs")


if __name__ == "__main__":
    main()
