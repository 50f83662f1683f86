"""What the entry points promise of any call: signatures, defaults, empty sizes, grad mode, float environment."""

from __future__ import annotations

import inspect

import pytest
import torch

import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes, scaled
from mmaemu import MmaemuError, UnsupportedFeatureError

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
KEYWORD = inspect.Parameter.KEYWORD_ONLY
NO_DEFAULT = inspect.Parameter.empty
TORCH_ARGUMENTS = [
    ("mat2", POSITIONAL, NO_DEFAULT),
    ("scale_a", POSITIONAL, NO_DEFAULT),
    ("scale_b", POSITIONAL, NO_DEFAULT),
    ("bias", POSITIONAL, None),
    ("scale_result", POSITIONAL, None),
    ("out_dtype", POSITIONAL, None),
    ("use_fast_accum", POSITIONAL, False),
]
CHOICES = [("profile", KEYWORD, None), ("splitk", KEYWORD, "auto"), ("backend", KEYWORD, "auto")]
SCALED_MM = [("input", POSITIONAL, NO_DEFAULT), *TORCH_ARGUMENTS, ("out", KEYWORD, None), *CHOICES]
ACCUMULATE = [
    ("a", POSITIONAL, NO_DEFAULT),
    ("b", POSITIONAL, NO_DEFAULT),
    ("use_fast_accum", KEYWORD, NO_DEFAULT),
    *CHOICES,
]


def parameters(function: object) -> list[tuple[str, object, object]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_scaled_mm_takes_the_documented_arguments() -> None:
    assert parameters(mmaemu.scaled_mm) == SCALED_MM


def test_explain_takes_the_arguments_of_scaled_mm() -> None:
    assert parameters(mmaemu.explain) == SCALED_MM


def test_the_positional_arguments_and_defaults_are_those_of_torch() -> None:
    schema = torch.ops.aten._scaled_mm.default._schema.arguments
    theirs = [
        (argument.name, argument.default_value if argument.has_default_value() else NO_DEFAULT) for argument in schema
    ]
    ours = [(name, default) for name, kind, default in parameters(mmaemu.scaled_mm) if kind is POSITIONAL]
    assert theirs == [("self", NO_DEFAULT), *ours[1:]]


def test_accumulate_takes_the_documented_arguments() -> None:
    *arguments, last = parameters(mmaemu.accumulate)
    assert arguments == ACCUMULATE
    assert (last[0], last[1], repr(last[2])) == ("out_dtype_for_split", KEYWORD, "torch.float32")


def test_dot_takes_the_documented_arguments() -> None:
    assert parameters(mmaemu.model.dot) == [
        ("a", POSITIONAL, NO_DEFAULT),
        ("b", POSITIONAL, NO_DEFAULT),
        ("c", POSITIONAL, None),
        ("preset", KEYWORD, "ada"),
        ("fmt", KEYWORD, None),
    ]


def test_arguments_work_by_position_and_by_name() -> None:
    call = arguments(out_dtype=E4M3)
    operands = [call[name] for name in ("input", "mat2", "scale_a", "scale_b")]
    scale_result = torch.tensor(0.25)
    how = {"splitk": 1, "profile": "ada"}
    by_position = mmaemu.scaled_mm(*operands, None, scale_result, torch.float8_e4m3fn, True, **how)
    by_name = scaled(scale_result=scale_result, out_dtype=E4M3, use_fast_accum=True)
    assert bits(by_position) == bits(by_name)


@pytest.mark.parametrize("missing", ["input", "mat2", "scale_a", "scale_b"])
def test_a_missing_argument_is_a_type_error(missing: str) -> None:
    call = arguments()
    del call[missing]
    with pytest.raises(TypeError, match=missing):
        mmaemu.scaled_mm(**call)


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="scale_c"):
        scaled(scale_c=torch.tensor(1.0))


def test_use_fast_accum_of_accumulate_has_no_default() -> None:
    with pytest.raises(TypeError, match="use_fast_accum"):
        mmaemu.accumulate(codes(3, 32), codes(4, 32))


