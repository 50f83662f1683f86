"""numpy arrays of ml_dtypes, DLPack producers, and an interpreter that has no torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, bits, codes, run_python

NUMPY = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}


def array(rows: int, depth: int, dtype: torch.dtype = E4M3, *, seed: int = 0) -> np.ndarray:
    """The codes of calls.codes as an array."""
    return codes(rows, depth, dtype, seed=seed).view(torch.uint8).numpy().view(NUMPY[dtype])


def word_bits(result: np.ndarray) -> list[Any]:
    return result.view(np.int32).tolist()


class Producer:
    """An object that offers DLPack and nothing else."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __dlpack__(self, **options: Any) -> Any:
        return self.source.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()


@pytest.mark.filterwarnings("ignore::mmaemu.UnverifiedSplitWarning")
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("formats", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
def test_accumulate_of_arrays_gives_an_array_with_the_bits_of_tensors(fast: bool, formats: tuple) -> None:
    how = {"use_fast_accum": fast, "splitk": (2, "contiguous")}
    shapes = [(5, 272, formats[0]), (7, 272, formats[1])]
    arrays = mmaemu.accumulate(*(array(*shape) for shape in shapes), **how)
    tensors = mmaemu.accumulate(*(codes(*shape) for shape in shapes), **how)
    assert isinstance(arrays, np.ndarray)
    assert (arrays.shape, arrays.dtype, arrays.flags.c_contiguous) == ((5, 7), np.float32, True)
    assert word_bits(arrays) == bits(tensors)


def test_dot_of_arrays_gives_an_array_with_the_bits_of_tensors() -> None:
    start = np.linspace(-3.0, 3.0, 5, dtype=np.float32)
    arrays = mmaemu.model.dot(array(5, 64, seed=1), array(5, 64, seed=2), start)
    tensors = mmaemu.model.dot(codes(5, 64, seed=1), codes(5, 64, seed=2), torch.from_numpy(start))
    assert isinstance(arrays, np.ndarray)
    assert (arrays.shape, arrays.dtype) == ((5,), np.float32)
    assert word_bits(arrays) == bits(tensors)


def test_dot_of_float64_arrays_takes_fmt() -> None:
    a, b = array(5, 64, E4M3), array(5, 64, E5M2)
    want = mmaemu.model.dot(a, b)
    got = mmaemu.model.dot(a.astype(np.float64), b.astype(np.float64), fmt=("e4m3", "e5m2"))
    assert word_bits(got) == word_bits(want)


def test_the_leading_dimensions_of_dot_are_kept() -> None:
    a = array(6, 32).reshape(2, 3, 32)
    assert mmaemu.model.dot(a, a).shape == (2, 3)
    assert mmaemu.model.dot(a[0, 0], a[0, 0]).shape == ()
    assert mmaemu.model.dot(a[:0], a[:0]).shape == (0, 3)
    assert mmaemu.model.dot(a[..., :0], a[..., :0]).tolist() == [[0.0] * 3] * 2


def test_arrays_may_have_any_strides() -> None:
    a, b = array(5, 48, seed=1), array(7, 48, seed=2)
    want = word_bits(mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1))
    reversed_memory = np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
    fortran = np.asfortranarray(b)
    read_only = a.copy()
    read_only.flags.writeable = False
    assert word_bits(mmaemu.accumulate(reversed_memory, fortran, use_fast_accum=True, splitk=1)) == want
    assert word_bits(mmaemu.accumulate(read_only, b, use_fast_accum=True, splitk=1)) == want
    broadcast = np.broadcast_to(a[:1], (3, 48))
    assert word_bits(mmaemu.accumulate(broadcast, b, use_fast_accum=True, splitk=1)) == [want[0]] * 3


@pytest.mark.parametrize("order", ["<f4", ">f4"])
def test_c_of_dot_may_have_any_byte_order_and_alignment(order: str) -> None:
    zeros = np.zeros((3, 32), ml_dtypes.float8_e4m3fn)
    memory = np.zeros(13, np.uint8)
    unaligned = memory[1:].view(order)
    unaligned[:] = [1.0, 2.5, -3.0]
    assert mmaemu.model.dot(zeros, zeros, unaligned).tolist() == [1.0, 2.5, -3.0]


def test_out_dtype_for_split_of_arrays_is_a_numpy_dtype_or_a_name() -> None:
    a = array(64, 2048)
    b = array(256, 2048, E5M2)
    how = {"use_fast_accum": True, "profile": "ada"}
    want = mmaemu.accumulate(codes(64, 2048), codes(256, 2048, E5M2), out_dtype_for_split=torch.bfloat16, **how)
    for dtype in ("bfloat16", np.dtype(ml_dtypes.bfloat16), ml_dtypes.bfloat16):
        got = mmaemu.accumulate(a, b, out_dtype_for_split=dtype, **how)
        assert word_bits(got) == bits(want)
    for dtype in (3, None, "int32", np.int32):
        with pytest.raises(TypeError, match="out_dtype_for_split must be"):
            mmaemu.accumulate(a, b, out_dtype_for_split=dtype, **how)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3])
