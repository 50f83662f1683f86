"""mmaemu.testing: bits and assert_bitwise_equal."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import mmaemu
from calls import E4M3, E5M2
from mmaemu.testing import assert_bitwise_equal, bits

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    E4M3,
    E5M2,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def failure(*arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_bitwise_equal(*arguments, **options)
    return str(caught.value)


def float32(*patterns: int) -> torch.Tensor:
    return torch.from_numpy(np.array(patterns, np.uint32).view(np.float32))


def test_assert_bitwise_equal_takes_the_documented_arguments() -> None:
    parameters = inspect.signature(assert_bitwise_equal).parameters.values()
    assert [p.name for p in parameters] == ["actual", "expected", "nan", "msg"]
    assert [(p.name, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY] == [("nan", "bits"), ("msg", "")]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_is_an_integer_view_of_the_same_element_size_without_a_copy(dtype: torch.dtype) -> None:
    t = torch.ones(3, 4).to(dtype)
    view = bits(t)
    assert view.dtype == INTEGERS[t.element_size()]
    assert view.shape == t.shape
    assert view.data_ptr() == t.data_ptr()
    view.zero_()
    assert not t.to(torch.float64).any()


def test_bits_keeps_strides() -> None:
    t = torch.arange(12.0).view(3, 4).t()
    assert bits(t).stride() == t.stride()
    assert bits(torch.tensor(1.0)).tolist() == 0x3F800000


def test_bits_of_a_tensor_that_requires_grad() -> None:
    assert bits(torch.ones(2, requires_grad=True)).tolist() == [0x3F800000] * 2


@pytest.mark.parametrize("value", [1.0, None, np.ones(3), [1.0]])
def test_bits_of_what_is_no_tensor_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"bits\(\): t must be a torch.Tensor, not"):
        bits(value)


def test_bits_of_a_complex_tensor_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must not be complex"):
        bits(torch.ones(3, dtype=torch.complex64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_bits_pass(dtype: torch.dtype) -> None:
    t = torch.arange(12).view(3, 4).to(dtype)
    assert_bitwise_equal(t, t.clone())
    assert_bitwise_equal(t, t.t().contiguous().t())
    assert_bitwise_equal(t[:0], t[:0])


def test_equal_nan_payloads_pass() -> None:
    assert_bitwise_equal(float32(0x7FC01234, 0xFFFFFFFF), float32(0x7FC01234, 0xFFFFFFFF))


def test_other_dtypes_and_shapes_fail_with_both_named() -> None:
    assert failure(torch.ones(2), torch.ones(2).half()) == "actual is torch.float32, expected is torch.float16"
    assert failure(torch.ones(2), torch.ones(1, 2)) == "actual has shape [2], expected has [1, 2]"
    assert failure(torch.ones(2, dtype=torch.int32), torch.ones(2)).startswith("actual is torch.int32")


def test_zeros_of_other_sign_fail() -> None:
    message = failure(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]))
    assert message == (
        "1 of 2 elements of torch.float32 [2] differ (zero sign 1, NaN payload 0, value 0); the first 1:\n"
        "  [0]: actual 0.0 (0x00000000), expected -0.0 (0x80000000): zero sign"
    )


def test_nan_payloads_fail_unless_masked() -> None:
    actual, expected = float32(0x7FC00000, 0x3F800000), float32(0x7FFFFFFF, 0x3F800000)
    message = failure(actual, expected)
    assert "(zero sign 0, NaN payload 1, value 0)" in message
    assert "actual nan (0x7fc00000), expected nan (0x7fffffff): NaN payload" in message
    assert_bitwise_equal(actual, expected, nan="mask")


def test_a_masked_nan_still_differs_from_a_number() -> None:
    message = failure(float32(0x7FC00000, 0x7FC00000), float32(0x7FFFFFFF, 0x3F800000), nan="mask")
    assert message.startswith("1 of 2 elements")
    assert "[1]: actual nan (0x7fc00000), expected 1.0 (0x3f800000): value" in message
    assert "zero sign" in failure(float32(0), float32(0x80000000), nan="mask")


def test_the_mismatches_are_counted_by_class() -> None:
    actual = float32(0x00000000, 0x7FC00000, 0x3F800000, 0x3F800001, 0x40000000)
    expected = float32(0x80000000, 0x7FFFFFFF, 0x3F800001, 0x3F800001, 0x40000001)
    assert "4 of 5 elements of torch.float32 [5] differ (zero sign 1, NaN payload 1, value 2)" in failure(
        actual, expected
    )


def test_the_first_ten_mismatches_are_listed() -> None:
    message = failure(torch.zeros(4, 5), torch.ones(4, 5))
    lines = message.splitlines()
    assert lines[0].endswith("the first 10:")
    assert len(lines) == 11
    assert lines[1].startswith("  [0, 0]: ")
    assert lines[10].startswith("  [1, 4]: ")


def test_the_message_comes_first() -> None:
    assert failure(torch.zeros(1), torch.ones(1), msg="layer 3").startswith("layer 3: 1 of 1 elements")
    assert failure(torch.zeros(1), torch.ones(1).half(), msg="layer 3").startswith("layer 3: actual is")


@pytest.mark.parametrize("dtype", [E4M3, E5M2, torch.float16, torch.bfloat16, torch.float64])
def test_every_class_of_mismatch_in_every_float_format(dtype: torch.dtype) -> None:
    size = torch.zeros(1).to(dtype).element_size()
    sign = 1 << (8 * size - 1)
    nan = {1: 0x7F, 2: 0x7FFF, 8: 0x7FFFFFFFFFFFFFFF}[size]

    def of(*patterns: int) -> torch.Tensor:
        return torch.from_numpy(np.array(patterns, f"u{size}").view(f"i{size}")).view(dtype)

    message = failure(of(0, nan, 1), of(sign, nan | sign, 2))
    assert "(zero sign 1, NaN payload 1, value 1)" in message


@pytest.mark.parametrize("nan", ["any", None, True])
def test_another_nan_mode_is_a_value_error(nan: Any) -> None:
    with pytest.raises(ValueError, match='nan must be "bits" or "mask", not'):
        assert_bitwise_equal(torch.ones(1), torch.ones(1), nan=nan)


@pytest.mark.parametrize("name", ["actual", "expected"])
def test_what_is_no_tensor_is_a_type_error(name: str) -> None:
    tensors = {"actual": torch.ones(1), "expected": torch.ones(1)} | {name: 1.0}
    with pytest.raises(TypeError, match=f"{name} must be a torch.Tensor, not float"):
        assert_bitwise_equal(**tensors)


def test_the_helpers_are_importable_from_the_top() -> None:
    assert mmaemu.testing.bits is bits
    assert mmaemu.testing.assert_bitwise_equal is assert_bitwise_equal
