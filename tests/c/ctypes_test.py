"""mmaemu.h through ctypes, with the standard library alone: replays recordings of the oracle.

Usage: ctypes_test.py LIBRARY
"""

import ast
import ctypes
import json
import struct
import sys
import unittest
import zipfile
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "oracle"
i64, text = ctypes.c_int64, ctypes.c_char_p
lib = ctypes.CDLL(sys.argv.pop())
lib.mmaemu_last_error.restype = lib.mmaemu_status_name.restype = text


class Operand(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("format", text), ("rows", i64), ("depth", i64)]
    _fields_ += [("row_stride", i64), ("depth_stride", i64)]


class Result(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("format", text), ("rows", i64), ("columns", i64)]
    _fields_ += [("row_stride", i64), ("column_stride", i64)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("profile", text), ("fast", ctypes.c_int), ("split", i64), ("scheme", text)]
    _fields_ += [("threads", ctypes.c_int), ("cpu_target", text)]  # the library knows the end by the size

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(Options), **fields)


def load(member):
    """Shape and bytes of an array of an .npz file."""
    data = arrays.read(member + ".npy")
    (length,) = struct.unpack("<H", data[8:10])
    return ast.literal_eval(data[10 : 10 + length].decode())["shape"], data[10 + length :]


def product(case, scaled):
    """What the library makes of a recorded call, as bytes."""
    (M, K), a = load(case["a"])
    (N, _), b = load(case["b"])
    size = {"float32": 4, "bfloat16": 2, "float16": 2}.get(case["out_dtype"], 1) if scaled else 4
    out = ctypes.create_string_buffer(M * N * size)
    operands = [
        ctypes.byref(Operand(codes, case[f"fmt_{side}"].encode(), rows, K, K, 1))
        for side, codes, rows in (("a", a, M), ("b", b, N))
    ]
    dtype = case["out_dtype"].encode() if scaled else b"float32"
    result = Result(ctypes.cast(out, ctypes.c_void_p), dtype, M, N, N, 1)
    S, scheme = case["splitk"]
    options = Options(profile=case["profile"].encode(), fast=case["fast"], split=S)
    options.scheme = scheme.encode() if S > 1 else None
    if scaled:
        scales = [number(case["scale_a_bits"]), number(case["scale_b_bits"])]
        scale_result = case["scale_result_bits"]
        again = None if scale_result is None else ctypes.byref(number(scale_result))
        status = lib.mmaemu_scaled_mm(*operands, *scales, again, ctypes.byref(result), ctypes.byref(options))
    else:
        status = lib.mmaemu_accumulate(*operands, ctypes.byref(result), ctypes.byref(options))
    if status:
        raise RuntimeError(f"{lib.mmaemu_status_name(status).decode()}: {lib.mmaemu_last_error().decode()}")
    return out.raw


def number(bits):
    return ctypes.c_float.from_buffer_copy(struct.pack("<I", bits))


class Recordings(unittest.TestCase):
    def test_scaled_mm_and_accumulate_return_the_recorded_bits(self):
        with open(GOLDEN / "cases.jsonl", encoding="utf-8") as lines:
            cases = [json.loads(line) for line in lines]
        self.assertEqual(len(cases), 600)
        for case in cases[::5]:
            with self.subTest(case=case):
                self.assertEqual(product(case, True), load(case["y"])[1])
                self.assertEqual(product(case, False), load(case["acc"])[1])

    def test_an_error_has_its_class_and_message(self):
        options = Options(profile=b"no such profile")
        operand = Operand(b"\x38" * 256, b"e4m3", 16, 16, 16, 1)
        out = ctypes.create_string_buffer(b"\x55" * 1024, 1024)
        result = Result(ctypes.cast(out, ctypes.c_void_p), b"float32", 16, 16, 16, 1)
        status = lib.mmaemu_accumulate(*[ctypes.byref(x) for x in (operand, operand, result, options)])
        self.assertEqual(lib.mmaemu_status_name(status), b"KeyError")
        self.assertIn(b"no such profile", lib.mmaemu_last_error())
        self.assertEqual(out.raw, b"\x55" * 1024)


if __name__ == "__main__":
    with zipfile.ZipFile(GOLDEN / "arrays.npz") as arrays:
        unittest.main()