def test_arrays_of_other_dtypes_are_type_errors(dtype: Any) -> None:
    with pytest.raises(TypeError, match="a must be float8_e4m3fn or float8_e5m2, not"):
        mmaemu.accumulate(np.zeros((3, 32), dtype), array(3, 32), use_fast_accum=True, splitk=1)
    with pytest.raises(TypeError, match="a must be float8_e4m3fn, float8_e5m2, or float64"):
        mmaemu.model.dot(np.zeros((3, 32), dtype), array(3, 32))


def test_arrays_and_tensors_do_not_mix() -> None:
    with pytest.raises(TypeError, match="both be torch tensors or both numpy arrays, not ndarray and Tensor"):
        mmaemu.accumulate(array(3, 32), codes(3, 32), use_fast_accum=True, splitk=1)
    with pytest.raises(TypeError, match="not Tensor and ndarray"):
        mmaemu.accumulate(codes(3, 32), array(3, 32), use_fast_accum=True, splitk=1)
    with pytest.raises(TypeError, match="b must be a numpy array, as a is, not Tensor"):
        mmaemu.model.dot(array(3, 32), codes(3, 32))
    with pytest.raises(TypeError, match="c must be a torch tensor, not ndarray"):
        mmaemu.model.dot(codes(3, 32), codes(3, 32), np.zeros(3, np.float32))


def test_arrays_are_no_tensors_to_scaled_mm() -> None:
    with pytest.raises(TypeError, match="argument 'input' must be Tensor, not ndarray"):
        mmaemu.scaled_mm(array(16, 32), array(16, 32).T, np.float32(1), np.float32(1))


def test_dlpack_producers_become_tensors() -> None:
    doubles = codes(5, 32).double()
    got = mmaemu.model.dot(Producer(doubles), Producer(doubles.numpy()), fmt="e4m3")
    assert isinstance(got, torch.Tensor)
    assert bits(got) == bits(mmaemu.model.dot(doubles, doubles, fmt="e4m3"))


def test_dlpack_producers_of_fp8_where_torch_exchanges_it() -> None:
    a = codes(5, 32)
    how = {"use_fast_accum": True, "splitk": 1}
    try:
        torch.from_dlpack(Producer(a))
    except (BufferError, RuntimeError, TypeError):
        with pytest.raises(TypeError, match="cannot import a Producer by DLPack"):
            mmaemu.accumulate(Producer(a), Producer(a), **how)
    else:
        assert bits(mmaemu.accumulate(Producer(a), Producer(a), **how)) == bits(mmaemu.accumulate(a, a, **how))


def test_a_broken_dlpack_producer_is_a_type_error_with_the_reasons() -> None:
    class Broken(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("nothing to offer")

    with pytest.raises(TypeError, match=r"cannot import a Broken by DLPack \(torch: .*; numpy: nothing to offer\)"):
        mmaemu.accumulate(Broken(codes(3, 32).double()), codes(3, 32), use_fast_accum=True, splitk=1)


def test_a_result_that_numpy_cannot_allocate_is_numpys_error() -> None:
    tall = np.broadcast_to(array(1, 32), (2**40, 32))
    with pytest.raises(MemoryError):
        mmaemu.accumulate(tall, array(4, 32), use_fast_accum=True, splitk=1)
    with pytest.raises(ValueError, match="array is too big"):
        mmaemu.accumulate(tall, tall, use_fast_accum=True, splitk=1)


def test_everything_but_torchs_own_calls_works_where_torch_cannot_be_imported() -> None:
    result = run_python(
        """
        import sys

        class NoTorch:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "torch":
                    raise ImportError("torch is blocked")

        sys.meta_path.insert(0, NoTorch())
        import ml_dtypes, mmaemu, numpy as np

        codes = (np.arange(5 * 64, dtype=np.uint8) % 0x77).reshape(5, 64)
        a, b = codes.view(ml_dtypes.float8_e4m3fn), codes[::-1].view(ml_dtypes.float8_e5m2)
        product = mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1, profile="ada")
        chains = mmaemu.model.dot(a, b, np.zeros(5, np.float32), preset="ada")
        doubles = mmaemu.model.dot(a.astype(float), b.astype(float), preset="ada", fmt=("e4m3", "e5m2"))
        assert product.diagonal().tobytes() == chains.tobytes() == doubles.tobytes()
        assert np.isfinite(product).all() and product.any()
        assert mmaemu.accumulate(a[:0], b, use_fast_accum=True).shape == (0, 5)
        decision = mmaemu.resolve_splitk(16, 64, 12288, a_dtype=a.dtype, b_dtype=b.dtype, out_dtype=np.float32,
                                         use_fast_accum=False)
        assert decision.source == "table"
        assert mmaemu.get_profile().name == "hopper"
        assert mmaemu.backends_status()["reference"].available
        assert mmaemu.selftest() == {}
        for call in (lambda: mmaemu.scaled_mm(a, b.T, 1, 1), lambda: mmaemu.testing.bits(a)):
            try:
                call()
            except ImportError as error:
                assert "torch" in str(error)
            else:
                raise AssertionError("no ImportError")
        assert not any(name.split(".")[0] == "torch" for name in sys.modules)
        """
    )
    assert (result.returncode, result.stderr) == (0, "")
