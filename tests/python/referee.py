"""The numerics contract (docs/semantics.md) written a second time, from its text alone, in exact fractions.

It judges mmaemu and shares nothing with it: no code, no library, no representation. Codes and fp32 numbers go in
and out as plain ints (bit patterns). It is meant to be read beside the contract, not to be fast.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import NamedTuple

NAN = math.nan
INF = math.inf


# Section 1: formats


@dataclasses.dataclass(frozen=True, eq=False)  # compared by identity, which keeps the tables below cheap
class Format:
    """Section 1. An ieee format has infinities in its top exponent field; the other has one NaN per sign there."""

    bits: int
    fraction_bits: int
    bias: int
    ieee: bool
    canonical_nan: int
    largest: Fraction

    @property
    def exponent_min(self) -> int:
        return 1 - self.bias

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)


FORMATS = {
    "e4m3": Format(8, 3, 7, False, 0x7F, Fraction(448)),
    "e5m2": Format(8, 2, 15, True, 0x7F, Fraction(57344)),
    "float16": Format(16, 10, 15, True, 0x7FFF, Fraction(65504)),
    "bfloat16": Format(16, 7, 127, True, 0x7FFF, Fraction(2) ** 128 - Fraction(2) ** 120),
    "float32": Format(32, 23, 127, True, 0x7FFFFFFF, Fraction(2) ** 128 - Fraction(2) ** 104),
}
FP32 = FORMATS["float32"]


def is_finite(value: Fraction | float) -> bool:
    """Finite values are Fractions; the floats inf, -inf and nan stand for the others."""
    return isinstance(value, Fraction)


def is_negative(code: int, fmt: Format) -> bool:
    return code & fmt.sign_bit != 0


def floor_log2(x: Fraction) -> int:
    """floor(log2|x|) of a nonzero x, whose denominator is a power of two as everywhere in this file."""
    return abs(x.numerator).bit_length() - x.denominator.bit_length()


def power_of_two(n: int) -> Fraction:
    return Fraction(1 << n) if n >= 0 else Fraction(1, 1 << -n)


@functools.lru_cache(maxsize=1 << 17)
def decode(code: int, fmt: Format) -> Fraction | float:
    """Section 1: the number of a code. The sign of a zero is lost here; is_negative tells it."""
    sign = -1 if is_negative(code, fmt) else 1
    fraction = code & ((1 << fmt.fraction_bits) - 1)
    field = (code & (fmt.sign_bit - 1)) >> fmt.fraction_bits
    field_max = (fmt.sign_bit - 1) >> fmt.fraction_bits
    if fmt.ieee and field == field_max:
        return sign * INF if fraction == 0 else NAN
    if not fmt.ieee and code & (fmt.sign_bit - 1) == fmt.sign_bit - 1:
        return NAN
    if field == 0:
        return sign * fraction * power_of_two(fmt.exponent_min - fmt.fraction_bits)
    return sign * (fraction + (1 << fmt.fraction_bits)) * power_of_two(field - fmt.bias - fmt.fraction_bits)


@functools.lru_cache(maxsize=1 << 10)
def operand_exponent(code: int, fmt: Format) -> int:
    """Section 1: e(x) = floor(log2|x|), not below the exponent of the smallest normal number; x is not zero."""
    value = decode(code, fmt)
    assert is_finite(value) and value != 0
    return max(floor_log2(value), fmt.exponent_min)


def encode(value: Fraction | float, fmt: Format, *, negative_zero: bool = False) -> int:
    """Section 5: round to nearest, ties to even; beyond the largest value to infinity; NaN is canonical.

    negative_zero says which zero a zero result is; a nonzero value that rounds to zero keeps its own sign.
    """
    if value != value:
        return fmt.canonical_nan
    sign = fmt.sign_bit if value < 0 or (value == 0 and negative_zero) else 0
    if value == 0:
        return sign
    infinity = ((fmt.sign_bit - 1) >> fmt.fraction_bits) << fmt.fraction_bits
    if not is_finite(value):
        assert fmt.ieee, "FP8 results are saturated before they are rounded"
        return sign | infinity
    exponent = max(floor_log2(value), fmt.exponent_min)
    significand = round(abs(value) / power_of_two(exponent - fmt.fraction_bits))  # Python rounds half to even
    # A significand that rounds up to the next power of two, or from subnormal to normal, carries into the exponent.
    magnitude = ((exponent - fmt.exponent_min) << fmt.fraction_bits) + significand
    if fmt.ieee:
        magnitude = min(magnitude, infinity)
    assert magnitude < fmt.sign_bit
    return sign | magnitude


# fp32 arithmetic on bit patterns: RN32 of the exact result, NaN canonical


def add32(x: int, y: int) -> int:
    """RN32(x + y), IEEE: a zero sum is -0 only of two -0."""
    p, q = decode(x, FP32), decode(y, FP32)
    if not (is_finite(p) and is_finite(q)):
        return encode(float(p) + float(q), FP32)
    return encode(p + q, FP32, negative_zero=is_negative(x, FP32) and is_negative(y, FP32))


def exact_product(p: Fraction | float, q: Fraction | float) -> Fraction | float:
    """p * q with IEEE's rules for infinities and NaN."""
    if is_finite(p) and is_finite(q):
        return p * q
    if p != p or q != q or p == 0 or q == 0:
        return NAN
    return INF if (p > 0) == (q > 0) else -INF


