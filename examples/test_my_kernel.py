"""A test of a kernel against the bits of an H100 PCIe: pytest examples/test_my_kernel.py

my_kernel stands for yours. This one is right: it computes what the H100's tensor core computes, slowly, in integers.
Where a kernel does something else, assert_bitwise_equal says how many elements differ, in which way, and where.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mmaemu
from mmaemu.testing import assert_bitwise_equal

BLOCK, FRACTION_BITS = 32, 13


def my_kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """fp32 accumulators of x @ w.T, fast: blocks of 32 products, cut to 13 bits below the largest exponent."""
    a, b = x.double().numpy()[:, None, :], w.double().numpy()[None, :, :]
    accumulator = np.zeros((x.shape[0], w.shape[0]))
    for begin in range(0, x.shape[1], BLOCK):
        left, right = a[..., begin : begin + BLOCK], b[..., begin : begin + BLOCK]
        products = left * right
        exponents = np.where(products == 0, -1000, np.frexp(left)[1] + np.frexp(right)[1] - 2).max(axis=-1)
        of_sum = np.where(accumulator == 0, -1000, np.frexp(accumulator)[1] - 1)
        grid = np.exp2(np.maximum(exponents, of_sum).clip(min=-132) - FRACTION_BITS)
        total = np.trunc(products / grid[..., None]).sum(axis=-1) + np.trunc(accumulator / grid)
        last_bit = np.exp2(np.maximum(np.frexp(total * grid)[1] - 1, -126) - FRACTION_BITS)
        accumulator = np.trunc(total * grid / last_bit) * last_bit
    return torch.from_numpy(accumulator + 0.0).float()


def rounds_instead(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A tempting kernel: float32 sums, each rounded to nearest."""
    return x.float() @ w.float().t()


@pytest.fixture(params=[(1, 16, 1920), (16, 128, 512), (7, 48, 4096)], ids=str)
def operands(request: pytest.FixtureRequest) -> tuple[torch.Tensor, torch.Tensor]:
    M, N, K = request.param
    random = torch.Generator().manual_seed(K)
    x, w = (torch.randn(rows, K, generator=random).to(torch.float8_e4m3fn) for rows in (M, N))
    return x, w


def test_my_kernel_returns_the_bits_of_an_h100(operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    expected = mmaemu.accumulate(*operands, use_fast_accum=True, profile="hopper", splitk=1)
    assert_bitwise_equal(my_kernel(*operands), expected)


def test_float32_sums_are_no_substitute(operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    expected = mmaemu.accumulate(*operands, use_fast_accum=True, profile="hopper", splitk=1)
    with pytest.raises(AssertionError, match="value"):
        assert_bitwise_equal(rounds_instead(*operands), expected)
