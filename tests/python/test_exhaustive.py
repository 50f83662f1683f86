"""Everything small enough to try in full: every code, every pair of codes, every kind of rounding boundary.

The referee answers each different question once; mmaemu answers them in whole arrays.
"""

from __future__ import annotations

import functools
import itertools
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import mmaemu
import referee
from targets import TARGETS, running_on

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="scaled_mm takes torch tensors")
FP8 = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
PAIRS = list(itertools.product(FP8, FP8))
OUTPUTS = ["float32", "bfloat16", "float16", "e4m3", "e5m2"]
# torch refuses e5m2 x e5m2, cuBLAS e4m3 x e4m3 -> e5m2.
CALLS = [(*pair, out) for pair in PAIRS[:3] for out in OUTPUTS if (*pair, out) != ("e4m3", "e4m3", "e5m2")]
ONE = {"e4m3": 0x38, "e5m2": 0x3C}
ONE32 = 0x3F800000
ALL_CODES = np.arange(256, dtype=np.uint8)

pytestmark = pytest.mark.filterwarnings("ignore::mmaemu.errors.ExperimentalPresetWarning")


def numbers(codes: np.ndarray, fmt: str) -> np.ndarray:
    return codes.view(getattr(ml_dtypes, FP8[fmt]))


def single_products(a: np.ndarray, fmt_a: str, b: np.ndarray, fmt_b: str, preset) -> np.ndarray:
    """fp32 patterns of chains of one element, the same on every CPU target."""
    rows = numbers(a.reshape(-1, 1), fmt_a), numbers(b.reshape(-1, 1), fmt_b)
    results = []
    for target in TARGETS:
        with running_on(target):
            results.append(mmaemu.model.dot(*rows, preset=preset).view(np.uint32))
        assert np.array_equal(results[0], results[-1]), f"{target} differs from {TARGETS[0]}"
    return results[0]


def assert_same(got: np.ndarray, expected: np.ndarray, case: str) -> None:
    differs = np.flatnonzero(got.ravel() != expected.ravel())
    assert got.shape == expected.shape
    if differs.size:
        i = differs[0]
        shown = f"mmaemu 0x{int(got.flat[i]):x}, referee 0x{int(expected.flat[i]):x}"
        raise AssertionError(f"{case}: {differs.size} of {got.size} differ; at flat index {i} {shown}")


# Codes


@pytest.mark.parametrize("fmt", FP8)
def test_the_referee_decodes_every_code_as_ml_dtypes_does(fmt):
    for code, number in enumerate(numbers(ALL_CODES, fmt).astype(np.float64)):
        value = referee.decode(code, referee.FORMATS[fmt])
        assert float(value) == number or (value != value and number != number)
        assert value != 0 or referee.is_negative(code, referee.FORMATS[fmt]) == np.signbit(number)


@pytest.mark.parametrize("fmt", ["float16", "bfloat16"])
def test_the_referee_decodes_and_encodes_every_16_bit_code(fmt):
    codes = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        values = codes.view(np.float16 if fmt == "float16" else ml_dtypes.bfloat16).astype(np.float64)
    form = referee.FORMATS[fmt]
    for code, number in zip(codes.tolist(), values.tolist(), strict=True):
        value = referee.decode(code, form)
        if value != value:
            assert number != number
            assert referee.encode(value, form) == 0x7FFF
        else:
            assert float(value) == number
            assert referee.encode(value, form, negative_zero=code >= 0x8000) == code


@pytest.mark.parametrize("preset", sorted(referee.PRESETS))
@pytest.mark.parametrize("fmt", FP8)
def test_every_code_times_one_is_its_value(fmt, preset):
    """With the sign of a zero lost and NaN canonical."""
    got = single_products(ALL_CODES, fmt, np.full(256, ONE["e4m3"], np.uint8), "e4m3", preset)
    values = numbers(ALL_CODES, fmt).astype(np.float32)
    expected = np.where(np.isnan(values), np.uint32(0x7FFFFFFF), (values + np.float32(0)).view(np.uint32))
    assert_same(got, expected, fmt)


# Pairs of codes

FIRST, SECOND = np.repeat(ALL_CODES, 256), np.tile(ALL_CODES, 256)
# One fraction bit below the exponent: most products lose bits, twice.
COARSE = referee.Preset(nfma=1, frac=2, frac_out=1, min_exp=-9, late_c=False, slow_chunk=128)


@functools.cache
def product_table(fmt_a: str, fmt_b: str, preset: referee.Preset) -> np.ndarray:
    chains = (referee.dot([a], fmt_a, [b], fmt_b, 0, preset) for a, b in itertools.product(range(256), repeat=2))
    return np.fromiter(chains, np.uint32, 65536)