@functools.lru_cache(maxsize=1 << 10)
def multiply32(x: int, y: int) -> int:
    """RN32(x * y), IEEE: the sign is the product of the signs, of a zero too."""
    product = exact_product(decode(x, FP32), decode(y, FP32))
    return encode(product, FP32, negative_zero=is_negative(x, FP32) != is_negative(y, FP32))


def multiply_add_zero32(x: int, y: int) -> int:
    """RN32(x * y + (+0)) in one rounding: an exactly zero product gives +0, an underflow keeps its sign."""
    return encode(exact_product(decode(x, FP32), decode(y, FP32)), FP32)


# Section 2: the block step


class Preset(NamedTuple):
    """Section 2: the numbers of one tensor-core instruction."""

    nfma: int
    frac: int
    frac_out: int
    min_exp: int
    late_c: bool
    slow_chunk: int | None


PRESETS = {
    "ada": Preset(16, 13, 13, -132, False, 128),
    "hopper": Preset(32, 13, 13, -132, False, 128),
    "b200_mma_sync": Preset(32, 25, 23, -133, True, None),
}


@functools.lru_cache(maxsize=1 << 18)
def code_product(a: int, fmt_a: Format, b: int, fmt_b: Format) -> Fraction | float:
    """a*b, not rounded; with IEEE's rules where a or b is not finite."""
    return exact_product(decode(a, fmt_a), decode(b, fmt_b))


@functools.lru_cache(maxsize=1 << 18)
def term(a: int, fmt_a: Format, b: int, fmt_b: Format) -> tuple[Fraction, int] | None:
    """Section 2: a finite product and its exponent e(a)+e(b); None for a zero product, which has no exponent."""
    product = code_product(a, fmt_a, b, fmt_b)
    if product == 0:
        return None
    return product, operand_exponent(a, fmt_a) + operand_exponent(b, fmt_b)


def scaled_trunc(x: Fraction, n: int) -> int:
    """trunc(x * 2^n), toward zero, without building 2^n where n is far below zero."""
    numerator, denominator = x.as_integer_ratio()
    magnitude = abs(numerator)
    kept = (magnitude << n) // denominator if n >= 0 else (magnitude // denominator) >> -n
    return -kept if numerator < 0 else kept


def block_step(a: list[int], fmt_a: Format, b: list[int], fmt_b: Format, c: int, preset: Preset) -> int:
    """Section 2: one block of at most nfma finite products added to the finite fp32 number c."""
    terms = [t for t in (term(x, fmt_a, y, fmt_b) for x, y in zip(a, b, strict=True)) if t is not None]
    addend = decode(c, FP32)
    exponents = [exponent for _, exponent in terms]
    if addend != 0 and not preset.late_c:
        exponents.append(floor_log2(addend))
    E = max([*exponents, preset.min_exp])
    s = sum(scaled_trunc(product, preset.frac - E) for product, _ in terms)
    if not preset.late_c:
        s += scaled_trunc(addend, preset.frac - E)
    d = truncate_result(s, E - preset.frac, preset.frac_out)
    return add32(d, c) if preset.late_c else d


def truncate_result(s: int, n: int, frac_out: int) -> int:
    """Section 2: s * 2^n cut toward zero to frac_out fraction bits below its own exponent, as fp32; zero is +0."""
    if s == 0:
        return 0
    d = s * power_of_two(n)
    lsb = max(floor_log2(d), -126) - frac_out
    return encode(scaled_trunc(d, -lsb) * power_of_two(lsb), FP32)


def chain(a: list[int], fmt_a: Format, b: list[int], fmt_b: Format, c: int, preset: Preset) -> int:
    """Section 2: the block step over consecutive blocks of nfma elements. A short last block needs no padding:
    a zero code adds nothing and has no exponent."""
    for k in range(0, len(a), preset.nfma):
        c = block_step(a[k : k + preset.nfma], fmt_a, b[k : k + preset.nfma], fmt_b, c, preset)
    return c


# Section 4: non-finite operands


def non_finite_sum(a: list[int], fmt_a: Format, b: list[int], fmt_b: Format, c: int = 0) -> int | None:
    """Section 4: the IEEE value of c + sum_k a_k b_k as fp32 where it is not finite, else None."""
    numbers = [code_product(x, fmt_a, y, fmt_b) for x, y in zip(a, b, strict=True)]
    special = [x for x in [decode(c, FP32), *numbers] if not is_finite(x)]
    if not special:
        return None
    return encode(sum(special), FP32)  # inf + inf = inf, inf - inf = nan, and NaN stays


