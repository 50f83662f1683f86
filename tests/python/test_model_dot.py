"""model.dot: its arguments, what they may hold, and what is refused. Its numbers are judged elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, bits, codes

CANONICAL_NAN = 0x7FFFFFFF


def dot(a: Any, b: Any, c: Any = None, **options: Any) -> torch.Tensor:
    return mmaemu.model.dot(a, b, c, **options)


def test_c_of_none_is_plus_zero() -> None:
    a, b = codes(5, 64, seed=1), codes(5, 64, seed=2)
    assert bits(dot(a, b)) == bits(dot(a, b, torch.zeros(5)))


def test_the_default_preset_is_ada() -> None:
    a, b = codes(5, 64, seed=1), codes(5, 64, seed=2)
    assert bits(dot(a, b)) == bits(dot(a, b, preset="ada"))
    assert bits(dot(a, b)) != bits(dot(a, b, preset="hopper"))


def test_a_preset_is_taken_wherever_its_name_is() -> None:
    a = codes(5, 64)
    assert bits(dot(a, a, preset=mmaemu.get_preset("hopper"))) == bits(dot(a, a, preset="hopper"))


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (2, 1, 3)])
def test_the_result_is_float32_of_the_leading_shape(leading: tuple[int, ...]) -> None:
    count = max(1, torch.Size(leading).numel())
    a = codes(count, 32).view(*leading, 32)
    start = torch.arange(count, dtype=torch.float32).view(leading)
    result = dot(a, a, start)
    assert (result.shape, result.dtype) == (leading, torch.float32)
    rows = dot(a.reshape(-1, 32), a.reshape(-1, 32), start.reshape(-1))
    assert bits(result.reshape(-1)) == bits(rows)


@pytest.mark.parametrize("shape", [(0, 32), (3, 0, 32), (0, 0)])
def test_empty_leading_shapes_give_empty_results(shape: tuple[int, ...]) -> None:
    a = torch.zeros(shape, dtype=torch.uint8).view(E4M3)
    assert dot(a, a).shape == shape[:-1]
    assert dot(a, a, torch.zeros(shape[:-1])).shape == shape[:-1]


def test_k_of_zero_gives_c_with_nan_canonical() -> None:
    a = codes(4, 0)
    start = torch.tensor([0x7FC01234, -0x80000000, 0x00000001, 0x7F800000], dtype=torch.int32).view(torch.float32)
    assert bits(dot(a, a, start)) == [CANONICAL_NAN, -0x80000000, 0x00000001, 0x7F800000]
    assert bits(dot(a, a)) == [0, 0, 0, 0]


@pytest.mark.parametrize(("a_format", "b_format"), [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
def test_float64_holds_the_values_of_fmt(a_format: torch.dtype, b_format: torch.dtype) -> None:
    a, b = codes(5, 64, a_format, seed=1), codes(5, 64, b_format, seed=2)
    names = {E4M3: "e4m3", E5M2: "e5m2"}
    pair = (names[a_format], names[b_format])
    want = bits(dot(a, b))
    assert bits(dot(a.double(), b.double(), fmt=pair)) == want
    assert bits(dot(a.double(), b.double(), fmt=list(pair))) == want
    assert bits(dot(a, b.double(), fmt=pair)) == want
    assert bits(dot(a, b, fmt=pair)) == want
    if a_format == b_format:
        assert bits(dot(a.double(), b.double(), fmt=pair[0])) == want


@pytest.mark.parametrize(("dtype", "name"), [(E4M3, "e4m3"), (E5M2, "e5m2")])
def test_float64_takes_every_value_of_a_format_the_special_ones_too(dtype: torch.dtype, name: str) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype).view(256, 1)
    one = torch.ones(256, 1).to(dtype)
    assert bits(dot(every.double(), one.double(), fmt=name)) == bits(dot(every, one))


@pytest.mark.parametrize(
    ("value", "name"), [(0.1, "e4m3"), (449.0, "e4m3"), (float("inf"), "e4m3"), (2.0**-10, "e4m3"), (65536.0, "e5m2")]
)
def test_float64_of_other_values_is_a_value_error_with_an_example(value: float, name: str) -> None:
    a = torch.ones(2, 32, dtype=torch.float64)
    a[1, 7] = value
    with pytest.raises(ValueError, match=f"b holds values that are not float8_{name}.* values, e.g. {value!r}"):
        dot(torch.ones(2, 32, dtype=torch.float64), a, fmt=name)


def test_c_may_be_float64_that_holds_float32_values() -> None:
    a = codes(4, 32)
    start = torch.tensor([1.5, -0.0, float("nan"), float("-inf")])
    assert bits(dot(a, a, start.double())) == bits(dot(a, a, start))
    with pytest.raises(ValueError, match=r"c holds values that are not float32 values, e.g. 0\.1"):
        dot(a, a, torch.tensor([1.0, 0.1, 0.2, 0.3], dtype=torch.float64))
    with pytest.raises(ValueError, match=r"c holds values that are not float32 values, e.g. 1e\+300"):
        dot(a, a, torch.full((4,), 1e300, dtype=torch.float64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a": 3}, "a must be a torch tensor, not int"),
        ({"a": [[1.0]]}, "a must be a torch tensor, not list"),
        ({"b": None}, "b must be a torch tensor, not NoneType"),
        ({"c": 1.0}, "c must be a torch tensor, not float"),
        ({"a": torch.ones(5, 32)}, "a must be float8_e4m3fn, float8_e5m2, or float64 with fmt=, not float32"),
        ({"b": torch.ones(5, 32, dtype=torch.uint8)}, "b must be float8_e4m3fn, .*not uint8"),
        ({"b": codes(5, 32).view(torch.float8_e4m3fnuz)}, "b must be float8_e4m3fn, .*not float8_e4m3fnuz"),
        ({"a": torch.ones(5, 32, dtype=torch.float64)}, 'a is float64; pass fmt="e4m3" or "e5m2"'),
        ({"c": torch.zeros(5, dtype=torch.float16)}, "c must be float32, or float64 .*, not float16"),
        ({"c": torch.zeros(5, dtype=torch.int32)}, "c must be float32, .*not int32"),
        ({"preset": 3}, "preset must be a name or a Preset, not int"),
        ({"preset": None}, "preset must be a name or a Preset, not NoneType"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_type_is_a_type_error(changes: dict[str, Any], message: str) -> None:
    call = {"a": codes(5, 32), "b": codes(5, 32), "c": None} | changes
    with pytest.raises(TypeError, match=message):
        mmaemu.model.dot(**call)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": codes(5, 48)}, r"a \[5, 32\] and b \[5, 48\] must have the same shape"),
        ({"b": codes(1, 32)}, "nothing is broadcast"),
        ({"b": codes(1, 32)[0]}, r"b \[32\] must have the same shape"),
        ({"a": codes(1, 1)[0, 0], "b": codes(1, 1)[0, 0]}, r"a \[\] and b \[\] must have the same shape \[..., K\]"),
        ({"c": torch.zeros(4)}, r"c must have shape \[5\], as a without K, not \[4\]"),
        ({"c": torch.zeros(())}, r"c must have shape \[5\], .*not \[\]"),
        ({"c": torch.zeros(5, 1)}, r"c must have shape \[5\], .*not \[5, 1\]"),
        ({"fmt": "e5m2"}, "a is float8_e4m3fn, but fmt says float8_e5m2"),
        ({"fmt": ("e4m3", "e5m2")}, "b is float8_e4m3fn, but fmt says float8_e5m2"),
        ({"fmt": "fp8"}, "fmt must be .*not 'fp8'"),
        ({"fmt": ("e4m3",)}, "fmt must be .*a pair of them"),
        ({"fmt": ("e4m3", "e4m3", "e4m3")}, "fmt must be .*a pair of them"),
        ({"fmt": ("e4m3", 5)}, "fmt must be .*a pair of them"),
        ({"fmt": 5}, "fmt must be .*not 5"),
        ({"b": torch.empty(5, 32, dtype=E4M3, device="meta")}, "b is on meta and a on cpu; one device is needed"),
        ({"c": torch.empty(5, device="meta")}, "c is on meta and a on cpu; one device is needed"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_a_value_error(changes: dict[str, Any], message: str) -> None:
    call = {"a": codes(5, 32), "b": codes(5, 32), "c": None} | changes
    with pytest.raises(ValueError, match=message):
        mmaemu.model.dot(**call)


def test_tensors_without_data_are_refused() -> None:
    a = torch.empty(5, 32, dtype=E4M3, device="meta")
    with pytest.raises(mmaemu.UnsupportedFeatureError, match="a is a Tensor on device meta that holds no data"):
        dot(a, a)


def test_operands_may_have_any_strides() -> None:
    a, b, start = codes(5, 48, seed=1), codes(5, 48, seed=2), torch.arange(5.0)
    want = bits(dot(a, b, start))
    wide = torch.zeros(5, 96, dtype=torch.uint8).view(E4M3)[:, ::2].copy_(a)
    column_major = b.t().contiguous().t()
    spread = torch.zeros(15)[::3].copy_(start)
    assert bits(dot(wide, column_major, spread)) == want
    assert bits(dot(a[:1].expand(5, 48), b, start)) == bits(dot(a[:1].repeat(5, 1), b, start))


def test_arguments_that_require_grad_are_read_and_the_result_requires_none() -> None:
    a, start = codes(3, 32).requires_grad_(True), torch.zeros(3, requires_grad=True)
    result = dot(a, a, start)
    assert bits(result) == bits(dot(a.detach(), a.detach()))
    assert not result.requires_grad


def test_an_unknown_cpu_target_is_an_error_as_in_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMAEMU_CPU_TARGET", "avx1024")
    with pytest.raises(ValueError, match='MMAEMU_CPU_TARGET="avx1024" is not a CPU target'):
        dot(torch.zeros(16).to(torch.float8_e4m3fn), torch.zeros(16).to(torch.float8_e4m3fn))
