"""pack and PackedWeight: the bits of the weight that was packed, wherever a weight is taken."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
import torch

import mmaemu
from mmaemu.testing import assert_bitwise_equal

ONE = torch.ones(1)


def codes(rows: int, depth: int, dtype: torch.dtype = torch.float8_e4m3fn, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, depth, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("splitk", [1, (3, "contiguous")])
@pytest.mark.parametrize("M", [1, 16, 33])
def test_scaled_mm_with_a_packed_weight_gives_the_same_bits(dtype, splitk, M):
    x, w = codes(M, 656), codes(112, 656, dtype, seed=1)
    arguments = dict(out_dtype=torch.bfloat16, use_fast_accum=True, splitk=splitk)
    expected = mmaemu.scaled_mm(x, w.t(), ONE, ONE, **arguments)
    assert_bitwise_equal(mmaemu.scaled_mm(x, mmaemu.pack(w), ONE, ONE, **arguments), expected)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
def test_any_layout_can_be_packed(layout):
    w = codes(70, 90, seed=1)
    laid_out = {"rows": w, "columns": w.t().contiguous().t(), "strided": w.repeat_interleave(2, 0)[::2]}[layout]
    a = codes(5, 90)
    expected = mmaemu.accumulate(a, w, use_fast_accum=False, splitk=1)
    assert_bitwise_equal(mmaemu.accumulate(a, mmaemu.pack(laid_out), use_fast_accum=False, splitk=1), expected)


def test_numpy_weights_can_be_packed():
    a = np.arange(3 * 48, dtype=np.uint8).reshape(3, 48).view(ml_dtypes.float8_e5m2)
    b = np.arange(20 * 48, dtype=np.uint16).astype(np.uint8).reshape(20, 48).view(ml_dtypes.float8_e5m2)
    expected = mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1)
    result = mmaemu.accumulate(a, mmaemu.pack(b), use_fast_accum=True, splitk=1)
    assert isinstance(result, np.ndarray)
    assert np.array_equal(result.view(np.uint32), expected.view(np.uint32))


def test_later_changes_of_the_weight_change_nothing():
    x, w = codes(4, 64), codes(32, 64, seed=1)
    expected = mmaemu.scaled_mm(x, w.t(), ONE, ONE, out_dtype=torch.float32, splitk=1)
    packed = mmaemu.pack(w)
    w.zero_()
    assert_bitwise_equal(mmaemu.scaled_mm(x, packed, ONE, ONE, out_dtype=torch.float32, splitk=1), expected)


def test_explain_plans_a_packed_weight_as_its_transpose():
    x, w = codes(16, 1920), codes(5760, 1920, seed=1)
    arguments = dict(out_dtype=torch.bfloat16, use_fast_accum=True)
    assert mmaemu.explain(x, mmaemu.pack(w), ONE, ONE, **arguments) == mmaemu.explain(x, w.t(), ONE, ONE, **arguments)


def test_a_packed_weight_is_checked_like_another():
    x, packed = codes(4, 48), mmaemu.pack(codes(32, 64))
    with pytest.raises(mmaemu.ReferenceRejectsError, match="48"):
        mmaemu.scaled_mm(x, packed, ONE, ONE, out_dtype=torch.float32)
    with pytest.raises(mmaemu.ReferenceRejectsError):
        mmaemu.scaled_mm(codes(4, 24), mmaemu.pack(codes(32, 24)), ONE, ONE, out_dtype=torch.float32)
    with pytest.raises(TypeError, match="input"):
        mmaemu.scaled_mm(packed, codes(32, 64).t(), ONE, ONE)


def test_one_packed_weight_serves_many_threads():
    xs = [codes(8, 256, seed=i) for i in range(16)]
    w = codes(96, 256, seed=99)
    packed = mmaemu.pack(w)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: mmaemu.accumulate(x, packed, use_fast_accum=True, splitk=1), xs))
    for x, result in zip(xs, results, strict=True):
        assert_bitwise_equal(result, mmaemu.accumulate(x, w, use_fast_accum=True, splitk=1))


def test_copies_are_the_weight_itself():
    packed = mmaemu.pack(codes(32, 64))
    assert copy.copy(packed) is packed
    assert copy.deepcopy(packed) is packed
    assert packed.shape == (32, 64)
    assert packed.dtype == "float8_e4m3fn"
    assert repr(packed) == "PackedWeight(shape=(32, 64), dtype=float8_e4m3fn)"


@pytest.mark.parametrize(
    ("w", "error", "says"),
    [
        ("weights", TypeError, "str"),
        (torch.zeros(4, 4), TypeError, "float32"),
        (codes(4, 16)[0], ValueError, r"\(16,\)"),
        (codes(4, 16).to("meta"), mmaemu.UnsupportedFeatureError, "meta"),
        (codes(4, 16).requires_grad_(), mmaemu.UnsupportedFeatureError, "grad"),
    ],
)
def test_what_cannot_be_packed_is_refused(w, error, says):
    with pytest.raises(error, match=says):
        mmaemu.pack(w)