def dot(a: list[int], fmt_a: str, b: list[int], fmt_b: str, c: int, preset: Preset) -> int:
    """Sections 2, 4 and 6: model.dot, one chain from c. K = 0 returns c, NaN canonical."""
    formats = FORMATS[fmt_a], FORMATS[fmt_b]
    special = non_finite_sum(a, formats[0], b, formats[1], c)
    if special is not None:
        return special
    return chain(a, formats[0], b, formats[1], c, preset)


# Section 3: plans and combination


def chunks(indices: list[int], size: int) -> list[list[int]]:
    return [indices[i : i + size] for i in range(0, len(indices), size)]


def plan(K: int, preset: Preset, fast: bool, S: int = 1, scheme: str = "none") -> list[list[list[int]]]:
    """Section 3: for each split its chains in order, each chain a list of K indices.

    Where K ends inside a tile the tile is short: zero padding it adds nothing.
    """
    if S == 1:
        everything = list(range(K))
        return [[everything] if fast else chunks(everything, preset.slow_chunk)]
    if scheme == "contiguous":
        tiles = chunks(list(range(K)), 128)
        q = -(-len(tiles) // S)
        owned = [tiles[s * q : (s + 1) * q] for s in range(S)]
        flat = [[k for tile in own for k in tile] for own in owned]
        return [[own] if fast else chunks(own, preset.slow_chunk) for own in flat]
    assert scheme in ("serial", "pairwise")
    tiles = chunks(list(range(K)), 64)
    owned = [tiles[s::S] for s in range(S)]
    if fast:
        return [[[k for tile in own for k in tile]] for own in owned]
    return [[[k for tile in own[i : i + 2] for k in tile] for i in range(0, len(own), 2)] for own in owned]


def combine(partials: list[int], scheme: str) -> int:
    """Section 3: the fp32 sum of the partials in the scheme's order."""
    if scheme == "pairwise":
        S = len(partials)
        h = -(-S // 2)
        slots = [add32(partials[i], partials[i + h]) if i + h < S - 1 else partials[i] for i in range(h)]
        return functools.reduce(add32, slots, partials[S - 1])
    return functools.reduce(add32, partials)


def accumulator(
    a: list[int], fmt_a: str, b: list[int], fmt_b: str, preset: Preset, fast: bool, S: int = 1, scheme: str = "none"
) -> int:
    """Sections 3 and 4: the fp32 accumulator of one output, a row of a times a row of b."""
    formats = FORMATS[fmt_a], FORMATS[fmt_b]
    special = non_finite_sum(a, formats[0], b, formats[1])
    if special is not None:
        return special
    partials = []
    for chains in plan(len(a), preset, fast, S, scheme):
        results = [chain([a[k] for k in ks], formats[0], [b[k] for k in ks], formats[1], 0, preset) for ks in chains]
        # Fast: the one chain is the partial. Slow: the chains are added to +0 in order.
        partials.append(results[0] if fast else functools.reduce(add32, results, 0))
    return combine(partials, scheme)


def accumulate(
    a: list[list[int]],
    fmt_a: str,
    b: list[list[int]],
    fmt_b: str,
    preset: Preset,
    fast: bool,
    S: int = 1,
    scheme: str = "none",
) -> list[list[int]]:
    """mmaemu.accumulate on codes: a is M rows, b is N rows, the result M rows of N fp32 patterns."""
    return [[accumulator(x, fmt_a, y, fmt_b, preset, fast, S, scheme) for y in b] for x in a]


# Section 5: the epilogue


def epilogue(acc: int, scale_a: int, scale_b: int, scale_result: int | None, out: str) -> int:
    """Section 5: from an fp32 accumulator to a result code. Scales are fp32 patterns."""
    alpha = multiply32(scale_a, scale_b)
    y = multiply_add_zero32(acc, alpha)
    fmt = FORMATS[out]
    if fmt.bits == 8:
        if scale_result is not None:
            y = multiply32(y, scale_result)
        value = decode(y, FP32)
        if value == value:
            value = min(max(value, -fmt.largest), fmt.largest)
        return encode(value, fmt, negative_zero=is_negative(y, FP32))
    return encode(decode(y, FP32), fmt, negative_zero=is_negative(y, FP32))


def scaled_mm(
    a: list[list[int]],
    fmt_a: str,
    b: list[list[int]],
    fmt_b: str,
    scale_a: int,
    scale_b: int,
    scale_result: int | None,
    out: str,
    preset: Preset,
    fast: bool,
    S: int = 1,
    scheme: str = "none",
) -> list[list[int]]:
    """mmaemu.scaled_mm on codes; b holds the N rows of mat2.t(). K = 0: every output is +0 whatever the scales."""
    if not a or not a[0]:
        return [[0] * len(b) for _ in a]
    accumulators = accumulate(a, fmt_a, b, fmt_b, preset, fast, S, scheme)
    return [[epilogue(acc, scale_a, scale_b, scale_result, out) for acc in row] for row in accumulators]
