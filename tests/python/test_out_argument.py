"""out= of scaled_mm: which memory is written, which is left alone, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes, scaled
from mmaemu import ReferenceRejectsError, UnsupportedFeatureError

# Each makes a [rows, columns] view of larger memory, filled with a number that no result holds.
WRITTEN: dict[str, Callable[[int, int], torch.Tensor]] = {
    "contiguous": lambda rows, columns: torch.full((rows, columns), 7.0),
    "padded rows": lambda rows, columns: torch.full((rows, columns + 5), 7.0)[:, :columns],
    "offset": lambda rows, columns: torch.full((rows + 3, columns), 7.0)[3:],
    "odd offset": lambda rows, columns: torch.full((rows * columns + 1,), 7.0)[1:].view(rows, columns),
    "transposed": lambda rows, columns: torch.full((columns, rows), 7.0).t(),
    "padded columns": lambda rows, columns: torch.full((columns, rows + 5), 7.0)[:, :rows].t(),
}
UNCHANGED: dict[str, Callable[[int, int], torch.Tensor]] = {
    "every other column": lambda rows, columns: torch.full((rows, 2 * columns), 7.0)[:, ::2],
    "a slice of three dimensions": lambda rows, columns: torch.full((rows, columns, 2), 7.0)[:, :, 1],
    "one row expanded": lambda rows, columns: torch.full((1, columns), 7.0).expand(rows, columns),
    "one column expanded": lambda rows, columns: torch.full((rows, 1), 7.0).expand(rows, columns),
    "one element expanded": lambda rows, columns: torch.full((1, 1), 7.0).expand(rows, columns),
    "overlapping rows": lambda rows, columns: torch.full((1000,), 7.0).as_strided((rows, columns), (columns - 1, 1)),
}


def memory_of(view: torch.Tensor) -> torch.Tensor:
    """All the memory behind a view."""
    return torch.empty(0, dtype=view.dtype).set_(view.untyped_storage())


@pytest.mark.parametrize("layout", WRITTEN)
@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (5, 16), (1, 16)])
def test_any_row_or_column_major_out_is_written_and_returned(layout: str, rows: int, columns: int) -> None:
    call = {"input": codes(rows, 32, seed=3), "mat2": codes(columns, 32, seed=4).t()}
    out = WRITTEN[layout](rows, columns)
    inside = torch.zeros(memory_of(out).numel(), dtype=torch.bool)
    inside.as_strided(out.shape, out.stride(), out.storage_offset()).fill_(True)
    result = scaled(**call, out=out)
    assert result is out
    assert bits(out) == bits(scaled(**call))
    assert (memory_of(out)[~inside] == 7.0).all()


@pytest.mark.parametrize("layout", UNCHANGED)
def test_an_out_of_neither_layout_is_returned_unchanged_with_a_warning(layout: str) -> None:
    out = UNCHANGED[layout](16, 16)
    with pytest.warns(UserWarning, match=r"neither row- nor column-major.*returned unchanged") as caught:
        result = scaled(out=out)
    assert [warning.filename for warning in caught] == [scaled.__code__.co_filename]
    assert result is out
    assert (memory_of(out) == 7.0).all()


def test_an_out_returned_unchanged_is_what_explain_says() -> None:
    plan = mmaemu.explain(**arguments(out=torch.zeros(16, 32)[:, ::2]))
    assert (plan.validation, plan.backend, plan.split) == ("ok", "none (out= is returned unchanged)", None)
    assert [("returned unchanged" in warning) for warning in plan.warnings] == [True]


RESIZED: dict[str, Callable[[], torch.Tensor]] = {
    "smaller": lambda: torch.zeros(3, 3),
    "larger": lambda: torch.zeros(64, 64),
    "a vector of the same size": lambda: torch.zeros(256),
    "transposed sizes": lambda: torch.zeros(32, 8),
    "a view": lambda: torch.zeros(100)[10:20],
    "expanded": lambda: torch.zeros(1).expand(7),
}


@pytest.mark.parametrize("name", RESIZED)
def test_an_out_of_another_shape_is_resized_with_torchs_warning(name: str) -> None:
    out = RESIZED[name]()
    with pytest.warns(UserWarning, match=r"An output with one or more elements was resized .*\[16, 16\]"):
        result = scaled(out=out)
    assert result is out
    assert (out.shape, out.is_contiguous()) == ((16, 16), True)
    assert bits(out) == bits(scaled())


def test_an_empty_out_is_resized_without_a_warning() -> None:
    out = torch.zeros(0)
    assert scaled(out=out) is out
    assert bits(out) == bits(scaled())


def test_an_out_keeps_its_shape_when_the_resize_warning_is_an_error() -> None:
    out = torch.full((3, 3), 7.0)
    with pytest.raises(UserWarning, match="was resized"):
        scaled(out=out)
    assert bits(out) == bits(torch.full((3, 3), 7.0))


def test_nothing_is_said_of_a_resize_when_the_call_is_refused() -> None:
    out = torch.full((3, 3), 7.0)
    with pytest.raises(mmaemu.SplitKUnknownError):
        scaled(out=out, splitk="auto", profile="hopper")
    assert bits(out) == bits(torch.full((3, 3), 7.0))


@pytest.mark.parametrize("fill", [float("nan"), float("inf"), -0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3])
def test_the_previous_contents_of_out_never_matter(fill: float, dtype: torch.dtype) -> None:
    out = torch.full((16, 16), fill).to(dtype)
    assert bits(scaled(out=out, out_dtype=dtype)) == bits(scaled(out_dtype=dtype))


def test_out_may_share_memory_with_the_operands_and_scales() -> None:
    square = {"mat2": codes(16, 16, seed=5).t(), "out_dtype": E4M3}
    want = bits(scaled(input=codes(16, 16, seed=6), **square))
    operand = codes(16, 16, seed=6)
    assert bits(scaled(input=operand, **square, out=operand)) == want
    memory = torch.full((16, 16), 0.5)
    assert bits(scaled(scale_a=memory[3, 3], out=memory)) == bits(scaled(scale_a=torch.tensor(0.5)))


def test_the_dtype_of_out_is_the_default_of_out_dtype() -> None:
    out = torch.zeros(16, 16, dtype=torch.bfloat16)
    assert scaled(out=out, out_dtype=None) is out
    assert bits(out) == bits(scaled(out_dtype=torch.bfloat16))


def test_an_out_of_another_dtype_is_refused() -> None:
    with pytest.raises(ReferenceRejectsError, match="out_dtype is float32 but out= is bfloat16"):
        scaled(out=torch.zeros(16, 16, dtype=torch.bfloat16))


def test_an_out_on_another_device_is_refused() -> None:
    with pytest.raises(ReferenceRejectsError, match="input is on cpu, out is on meta"):
        scaled(out=torch.zeros(16, 16, device="meta"))


def test_an_out_that_requires_grad_is_refused_in_grad_mode() -> None:
    out = torch.zeros(16, 16, requires_grad=True)
    with pytest.raises(UnsupportedFeatureError, match="out requires grad"):
        scaled(out=out)
    assert not out.any()
    with torch.no_grad():
        assert bits(scaled(out=out)) == bits(scaled())


def test_memory_that_torch_cannot_resize_is_refused_and_unchanged() -> None:
    array = np.full(9, 7.0, np.float32)
    out = torch.from_numpy(array)
    with pytest.raises(ReferenceRejectsError, match=r"out= of shape \[9\] cannot become \[16, 16\]: .*not resizable"):
        scaled(out=out)
    assert (out.shape, array.tolist()) == ((9,), [7.0] * 9)


def test_an_inference_tensor_is_refused_outside_inference_mode() -> None:
    with torch.inference_mode():
        out = torch.zeros(16, 16)
    with pytest.raises(ReferenceRejectsError, match="out= is an inference tensor"):
        scaled(out=out)
    assert not out.any()
    with torch.inference_mode():
        assert bits(scaled(out=out)) == bits(scaled())


@pytest.mark.parametrize("layout", [*WRITTEN, "every other column", "a slice of three dimensions"])
def test_an_out_for_k_of_zero_is_zeroed_in_any_layout(layout: str) -> None:
    out = (WRITTEN | UNCHANGED)[layout](16, 16)
    result = scaled(input=codes(16, 0), mat2=codes(16, 0).t(), scale_a=torch.tensor(float("nan")), out=out)
    assert result is out
    assert bits(out) == bits(torch.zeros(16, 16))


def test_an_expanded_out_for_k_of_zero_is_refused_as_torch_does() -> None:
    out = torch.full((1, 16), 7.0).expand(16, 16)
    with pytest.raises(ReferenceRejectsError, match=r"out= with strides \[0, 1\] has several elements in one place"):
        scaled(input=codes(16, 0), mat2=codes(16, 0).t(), out=out)
    assert (out == 7.0).all()


def test_a_column_major_out_is_computed_as_the_transposed_problem() -> None:
    """The split is that of N x M x K with the formats exchanged, as cuBLAS sees the call."""
    M, N, K = 64, 256, 2048
    a, b = codes(M, K, E4M3, seed=7), codes(N, K, E5M2, seed=8)
    how = {"out_dtype": torch.bfloat16, "use_fast_accum": True, "profile": "ada"}
    plain = mmaemu.resolve_splitk(M, N, K, a_dtype=E4M3, b_dtype=E5M2, **how)
    exchanged = mmaemu.resolve_splitk(N, M, K, a_dtype=E5M2, b_dtype=E4M3, **how)
    assert (plain.S, exchanged.S) == (3, 1)
    call = {"input": a, "mat2": b.t(), "scale_a": torch.tensor(0.5), "scale_b": torch.tensor(2.0), **how}
    out = torch.zeros(N, M, dtype=torch.bfloat16)
    assert mmaemu.explain(**call).split == plain
    assert mmaemu.explain(**call, out=out.t()).split == exchanged
    mmaemu.scaled_mm(**call, out=out.t())
    assert bits(out.t()) == bits(mmaemu.scaled_mm(**call, splitk=1))
    assert bits(out.t()) != bits(mmaemu.scaled_mm(**call))
