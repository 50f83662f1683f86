"""mmaemu's dot, accumulate and scaled_mm equal to the referee bit for bit, on operands of every class.

Splits are given explicitly; which split a platform takes is tested elsewhere.
"""

from __future__ import annotations

import functools
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmaemu
import operands as draws
import referee
from targets import TARGETS, running_on

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = ["numpy"] if torch is None else ["numpy", "torch"]
DTYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
SCHEMES = {"ada": ["serial", "pairwise"], "hopper": ["contiguous"]}

ANY_TARGET = st.sampled_from(TARGETS)

# What these warn of, evidence of hardware behaviour, is not in question here.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::mmaemu.errors.{name}")
    for name in ("ExperimentalPresetWarning", "UnverifiedSplitWarning")
]


# Codes to what mmaemu takes, and its results back to patterns


def fp8(codes: np.ndarray, fmt: str, library: str):
    """uint8 codes as an array of the FP8 type; the same memory, so that strides stay."""
    if library == "numpy":
        return codes.view(getattr(ml_dtypes, DTYPES[fmt]))
    return torch.from_numpy(codes).view(getattr(torch, DTYPES[fmt]))


def fp32(patterns: list[int], library: str):
    values = np.array(patterns, np.uint32).view(np.float32)
    return values if library == "numpy" else torch.from_numpy(values)


def patterns(result) -> list:
    """A result's bits as nested lists of ints."""
    if torch is not None and isinstance(result, torch.Tensor):
        size = result.element_size()
        result = result.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[size]).numpy()
    return result.view(f"u{result.dtype.itemsize}").tolist()


def placed(codes: np.ndarray, layout: str) -> np.ndarray:
    """The same matrix elsewhere in memory."""
    if layout == "columns":
        return np.asfortranarray(codes)
    if layout == "gaps":
        wide = np.full((codes.shape[0], 2 * codes.shape[1] + 5), 0x7F, np.uint8)
        wide[:, 2 : 2 + 2 * codes.shape[1] : 2] = codes
        return wide[:, 2 : 2 + 2 * codes.shape[1] : 2]
    return codes


LAYOUTS = st.sampled_from(["rows", "columns", "gaps"])


def matrix(rows: list[list[int]], places: list[int], depth: int) -> np.ndarray:
    return np.array([rows[place] for place in places], np.uint8).reshape(len(places), depth)


def grid(drawn: draws.Operands, one_output) -> list[list[int]]:
    """The referee's result: one_output of each different pair of rows, put where the pair stands."""
    one_output = functools.cache(one_output)
    return [[one_output(m, n) for n in drawn.b_row] for m in drawn.a_row]


def assert_same(got: list, expected: list) -> None:
    if got == expected:
        return
    got, expected = np.array(got, np.int64), np.array(expected, np.int64)
    assert got.shape == expected.shape
    where = tuple(map(int, np.argwhere(got != expected)[0]))
    raise AssertionError(
        f"{int((got != expected).sum())} of {got.size} outputs differ; at {where} mmaemu 0x{int(got[where]):x}, "
        f"referee 0x{int(expected[where]):x}"
    )


def to_preset(numbers: referee.Preset) -> mmaemu.Preset:
    return mmaemu.Preset(name="custom", **numbers._asdict())


# One chain


@st.composite
def chains(draw):
    """Rows of a and b of the same shape, a start for each row."""
    drawn = draw(draws.operands(draws.DEPTHS, max_rows=3))
    count = len(drawn.a_row)
    places = [place % len(drawn.b) for place in draw(st.binary(min_size=count, max_size=count))]
    starts = draw(st.none() | st.lists(draws.STARTS, min_size=count, max_size=count))
    return drawn._replace(b_row=places), starts


def check_dot(drawn, starts, preset, numbers, target, library, as_float64):
    a, b = matrix(drawn.a, drawn.a_row, drawn.depth), matrix(drawn.b, drawn.b_row, drawn.depth)
    x, y = fp8(a, drawn.fmt_a, library), fp8(b, drawn.fmt_b, library)
    fmt = None
    if as_float64:
        x, y = ((v.astype(np.float64) if library == "numpy" else v.double()) for v in (x, y))
        fmt = (drawn.fmt_a, drawn.fmt_b)
    c = None if starts is None else fp32(starts, library)
    with running_on(target):
        got = patterns(mmaemu.model.dot(x, y, c, preset=preset, fmt=fmt))
    expected = [
        referee.dot(drawn.a[m], drawn.fmt_a, drawn.b[n], drawn.fmt_b, starts[i] if starts else 0, numbers)
        for i, (m, n) in enumerate(zip(drawn.a_row, drawn.b_row, strict=True))
    ]
    assert_same(got, expected)