@pytest.mark.parametrize(("fmt_a", "fmt_b"), PAIRS)
def test_every_pair_of_codes_in_one_product(fmt_a, fmt_b):
    """One product is exact in every shipped preset, and in a coarse one what the formula makes of it."""
    expected = product_table(fmt_a, fmt_b, referee.PRESETS["ada"])
    for preset in referee.PRESETS:
        assert_same(single_products(FIRST, fmt_a, SECOND, fmt_b, preset), expected, preset)
    coarse = mmaemu.Preset(name="coarse", **COARSE._asdict())
    assert_same(single_products(FIRST, fmt_a, SECOND, fmt_b, coarse), product_table(fmt_a, fmt_b, COARSE), "coarse")
    values = numbers(FIRST, fmt_a).astype(np.float64), numbers(SECOND, fmt_b).astype(np.float64)
    with np.errstate(invalid="ignore"):
        exact = (values[0] * values[1]).astype(np.float32) + np.float32(0)
    exact = np.where(np.isnan(exact), np.uint32(0x7FFFFFFF), exact.view(np.uint32))
    assert_same(expected, exact, "the referee and float64 (shown as referee)")


# The epilogue


def fp32_scalar(pattern: int):
    return torch.from_numpy(np.array([pattern], np.uint32).view(np.float32)).reshape(())


def one_hot(codes, fmt: str):
    """[len(codes), 16] operand whose rows hold one code each, at column 0, and zeros."""
    matrix = np.zeros((len(codes), 16), np.uint8)
    matrix[:, 0] = codes
    return torch.from_numpy(matrix).view(getattr(torch, FP8[fmt]))


def call(a, b, scales, out: str, profile: str = "ada", fast: bool = True) -> np.ndarray:
    """scaled_mm of operands as one_hot makes them; scales are three patterns, the last one may be None. The result of
    the best CPU target, which every other target must give too."""
    scale_a, scale_b, scale_result = (None if s is None else fp32_scalar(s) for s in scales)
    dtype = getattr(torch, FP8.get(out, out))
    results = []
    for target in TARGETS:
        with running_on(target):
            result = mmaemu.scaled_mm(
                a, b.t(), scale_a, scale_b, None, scale_result, dtype, fast, profile=profile, splitk=1
            )
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[result.element_size()]
        results.append(result.view(integers).numpy().view(f"u{result.element_size()}"))
        assert np.array_equal(results[0], results[-1]), f"{target} differs from {TARGETS[0]}; scales {scales}"
    return results[0]


def epilogue_table(accumulators: np.ndarray, scales, out: str) -> np.ndarray:
    """The referee's epilogue of an array of fp32 patterns, each different one once."""
    different, where = np.unique(accumulators, return_inverse=True)
    codes = [referee.epilogue(acc, *scales, out) for acc in different.tolist()]
    dtype = f"u{referee.FORMATS[out].bits // 8}"
    return np.array(codes, dtype)[where].reshape(accumulators.shape)