@pytest.mark.parametrize(("dtype", "other"), [(E4M3, E5M2), (E5M2, E4M3), (E4M3, E4M3)])
def test_the_default_out_dtype_is_that_of_input(dtype: torch.dtype, other: torch.dtype) -> None:
    call = {"input": codes(16, 32, dtype), "mat2": codes(16, 32, other).t(), "out_dtype": None}
    result = scaled(**call)
    assert result.dtype == dtype
    assert bits(result) == bits(scaled(**call | {"out_dtype": dtype}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3, E5M2])
@pytest.mark.parametrize("fast", [True, False])
def test_the_result_is_a_new_contiguous_tensor_of_out_dtype(dtype: torch.dtype, fast: bool) -> None:
    operands = {"input": codes(5, 32), "mat2": codes(16, 32, E5M2).t()}
    result = scaled(**operands, out_dtype=dtype, use_fast_accum=fast)
    assert (result.shape, result.dtype, result.device.type) == ((5, 16), dtype, "cpu")
    assert result.is_contiguous()
    assert not result.requires_grad


def test_the_result_is_multiplied_by_both_scales() -> None:
    accumulator = mmaemu.accumulate(
        arguments()["input"], arguments()["mat2"].t(), use_fast_accum=False, splitk=1, profile="ada"
    )
    assert bits(scaled(scale_a=torch.tensor(3.0), scale_b=torch.tensor(0.5))) == bits(accumulator * 1.5)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)])