@pytest.mark.parametrize("preset", sorted(referee.PRESETS))
@given(chain=chains(), target=ANY_TARGET, library=st.sampled_from(LIBRARIES), as_float64=st.booleans())
def test_dot_of_a_shipped_preset(preset, chain, target, library, as_float64):
    check_dot(*chain, preset, referee.PRESETS[preset], target, library, as_float64)


@given(chain=chains(), numbers=draws.CUSTOM_PRESETS, target=ANY_TARGET, library=st.sampled_from(LIBRARIES))
def test_dot_of_a_custom_preset(chain, numbers, target, library):
    check_dot(*chain, to_preset(numbers), numbers, target, library, as_float64=False)


@given(data=st.data(), numbers=draws.CUSTOM_PRESETS, blocks=st.integers(1, 3))
def test_dot_of_zeros_from_a_small_start(data, numbers, blocks):
    """Without products the start alone decides the block exponent, which for a subnormal start is its own."""
    numbers = numbers._replace(min_exp=data.draw(st.integers(-170, -100)), nfma=16)
    starts = data.draw(st.lists(draws.SUBNORMAL_STARTS | draws.fp32_near(-126, -100), min_size=1, max_size=20))
    depth, count = 16 * blocks, len(starts)
    zeros = draws.Operands("e5m2", "e4m3", depth, [[0x81] * depth], [[0x80] * depth], [0] * count, [0] * count)
    check_dot(zeros, starts, to_preset(numbers), numbers, data.draw(ANY_TARGET), "numpy", as_float64=False)


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_runs_on_the_target_asked_for(target):
    with running_on(target):
        assert mmaemu.backends_status()["reference"].reason == f"CPU target {target}"


def test_the_shipped_presets_have_the_contract_s_numbers():
    assert mmaemu.list_presets() == sorted(referee.PRESETS)
    for name, numbers in referee.PRESETS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shipped = mmaemu.get_preset(name)
        assert {field: getattr(shipped, field) for field in referee.Preset._fields} == numbers._asdict()


# Accumulators


@st.composite
def accumulations(draw, schemes, fast_only=False):
    """(fast, S, scheme)."""
    fast = True if fast_only else draw(st.booleans())
    return fast, *draw(draws.splits(schemes))


def check_accumulate(drawn, how, profile, numbers, target, library="numpy", layouts=("rows", "rows")):
    fast, S, scheme = how
    a, b = (
        fp8(placed(matrix(rows, places, drawn.depth), layout), fmt, library)
        for rows, places, layout, fmt in (
            (drawn.a, drawn.a_row, layouts[0], drawn.fmt_a),
            (drawn.b, drawn.b_row, layouts[1], drawn.fmt_b),
        )
    )
    split = 1 if S == 1 else (S, scheme)
    with running_on(target):
        got = patterns(mmaemu.accumulate(a, b, use_fast_accum=fast, profile=profile, splitk=split))

    def one_output(m, n):
        return referee.accumulator(drawn.a[m], drawn.fmt_a, drawn.b[n], drawn.fmt_b, numbers, fast, S, scheme)

    assert_same(got, grid(drawn, one_output))


@pytest.mark.parametrize("platform", ["ada", "hopper"])
@given(data=st.data(), drawn=draws.operands(draws.DEPTHS), library=st.sampled_from(LIBRARIES))
def test_accumulate_of_a_shipped_profile(platform, data, drawn, library):
    profile = data.draw(st.sampled_from([platform, f"{platform}-te", f"{platform}-ws0"]))
    how = data.draw(accumulations(SCHEMES[platform]))
    layouts = data.draw(st.tuples(LAYOUTS, LAYOUTS))
    check_accumulate(drawn, how, profile, referee.PRESETS[platform], data.draw(ANY_TARGET), library, layouts)


@pytest.mark.parametrize("platform", ["ada", "hopper"])
@given(data=st.data(), drawn=draws.operands(draws.LONG_DEPTHS, max_rows=3))
def test_accumulate_over_many_tiles(platform, data, drawn):
    drawn = drawn._replace(a=drawn.a[:1], b=drawn.b[:1], a_row=[0] * len(drawn.a_row), b_row=[0] * len(drawn.b_row))
    how = data.draw(accumulations(SCHEMES[platform]))
    check_accumulate(drawn, how, platform, referee.PRESETS[platform], data.draw(ANY_TARGET))