def pattern(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


@needs_torch
@pytest.mark.parametrize(("fmt_a", "fmt_b", "out"), CALLS)
def test_every_pair_of_codes_through_the_epilogue(fmt_a, fmt_b, out):
    a, b = one_hot(ALL_CODES, fmt_a), one_hot(ALL_CODES, fmt_b)
    accumulators = product_table(fmt_a, fmt_b, referee.PRESETS["ada"]).reshape(256, 256)
    scale_sets = [(1.0, 1.0, None), (0.3, -1.7, 3.1), (2.0**-13, 0.011, -0.5), (2.0**-100, 2.0**-30, 2.0**90)]
    for scales in scale_sets:
        bits = [None if s is None else pattern(s) for s in scales]
        expected = epilogue_table(accumulators, bits, out)
        for profile, fast in itertools.product(["ada", "hopper"], [True, False]):
            assert_same(call(a, b, bits, out, profile, fast), expected, f"{profile}, fast={fast}, scales {scales}")


# Rounding boundaries. An output is a power of two times one of eight factors in [1, 2) times the scale, so that the
# scale's fraction puts outputs of many exponents, of both signs, on the same kind of boundary: ties, their neighbours,
# what is subnormal, what overflows.

POWERS = [0x01, 0x02, *range(0x04, 0x7C, 4)]  # e5m2: 2^-16 .. 2^15
FACTORS = [sign | 0x38 | fraction for sign in (0, 0x80) for fraction in range(8)]  # e4m3: +-(1 + fraction / 8)


def boundary_exponents(out: str) -> list[tuple[int, list[int]]]:
    """(exponent of the scale, indices of powers): results from below the smallest subnormal number of out to its normal
    ones (in fp32 from 2^-142), and on both sides of its largest."""
    form = referee.FORMATS[out]
    exponent_max = referee.floor_log2(form.largest)
    small = range(form.exponent_min - form.fraction_bits - 2, form.exponent_min + 2)
    large = range(exponent_max - 1, exponent_max + 2)
    found = []
    for results in (small, large):
        scale = max(results[-1] - 15, -126)
        found.append((scale, [e - scale + 16 for e in results if e - scale >= -16]))
    return found


def boundary_fractions(out: str) -> list[int]:
    """24-bit significands that lie on a boundary of out, or land on one when multiplied by a factor.

    Where results are subnormal any bit can be the last one kept: ties at every bit, even and odd, and the numbers next
    to them. The quotients make products that fp32 rounds onto a tie of out, so that rounding once would differ.
    """
    ties = {1 << 23, (1 << 24) - 1}
    for k in range(23):
        ties |= {1 << 23 | 1 << k, 1 << 23 | 3 << k & 0x7FFFFF, (1 << 24) - (1 << k)}
    found = {n + d for n in ties for d in (-1, 0, 1)}
    dropped = 23 - referee.FORMATS[out].fraction_bits
    if dropped:
        for kept, eighths in itertools.product((0, 1, 2, 5), range(9, 16)):
            tie = Fraction((1 << 23) + (kept << dropped) + (1 << (dropped - 1)))
            quotient = tie * 8 / eighths
            quotient *= 2 if quotient < 1 << 23 else 1
            found |= {int(quotient), int(quotient) + 1}
    return sorted(n for n in found if 1 << 23 <= n < 1 << 24)


def scale_pattern(significand: int, exponent: int) -> int:
    return (exponent + 127) << 23 | significand & 0x7FFFFF


@functools.cache
def boundary_accumulators() -> np.ndarray:
    preset = referee.PRESETS["ada"]
    return np.array([[referee.dot([a], "e5m2", [b], "e4m3", 0, preset) for b in FACTORS] for a in POWERS], np.uint32)


def check_boundary(out: str, powers: list[int], scales: tuple[int, int, int | None]) -> None:
    a, b = one_hot([POWERS[i] for i in powers], "e5m2"), one_hot(FACTORS, "e4m3")
    expected = epilogue_table(boundary_accumulators()[powers], scales, out)
    assert_same(call(a, b, scales, out), expected, f"scales {scales}")


@needs_torch
@pytest.mark.parametrize("out", OUTPUTS)
def test_every_kind_of_rounding_boundary(out):
    for (exponent, powers), significand in itertools.product(boundary_exponents(out), boundary_fractions(out)):
        check_boundary(out, powers, (scale_pattern(significand, exponent), ONE32, None))


@needs_torch
@pytest.mark.parametrize("out", FP8)
def test_every_kind_of_rounding_boundary_through_scale_result(out):
    for (exponent, powers), significand in itertools.product(boundary_exponents(out), boundary_fractions(out)):
        scales = pattern(-1.5), scale_pattern(1 << 23, exponent - 60), scale_pattern(significand, 60)
        check_boundary(out, powers, scales)


def rounding_once(acc: int, scale: int, out: str) -> int:
    value = referee.decode(acc, referee.FP32) * referee.decode(scale, referee.FP32)
    form = referee.FORMATS[out]
    if form.bits == 8:
        value = min(max(value, -form.largest), form.largest)
    return referee.encode(value, form)


@pytest.mark.parametrize("out", OUTPUTS[1:])
def test_the_boundaries_tell_two_roundings_from_one(out):
    """Else the tests above would pass a library that rounds the exact product once."""
    exponent, powers = boundary_exponents(out)[0]
    accumulators = boundary_accumulators()[powers[-1]].tolist()
    scales = [scale_pattern(significand, exponent) for significand in boundary_fractions(out)]
    assert any(
        rounding_once(acc, scale, out) != referee.epilogue(acc, scale, ONE32, None, out)
        for acc, scale in itertools.product(accumulators, scales)
    )


# Scales that are zero, subnormal, huge or not finite, with accumulators of every kind

SPECIAL_SCALES = [
    *(0x00000000, 0x80000000, 0x00000001, 0x80000003, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001),
]


@needs_torch
@pytest.mark.parametrize("out", OUTPUTS)
def test_special_scales(out):
    a_codes = [0x00, 0x80, 0x01, 0x81, 0x3C, 0xBC, 0x7B, 0xFB, 0x7C, 0xFC, 0x7E]  # e5m2
    b_codes = [0x38, 0x00, 0x80, 0x01, 0x81, 0xB8, 0x7E, 0xFE, 0x7F, 0x3F, 0x08, 0x30, 0x40, 0x48, 0x77, 0xF7]  # e4m3
    a, b = one_hot(a_codes, "e5m2"), one_hot(b_codes, "e4m3")
    table = product_table("e5m2", "e4m3", referee.PRESETS["ada"]).reshape(256, 256)
    accumulators = table[np.ix_(a_codes, b_codes)]
    result_scales = [None, *SPECIAL_SCALES] if out in FP8 else [None]
    for scales in itertools.product(SPECIAL_SCALES, SPECIAL_SCALES, result_scales):
        expected = epilogue_table(accumulators, scales, out)
        assert_same(call(a, b, scales, out), expected, f"scales {[s if s is None else hex(s) for s in scales]}")