def test_a_scale_is_one_element_of_any_shape(shape: tuple[int, ...]) -> None:
    scales = {name: torch.full(shape, 0.75) for name in ("scale_a", "scale_b", "scale_result")}
    zero_d = {name: torch.tensor(0.75) for name in scales}
    assert bits(scaled(**scales, out_dtype=E4M3)) == bits(scaled(**zero_d, out_dtype=E4M3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scale_result_is_ignored_for_other_results_than_fp8(dtype: torch.dtype) -> None:
    assert bits(scaled(out_dtype=dtype, scale_result=torch.tensor(1e30))) == bits(scaled(out_dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3])
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_nan_scales_give_the_canonical_nan_everywhere(name: str, dtype: torch.dtype) -> None:
    payload = torch.tensor(-0x3FEDCC, dtype=torch.int32).view(torch.float32)  # a NaN that is not the canonical one
    canonical = {4: 0x7FFFFFFF, 2: 0x7FFF, 1: 0x7F}[dtype.itemsize]
    result = scaled(**{name: payload}, out_dtype=dtype)
    assert payload.isnan()
    assert (mmaemu.testing.bits(result) == canonical).all()


def test_infinite_scales_and_zeros_follow_ieee() -> None:
    operand = torch.zeros(16, 32)
    operand[1, 0], operand[2, 0] = 1.0, -1.0
    weight = torch.ones(16, 32).to(E4M3).t()
    result = scaled(input=operand.to(E4M3), mat2=weight, scale_a=torch.tensor(float("inf")))
    assert result[0].isnan().all()
    assert (result[1] == float("inf")).all()
    assert (result[2] == -float("inf")).all()


@pytest.mark.parametrize("scale", [1.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3, E5M2])
def test_k_of_zero_gives_plus_zero_whatever_the_scales(scale: float, dtype: torch.dtype) -> None:
    result = scaled(input=codes(5, 0), mat2=codes(16, 0).t(), scale_a=torch.tensor(scale), out_dtype=dtype)
    assert bits(result) == bits(torch.zeros(5, 16).to(dtype))


@pytest.mark.parametrize(("rows", "columns", "depth"), [(0, 16, 32), (16, 0, 32), (0, 0, 32), (0, 16, 0), (0, 0, 0)])
def test_empty_results_have_the_right_shape_and_dtype(rows: int, columns: int, depth: int) -> None:
    result = scaled(input=codes(rows, depth), mat2=codes(columns, depth).t(), splitk="auto", out_dtype=torch.bfloat16)
    assert (result.shape, result.dtype) == ((rows, columns), torch.bfloat16)
    accumulator = mmaemu.accumulate(codes(rows, depth), codes(columns, depth), use_fast_accum=True)
    assert (accumulator.shape, accumulator.dtype) == ((rows, columns), torch.float32)


def test_accumulate_with_k_of_zero_gives_plus_zero() -> None:
    accumulator = mmaemu.accumulate(codes(3, 0), codes(5, 0), use_fast_accum=False)
    assert bits(accumulator) == bits(torch.zeros(3, 5))


def test_explain_of_a_zero_size_call_says_that_nothing_runs() -> None:
    plan = mmaemu.explain(**arguments(input=codes(0, 32)))
    assert (plan.validation, plan.backend, plan.split) == ("ok", "none (zero-size result)", None)


@pytest.mark.parametrize("name", ["input", "mat2", "scale_a", "scale_b", "scale_result"])
def test_an_argument_that_requires_grad_is_refused_in_grad_mode(name: str) -> None:
    argument = arguments(scale_result=torch.tensor(1.0))[name].detach().requires_grad_(True)
    with pytest.raises(UnsupportedFeatureError, match=f"{name} requires grad while grad mode is on"):
        scaled(**{name: argument})


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_argument_that_requires_grad_is_taken_outside_grad_mode(mode: type) -> None:
    scale = torch.tensor(0.5, requires_grad=True)
    with mode():
        result = scaled(scale_a=scale)
    assert bits(result) == bits(scaled(scale_a=scale.detach()))
    assert not result.requires_grad


def test_accumulate_refuses_operands_that_require_grad_in_grad_mode() -> None:
    a = codes(3, 32).requires_grad_(True)
    with pytest.raises(UnsupportedFeatureError, match="a requires grad"):
        mmaemu.accumulate(a, codes(3, 32), use_fast_accum=True, splitk=1)
    with torch.no_grad():
        mmaemu.accumulate(a, codes(3, 32), use_fast_accum=True, splitk=1)


def test_flush_to_zero_is_refused_for_cpu_tensors() -> None:
    assert torch.set_flush_denormal(True)
    with pytest.raises(MmaemuError, match=r"flushes subnormal.*torch.set_flush_denormal\(False\)") as caught:
        scaled()
    assert type(caught.value) is MmaemuError
    with pytest.raises(MmaemuError) as caught:
        mmaemu.accumulate(codes(3, 32), codes(3, 32), use_fast_accum=True, splitk=1)
    assert type(caught.value) is MmaemuError
    assert mmaemu.explain(**arguments()).validation[0] == "MmaemuError"


def test_flush_to_zero_leaves_out_unchanged() -> None:
    out = torch.full((16, 16), 7.0)
    torch.set_flush_denormal(True)
    with pytest.raises(MmaemuError):
        scaled(out=out)
    assert (out == 7.0).all()


def test_a_call_that_computes_nothing_works_under_flush_to_zero() -> None:
    torch.set_flush_denormal(True)
    assert scaled(input=codes(0, 32)).shape == (0, 16)


def test_dot_does_not_depend_on_flush_to_zero() -> None:
    a, b = codes(4, 32, E5M2, seed=1), codes(4, 32, E5M2, seed=2)
    start = torch.tensor([1, -0x7FFFFFFF, 0x7FFFFF, 0x800000], dtype=torch.int32).view(torch.float32)
    tiny = torch.zeros(4, 32).to(E5M2)
    want = [bits(mmaemu.model.dot(a, b, start)), bits(mmaemu.model.dot(tiny, tiny, start))]
    torch.set_flush_denormal(True)
    assert [bits(mmaemu.model.dot(a, b, start)), bits(mmaemu.model.dot(tiny, tiny, start))] == want


def test_torchs_defaults_for_dtype_and_device_do_not_matter() -> None:
    a, b = codes(3, 32, seed=1), codes(5, 32, seed=2)
    call = arguments()

    def results() -> list[object]:
        return [
            bits(mmaemu.scaled_mm(**call)),
            bits(mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1)),
            bits(mmaemu.model.dot(a, a)),
        ]

    want = results()
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        assert results() == want
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