@pytest.mark.parametrize("profile", ["hopper-experimental", "b200-mma-sync-experimental"])
@given(data=st.data(), drawn=draws.operands(draws.DEPTHS), library=st.sampled_from(LIBRARIES))
def test_accumulate_of_an_experimental_profile(profile, data, drawn, library):
    preset = "hopper" if profile.startswith("hopper") else "b200_mma_sync"
    how = data.draw(accumulations(SCHEMES.get(preset, []), fast_only=preset not in SCHEMES))
    check_accumulate(drawn, how, profile, referee.PRESETS[preset], data.draw(ANY_TARGET), library)


@given(data=st.data(), drawn=draws.operands(draws.DEPTHS), numbers=draws.CUSTOM_PRESETS)
def test_accumulate_of_a_custom_preset(data, drawn, numbers):
    how = data.draw(accumulations(["serial", "pairwise", "contiguous"]))
    profile = mmaemu.Profile(name="custom", preset=to_preset(numbers))
    check_accumulate(drawn, how, profile, numbers, data.draw(ANY_TARGET))


# The whole call

needs_torch = pytest.mark.skipif(torch is None, reason="scaled_mm takes torch tensors")
# torch refuses e5m2 x e5m2.
CALL_PAIRS = draws.FORMAT_PAIRS[:3]
OUT_DTYPES = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]


@st.composite
def calls(draw, platform, max_rows=9):
    """Operands of a legal call, how to accumulate, out dtype, scale_a, scale_b, scale_result."""
    drawn = draw(draws.operands(draws.ALIGNED_DEPTHS, CALL_PAIRS, max_rows, N=st.sampled_from([16, 16, 32, 48])))
    # cuBLAS refuses e4m3 x e4m3 -> e5m2.
    refused = "float8_e5m2" if (drawn.fmt_a, drawn.fmt_b) == ("e4m3", "e4m3") else None
    out_dtype = draw(st.sampled_from([name for name in OUT_DTYPES if name != refused]))
    how = draw(accumulations(SCHEMES.get(platform, []), fast_only=platform not in SCHEMES))
    return drawn, how, out_dtype, *draw(draws.scale_pairs()), draw(draws.RESULT_SCALES)


def check_scaled_mm(call, profile, numbers, target):
    drawn, (fast, S, scheme), out_dtype, scale_a, scale_b, scale_result = call
    a = fp8(matrix(drawn.a, drawn.a_row, drawn.depth), drawn.fmt_a, "torch")
    b = fp8(matrix(drawn.b, drawn.b_row, drawn.depth), drawn.fmt_b, "torch")
    scales = [None if s is None else fp32([s], "torch").reshape(()) for s in (scale_a, scale_b, scale_result)]
    with running_on(target):
        result = mmaemu.scaled_mm(
            a,
            b.t(),
            *scales[:2],
            scale_result=scales[2],
            out_dtype=getattr(torch, out_dtype),
            use_fast_accum=fast,
            profile=profile,
            splitk=1 if S == 1 else (S, scheme),
        )
    assert result.dtype == getattr(torch, out_dtype)
    out = {name: fmt for fmt, name in DTYPES.items()}.get(out_dtype, out_dtype)

    def one_output(m, n):
        row, column = [drawn.a[m]], [drawn.b[n]]
        return referee.scaled_mm(
            row, drawn.fmt_a, column, drawn.fmt_b, scale_a, scale_b, scale_result, out, numbers, fast, S, scheme
        )[0][0]

    assert_same(patterns(result), grid(drawn, one_output))


@needs_torch
@pytest.mark.parametrize("platform", ["ada", "hopper"])
@given(data=st.data())
def test_scaled_mm_of_a_shipped_profile(platform, data):
    profile = data.draw(st.sampled_from([platform, f"{platform}-te", f"{platform}-ws0"]))
    check_scaled_mm(data.draw(calls(platform)), profile, referee.PRESETS[platform], data.draw(ANY_TARGET))


@needs_torch
@given(call=calls("b200_mma_sync"), target=ANY_TARGET)
def test_scaled_mm_of_an_experimental_profile(call, target):
    check_scaled_mm(call, "b200-mma-sync-experimental", referee.PRESETS["b200_mma_sync"], target)


@needs_torch
@given(call=calls("ada"), numbers=draws.CUSTOM_PRESETS, target=ANY_TARGET)
def test_scaled_mm_of_a_custom_preset(call, numbers, target):
    check_scaled_mm(call, mmaemu.Profile(name="custom", preset=to_preset(numbers)), numbers, target)
