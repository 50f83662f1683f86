"""Hypothesis strategies for what a product is made of: operands by class, chain starts, scales, presets, splits.

Codes and fp32 numbers are plain ints, as the referee takes them. Every class is a table of codes that drawn bytes
index, its simplest code first, so that a failing example shrinks towards zeros.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

import referee

FORMAT_PAIRS = [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")]


# Tables of codes


def _magnitude(code: int) -> int:
    return code & 0x7F


def _exponent_field(code: int, fmt: str) -> int:
    return _magnitude(code) >> referee.FORMATS[fmt].fraction_bits


def _finite(fmt: str) -> list[int]:
    codes = [c for c in range(256) if referee.is_finite(referee.decode(c, referee.FORMATS[fmt]))]
    return sorted(codes, key=lambda c: (_magnitude(c), c))


FINITE = {fmt: _finite(fmt) for fmt in ("e4m3", "e5m2")}
NON_FINITE = {fmt: sorted(set(range(256)) - set(FINITE[fmt])) for fmt in FINITE}
SUBNORMAL = {fmt: [c for c in FINITE[fmt] if _exponent_field(c, fmt) == 0] for fmt in FINITE}
LARGEST = {fmt: FINITE[fmt][-4:] for fmt in FINITE}
# Exponents near zero, as rounded activations and weights have them.
MODERATE = {
    fmt: [c for c in FINITE[fmt] if abs(_exponent_field(c, fmt) - referee.FORMATS[fmt].bias) <= 3] for fmt in FINITE
}
ONE_EXPONENT = {
    fmt: {
        field: [c for c in FINITE[fmt] if _exponent_field(c, fmt) == field]
        for field in {_exponent_field(c, fmt) for c in FINITE[fmt]}
    }
    for fmt in FINITE
}
ZEROS = [0x00, 0x80]


def row(table: list[int], depth: int) -> st.SearchStrategy[list[int]]:
    return st.binary(min_size=depth, max_size=depth).map(lambda raw: [table[byte % len(table)] for byte in raw])


# Operands by class


@st.composite
def one_exponent_per_block(draw, fmt: str, depth: int) -> list[int]:
    """Blocks of 16 or 32 elements, all of one exponent, so that the exponents of blocks differ and not within one."""
    block = draw(st.sampled_from([16, 32]))
    codes: list[int] = []
    while len(codes) < depth:
        codes += draw(row(ONE_EXPONENT[fmt][draw(st.sampled_from(sorted(ONE_EXPONENT[fmt])))], block))
    return codes[:depth]


@st.composite
def outliers(draw, fmt: str, depth: int) -> list[int]:
    """Subnormals with a few large elements, which decide what the others keep."""
    codes = draw(row(SUBNORMAL[fmt], depth))
    for k in draw(st.lists(st.integers(0, depth - 1), max_size=3)) if depth else []:
        codes[k] = draw(st.sampled_from(LARGEST[fmt] + MODERATE[fmt]))
    return codes


@st.composite
def non_finite(draw, fmt: str, depth: int) -> list[int]:
    """Finite codes with a NaN, an infinity or a few of them somewhere."""
    codes = draw(row(draw(st.sampled_from([MODERATE[fmt], ZEROS, FINITE[fmt]])), depth))
    for k in draw(st.lists(st.integers(0, depth - 1), min_size=1, max_size=3)) if depth else []:
        codes[k] = draw(st.sampled_from(NON_FINITE[fmt]))
    return codes


def rows(fmt: str, depth: int, *, finite: bool = False) -> st.SearchStrategy[list[int]]:
    """One row of an operand, of any class."""
    classes = [
        row(FINITE[fmt], depth),
        row(MODERATE[fmt], depth),
        row(SUBNORMAL[fmt], depth),
        row(LARGEST[fmt], depth),
        row(ZEROS, depth),
        st.sampled_from(sorted(ONE_EXPONENT[fmt])).flatmap(lambda field: row(ONE_EXPONENT[fmt][field], depth)),
        one_exponent_per_block(fmt, depth),
        outliers(fmt, depth),
        st.sampled_from(FINITE[fmt]).map(lambda code: [code] * depth),
    ]
    return st.one_of(*classes) if finite else st.one_of(*classes, non_finite(fmt, depth))


class Operands(NamedTuple):
    """a is M rows and b is N rows of K codes. The rows are few and repeated, so that a large product has few
    different outputs: a_row and b_row say which row stands where."""

    fmt_a: str
    fmt_b: str
    depth: int
    a: list[list[int]]
    b: list[list[int]]
    a_row: list[int]
    b_row: list[int]


def _mirror(codes: list[int], negate: bool, adjacent: bool) -> list[int]:
    """codes followed by, or interleaved with, themselves or their negatives."""
    again = [code ^ 0x80 for code in codes] if negate else list(codes)
    return [code for pair in zip(codes, again, strict=True) for code in pair] if adjacent else codes + again


@st.composite
def cancelling(draw, operands: Operands) -> Operands:
    """The first half of K a second time with one sign flipped: sums cancel, but for elements changed afterwards."""
    adjacent, half = draw(st.booleans()), operands.depth // 2
    a = [_mirror(codes[:half], False, adjacent) + codes[2 * half :] for codes in operands.a]
    b = [_mirror(codes[:half], True, adjacent) + codes[2 * half :] for codes in operands.b]
    for k in draw(st.lists(st.integers(0, operands.depth - 1), max_size=2)) if operands.depth else []:
        a[0][k] = draw(st.sampled_from(FINITE[operands.fmt_a]))
    return operands._replace(a=a, b=b)


@st.composite
def operands(draw, depths: st.SearchStrategy[int], pairs=FORMAT_PAIRS, max_rows=40, N=None) -> Operands:
    """N: the number of rows of b, else drawn as M is."""
    fmt_a, fmt_b = draw(st.sampled_from(pairs))
    depth = draw(depths)
    a = draw(st.lists(rows(fmt_a, depth), min_size=1, max_size=3))
    b = draw(st.lists(rows(fmt_b, depth), min_size=1, max_size=3))
    counts = st.one_of(st.integers(1, 9), st.integers(1, max_rows))
    a_row, b_row = (
        [place % len(distinct) for place in draw(st.binary(min_size=count, max_size=count))]
        for distinct, count in ((a, draw(counts)), (b, draw(counts) if N is None else draw(N)))
    )
    drawn = Operands(fmt_a, fmt_b, depth, a, b, a_row, b_row)
    return draw(cancelling(drawn)) if draw(st.integers(0, 4)) == 4 else drawn


# Depths of K: ragged ones, and both sides of the blocks and tiles of 16, 32, 64 and 128
_EDGES = sorted({n + d for n in (16, 32, 64, 96, 128, 192, 256, 384, 512) for d in (-1, 0, 1)})
DEPTHS = st.one_of(st.integers(1, 200), st.sampled_from(_EDGES), st.integers(0, 600))
LONG_DEPTHS = st.one_of(st.integers(600, 4000), st.integers(5, 31).map(lambda tiles: 128 * tiles))
ALIGNED_DEPTHS = DEPTHS.map(lambda depth: 16 * max(1, depth // 16))


# fp32 patterns


def _fp32(sign: int, exponent: int, fraction: int) -> int:
    return sign << 31 | exponent << 23 | fraction


_SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF]
_NON_FINITE = [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF]
_FRACTIONS = st.one_of(st.integers(0, 0x7FFFFF), st.sampled_from([0, 1, 0x7FFFFF, 0x400000, 0x000200, 0x000FFF]))


def fp32_near(low: int, high: int) -> st.SearchStrategy[int]:
    """Numbers of either sign whose exponent is in low..high."""
    return st.builds(_fp32, st.integers(0, 1), st.integers(low + 127, high + 127), _FRACTIONS)


SUBNORMAL_STARTS = st.builds(_fp32, st.integers(0, 1), st.just(0), _FRACTIONS)
# What a chain starts from: beside its products, far above and below them, subnormal, any pattern at all.
STARTS = st.one_of(
    fp32_near(-34, 34),
    st.sampled_from(_SPECIAL + _NON_FINITE),
    SUBNORMAL_STARTS,
    st.integers(0, 2**32 - 1),
    fp32_near(-126, 127),
)
SCALES = st.one_of(
    fp32_near(-24, 24), fp32_near(-126, 127), st.sampled_from(_SPECIAL + _NON_FINITE), st.integers(0, 2**32 - 1)
)


@st.composite
def scale_pairs(draw) -> tuple[int, int]:
    """scale_a and scale_b: mostly far apart with a moderate product, which leaves results finite in every format."""
    if draw(st.integers(0, 3)) == 3:
        return draw(SCALES), draw(SCALES)
    apart, product = draw(st.one_of(st.just(0), st.integers(-90, 90))), draw(st.integers(-24, 6))
    return draw(fp32_near(apart, apart)), draw(fp32_near(product - apart, product - apart))


RESULT_SCALES = st.one_of(st.none(), fp32_near(-8, 8), SCALES)


# Presets and splits

# Block lengths that divide tiles and ones that do not; chunks shorter and longer than K.
_BLOCKS = st.one_of(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 32, 48, 64, 128, 2**20, 2**63 - 1]), st.integers(1, 300))
CUSTOM_PRESETS = st.builds(
    referee.Preset,
    nfma=_BLOCKS,
    frac=st.integers(1, 40),
    frac_out=st.integers(1, 23),
    min_exp=st.one_of(st.integers(-60, 10), st.integers(-160, 160), st.sampled_from([-(2**31) + 1, 2**31 - 1])),
    late_c=st.booleans(),
    slow_chunk=st.one_of(st.sampled_from([64, 128, 2**63 - 1]), st.integers(1, 300)),
)


def splits(schemes: list[str]) -> st.SearchStrategy[tuple[int, str]]:
    """(S, scheme) of every scheme named; more splits than tiles too."""
    if not schemes:
        return st.just((1, "none"))
    counts = st.one_of(st.integers(2, 9), st.integers(2, 70))
    return st.one_of(st.just((1, "none")), st.tuples(counts, st.sampled_from(schemes)))
