"""Bad input: a documented error that names what is wrong, at once, whatever the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes, scaled
from mmaemu import ReferenceRejectsError, UnsupportedFeatureError

HUGE = 2**40


def expanded(rows: int, depth: int) -> torch.Tensor:
    """A matrix of any size in 16 bytes of memory."""
    return torch.zeros(1, 16, dtype=torch.uint8).view(E4M3)[:, :1].expand(rows, depth)


def meta(*shape: int, dtype: torch.dtype = E4M3) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("value", [None, 1, 1.0, "tensor", [[1.0]], object(), np.zeros((16, 32), np.float32)])
def test_operands_that_are_no_tensors_are_type_errors(value: Any) -> None:
    for name in ("input", "mat2"):
        with pytest.raises(TypeError, match=f"argument '{name}' must be Tensor, not {type(value).__name__}"):
            scaled(**{name: value})
    for name, call in (("a", {"a": value, "b": codes(3, 32)}), ("b", {"a": codes(3, 32), "b": value})):
        with pytest.raises(TypeError, match=f"(?s)accumulate.*{name}.*{type(value).__name__}"):
            mmaemu.accumulate(**call, use_fast_accum=True, splitk=1)


@pytest.mark.parametrize("value", [1, 0, None, "True", torch.tensor(True)])
def test_use_fast_accum_must_be_a_bool(value: Any) -> None:
    with pytest.raises(TypeError, match="'use_fast_accum' must be bool"):
        scaled(use_fast_accum=value)
    with pytest.raises(TypeError, match="use_fast_accum must be a bool"):
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=value, splitk=1)


def test_a_numpy_bool_is_no_bool_to_scaled_mm_and_one_to_accumulate() -> None:
    with pytest.raises(TypeError, match="'use_fast_accum' must be bool"):
        scaled(use_fast_accum=np.bool_(True))
    a = codes(3, 256)
    want = mmaemu.accumulate(a, a, use_fast_accum=True, splitk=1)
    assert bits(mmaemu.accumulate(a, a, use_fast_accum=np.bool_(True), splitk=1)) == bits(want)


@pytest.mark.parametrize("splitk", [None, 1.0, "1", "serial", True, [1], (1,), (2, "serial", 3), (2, 3), {}, {1}])
def test_a_splitk_of_another_type_is_a_type_error(splitk: Any) -> None:
    with pytest.raises(TypeError, match="splitk must be"):
        scaled(splitk=splitk)
    with pytest.raises(TypeError, match="splitk must be"):
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=True, splitk=splitk)


@pytest.mark.parametrize("splitk", [0, -1, 2, 2**70, (0, "serial"), (1, "serial"), (2, "none"), (-3, "pairwise")])
def test_a_splitk_out_of_range_is_a_value_error(splitk: Any) -> None:
    with pytest.raises(ValueError, match=r"split|S"):
        scaled(splitk=splitk)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.float8_e4m3fnuz])
def test_operands_of_other_dtypes_are_refused(dtype: torch.dtype) -> None:
    operand = torch.zeros(16, 32).to(dtype)
    with pytest.raises(ReferenceRejectsError, match=f"input .*{str(dtype).removeprefix('torch.')}"):
        scaled(input=operand)
    with pytest.raises(TypeError, match="a must be float8_e4m3fn or float8_e5m2, not"):
        mmaemu.accumulate(operand, codes(3, 32), use_fast_accum=True, splitk=1)


@pytest.mark.parametrize("shape", [(), (32,), (1, 16, 32)])
def test_operands_that_are_no_matrices_are_refused(shape: tuple[int, ...]) -> None:
    operand = torch.zeros(shape, dtype=torch.uint8).view(E4M3)
    with pytest.raises(ReferenceRejectsError, match="input must be a matrix"):
        scaled(input=operand)
    with pytest.raises(ValueError, match=r"a \[M, K\] must have two dimensions"):
        mmaemu.accumulate(operand, codes(3, 32), use_fast_accum=True, splitk=1)


@pytest.mark.parametrize("depth", [1, 15, 17, 24, 40])
def test_k_and_n_must_be_multiples_of_16_in_scaled_mm_alone(depth: int) -> None:
    with pytest.raises(ReferenceRejectsError, match=f"K must be a multiple of 16, not {depth}"):
        scaled(input=codes(16, depth), mat2=codes(16, depth).t())
    with pytest.raises(ReferenceRejectsError, match=f"N must be a multiple of 16, not {depth}"):
        scaled(mat2=codes(depth, 32).t())
    assert mmaemu.accumulate(codes(3, depth), codes(depth, depth), use_fast_accum=True, splitk=1).shape == (3, depth)


def test_m_is_free() -> None:
    assert scaled(input=codes(7, 32)).shape == (7, 16)


@pytest.mark.parametrize("offset", [1, 8, 15])
def test_storage_offsets_must_be_multiples_of_16_in_scaled_mm_alone(offset: int) -> None:
    memory = torch.zeros(16 * 32 + 16, dtype=torch.uint8).view(E4M3)
    shifted = memory[offset : offset + 16 * 32].view(16, 32)
    with pytest.raises(ReferenceRejectsError, match="input must start at a multiple of 16 bytes"):
        scaled(input=shifted)
    with pytest.raises(ReferenceRejectsError, match="mat2 must start at a multiple of 16 bytes"):
        scaled(mat2=shifted.t())
    assert not mmaemu.accumulate(shifted, shifted, use_fast_accum=True, splitk=1).any()
    assert scaled(input=memory[16:].view(16, 32)).shape == (16, 16)


def test_accumulate_takes_any_layout() -> None:
    a, b = codes(5, 48, seed=1), codes(7, 48, seed=2)
    want = bits(mmaemu.accumulate(a, b, use_fast_accum=False, splitk=1))
    column_major = a.t().contiguous().t()
    strided = torch.zeros(5, 96, dtype=torch.uint8).view(E4M3)[:, ::2].copy_(a)
    shifted = torch.zeros(7 * 48 + 1, dtype=torch.uint8).view(E4M3)[1:].view(7, 48).copy_(b)
    for left in (a, column_major, strided):
        for right in (b, shifted):
            assert bits(mmaemu.accumulate(left, right, use_fast_accum=False, splitk=1)) == want


def test_e5m2_by_e5m2_is_allowed_in_accumulate_alone() -> None:
    a, b = codes(16, 32, E5M2), codes(16, 32, E5M2)
    with pytest.raises(ReferenceRejectsError, match="both float8_e5m2"):
        scaled(input=a, mat2=b.t())
    assert mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1).shape == (16, 16)


def test_accumulate_refuses_operands_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match=r"a \[3, 32\] and b \[3, 48\] must agree in K"):
        mmaemu.accumulate(codes(3, 32), codes(3, 48), use_fast_accum=True, splitk=1)
    with pytest.raises(ValueError, match="a is on cpu and b on meta"):
        mmaemu.accumulate(codes(3, 32), meta(3, 32), use_fast_accum=True, splitk=1)
    with pytest.raises(TypeError, match=r"out_dtype_for_split must be a torch.dtype, not str"):
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=True, splitk=1, out_dtype_for_split="float32")
    with pytest.raises(TypeError, match="out_dtype_for_split must be the dtype of a result, not int32"):
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=True, splitk=1, out_dtype_for_split=torch.int32)


def test_meta_tensors_are_refused() -> None:
    call = {
        "input": meta(16, 32),
        "mat2": meta(16, 32).t(),
        "scale_a": meta(dtype=torch.float32),
        "scale_b": meta(dtype=torch.float32),
    }
    with pytest.raises(UnsupportedFeatureError, match='tensors on device "meta"'):
        scaled(**call)
    assert mmaemu.explain(**arguments(**call)).validation[0] == "UnsupportedFeatureError"
    with pytest.raises(UnsupportedFeatureError, match='tensors on device "meta"'):
        mmaemu.accumulate(meta(3, 32), meta(3, 32), use_fast_accum=True, splitk=1)


@pytest.mark.parametrize("name", ["input", "mat2", "scale_a", "scale_b", "scale_result", "out"])
def test_fake_tensors_are_refused(name: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = arguments(scale_result=torch.tensor(1.0), out=torch.zeros(16, 16))
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real[name])
    with pytest.raises(UnsupportedFeatureError, match=f"{name} is a FakeTensor .*holds no data"):
        mmaemu.scaled_mm(**real | {name: fake})


def test_tensors_of_a_function_transform_are_refused() -> None:
    call = arguments()
    with pytest.raises(UnsupportedFeatureError, match=r"scale_a .*holds no data"):
        torch.vmap(lambda scale: mmaemu.scaled_mm(**call | {"scale_a": scale}))(torch.ones(3))


@pytest.mark.parametrize("name", ["input", "mat2", "scale_a"])
def test_sparse_tensors_are_refused_as_torch_does(name: str) -> None:
    sparse = torch.eye(16).to_sparse()
    with pytest.raises(
        ReferenceRejectsError, match=f"{name} must be a dense tensor, not one of layout torch.sparse_coo"
    ):
        scaled(**{name: sparse})
    assert mmaemu.explain(**arguments(**{name: sparse})).validation[0] == "ReferenceRejectsError"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused_as_torch_does() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 32), torch.ones(3, 32)])
    with pytest.raises(ReferenceRejectsError, match="input must be a dense tensor, not one of layout nested"):
        scaled(input=nested)
    assert mmaemu.explain(**arguments(input=nested)).validation[0] == "ReferenceRejectsError"


def test_negated_views_give_negated_results_or_are_refused() -> None:
    negated = torch.complex(torch.zeros(4), torch.tensor([1.0, 2.0, 3.0, 4.0])).conj().imag
    assert negated.is_neg()
    a = torch.zeros(4, 32).to(E4M3)
    for start in (negated, torch._neg_view(torch.tensor([1.0, 2.0, 3.0, 4.0]))):
        assert mmaemu.model.dot(a, a, start).tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert bits(scaled(scale_a=negated[1])) == bits(scaled(scale_a=torch.tensor(-2.0)))
    with pytest.raises(UnsupportedFeatureError, match="input is a negated view"):
        scaled(input=torch._neg_view(codes(16, 32)))


@pytest.mark.parametrize("rows", [HUGE, 2**58])
def test_products_of_sizes_that_overflow_are_planned_without_memory(rows: int) -> None:
    column = torch.zeros(1, 16, dtype=torch.uint8).view(E4M3)
    plan = mmaemu.explain(**arguments(input=column.expand(rows, 16), mat2=codes(16, 16).t(), splitk="auto"))
    assert plan.validation == "ok"
    assert plan.split.source == "envelope"


def test_k_of_2_to_the_40_is_planned_without_memory() -> None:
    wide = torch.zeros(1, 1, dtype=torch.uint8).view(E4M3).expand(16, HUGE)
    with pytest.raises(ReferenceRejectsError, match=r"input must be row-major|mat2 must be column-major"):
        scaled(input=wide, mat2=wide.t())
    decision = mmaemu.resolve_splitk(
        16, 16, HUGE, a_dtype=E4M3, b_dtype=E4M3, out_dtype=torch.float32, use_fast_accum=True, splitk=1
    )
    assert decision.S == 1


@pytest.mark.parametrize(("rows", "columns"), [(HUGE, 16), (2**31, 2**31), (2**62, 16)])
def test_a_result_that_no_memory_holds_is_an_error(rows: int, columns: int) -> None:
    with pytest.raises((MemoryError, RuntimeError)):
        mmaemu.accumulate(expanded(rows, 16), expanded(columns, 16), use_fast_accum=True, splitk=1)
