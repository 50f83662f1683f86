"""Reads tests/data/golden and makes of each recorded case the calls of mmaemu's API that it stands for.

What the fields of a case mean is in tests/data/golden/README.md. Nothing here knows how mmaemu computes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mmaemu

FOLDER = Path(__file__).parent.parent / "data" / "golden"
OPERANDS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
_CANONICAL_NAN = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF}

Case = dict[str, Any]


def cases(file: str) -> list[Case]:
    """The cases of a file of JSON lines."""
    return [json.loads(line) for line in (FOLDER / file).read_text(encoding="utf-8").splitlines()]


@functools.cache
def _archive(file: str) -> Any:
    return np.load(FOLDER / file)


def recorded(reference: list[str]) -> np.ndarray:
    """Bits recorded on the RTX 4060, named by [shard, key]."""
    shard, key = reference
    return _archive(f"rtx4060/{shard}.npz")[key]


def oracle(file: str, key: str) -> np.ndarray:
    """Bits of an archive that does not shard."""
    return _archive(file)[key]


def tensor(bits: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """The numbers that bits are."""
    signed = {1: np.uint8, 2: np.int16, 4: np.int32}[bits.dtype.itemsize]
    return torch.from_numpy(np.ascontiguousarray(bits).view(signed).copy()).view(dtype)


def bits_of(result: torch.Tensor) -> np.ndarray:
    """The bits of a tensor as unsigned integers."""
    integers = result.detach().contiguous().view(_INTEGERS[result.element_size()]).numpy()
    return integers.view(f"uint{8 * result.element_size()}")


def float32(pattern: int) -> torch.Tensor:
    """The scalar of a bit pattern."""
    return tensor(np.array(pattern, np.uint32), torch.float32)


def dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def splitk(pair: list[Any]) -> int | tuple[int, str]:
    """A recorded [S, scheme] as a splitk= argument."""
    S, scheme = pair
    return 1 if S == 1 else (S, scheme)


def difference(
    call: Callable[[], torch.Tensor], bits: np.ndarray, wanted_dtype: torch.dtype = torch.float32
) -> str | None:
    """What is wrong with a call's result; None where its dtype, shape and bits are the wanted ones."""
    try:
        result = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if result.dtype != wanted_dtype:
        return f"the result is {result.dtype}; wanted {wanted_dtype}"
    found = bits_of(result)
    if found.shape != bits.shape:
        return f"the result has shape {found.shape}; wanted {bits.shape}"
    different = int((found != bits).sum())
    return f"{different} of {bits.size} elements differ" if different else None


def other_error(call: Callable[[], torch.Tensor], wanted: str) -> str | None:
    """What a call does instead of raising the error of mmaemu named `wanted`; None where it raises exactly that."""
    try:
        call()
    except Exception as error:
        return None if type(error) is getattr(mmaemu, wanted) else f"{type(error).__name__}: {error}; wanted {wanted}"
    return f"no error; wanted {wanted}"


def wrong_outputs(case: Case, call: Callable[[Case, Case], torch.Tensor]) -> list[str]:
    """The outputs of a case that call(case, output) does not reproduce, with what is wrong."""
    wrong = []
    for output in case["outputs"]:
        expect = output["expect"]
        run = functools.partial(call, case, output)
        if "error" in expect:
            problem = other_error(run, expect["error"])
        else:
            bits = recorded(expect["bits"]).reshape(expect["shape"])
            problem = difference(run, bits, dtype(output.get("result_dtype") or output["out_dtype"]))
        if problem:
            wrong.append(f"{output['name']}: {problem}")
    return wrong


# --- instructions: kind "mma" ---------------------------------------------------------------------------------


def chains(case: Case) -> torch.Tensor:
    """The dot call of a recording of mma.sync, one row per chain."""
    a, b, c = (recorded(case[name]) for name in "abc")
    if case["layout"] == "tile":  # D[t, i, j] = chain over k of a[t, i, k] * b[t, j, k] from c[t, i, j]
        shape = (a.shape[0], a.shape[1], b.shape[1], a.shape[2])
        a = np.broadcast_to(a[:, :, None, :], shape)
        b = np.broadcast_to(b[:, None, :, :], shape)
    a, b = tensor(a, OPERANDS[case["fmt_a"]]), tensor(b, OPERANDS[case["fmt_b"]])
    start = tensor(c, torch.float32).reshape(a.shape[:-1])
    return mmaemu.model.dot(a, b, start, preset=case["preset"])


# --- products: kind "gemm" ------------------------------------------------------------------------------------


def _codes(case: Case, output: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """a [M, K] and b [N, K] of a product."""
    formats = OPERANDS[case["fmt_a"]], OPERANDS[case["fmt_b"]]
    if output.get("zero_operands"):
        M, N, K = output["call_shape"]
        a, b = (torch.zeros(rows, K, dtype=torch.uint8).view(fmt) for rows, fmt in zip((M, N), formats, strict=True))
        return a, b
    return tensor(recorded(case["a"]), formats[0]), tensor(recorded(case["b"]), formats[1])


def _epilogue_in_float64(accumulator: torch.Tensor, output: Case) -> torch.Tensor:
    """The documented epilogue by other means than mmaemu's: a product of two fp32 numbers is exact in float64."""
    out_dtype = dtype(output["out_dtype"])
    alpha = (float32(output["scale_a_bits"]).double() * float32(output["scale_b_bits"]).double()).float()
    y = (accumulator.double() * alpha.double() + 0.0).float()
    if out_dtype in OPERANDS.values():
        if output["scale_result_bits"] is not None:
            y = (y.double() * float32(output["scale_result_bits"]).double()).float()
        largest = torch.finfo(out_dtype).max
        y = y.clamp(-largest, largest)
    result = y.to(out_dtype)
    size = result.element_size()
    canonical = torch.tensor(_CANONICAL_NAN[size]).to(_INTEGERS[size])
    return torch.where(y.isnan(), canonical, result.view(_INTEGERS[size])).view(out_dtype)


def _accumulator_output(a: torch.Tensor, b: torch.Tensor, output: Case) -> torch.Tensor:
    accumulator = mmaemu.accumulate(
        a,
        b,
        use_fast_accum=output["fast"],
        splitk=splitk(output["splitk"]),
        profile="ada",
        out_dtype_for_split=dtype(output["out_dtype"]),
    )
    result = _epilogue_in_float64(accumulator, output)
    return result.diagonal().contiguous() if output.get("out_select") == "diagonal" else result


def product(case: Case, output: Case) -> torch.Tensor:
    """The call of one output of a recorded product."""
    a, b = _codes(case, output)
    M, N = a.shape[0], b.shape[0]
    if output["api"] == "accumulate":
        return _accumulator_output(a, b, output)
    if output.get("scaling") == "rowwise":
        scale_a, scale_b = torch.ones(M, 1), torch.ones(1, N)
    else:
        scale_a, scale_b = float32(output["scale_a_bits"]), float32(output["scale_b_bits"])
    how = output.get("call", {})
    positional = [a, b.t(), scale_a, scale_b]
    keywords: dict[str, Any] = {"splitk": splitk(output["splitk"]), "profile": "ada"}
    if how.get("bias"):
        bias = torch.zeros(N, dtype=dtype(output.get("bias_dtype", "bfloat16")))
        if how["bias"] == "positional":
            positional.append(bias)
        else:
            keywords["bias"] = bias
    if output["scale_result_bits"] is not None:
        keywords["scale_result"] = float32(output["scale_result_bits"])
    if how.get("out_dtype", True):
        keywords["out_dtype"] = dtype(output["out_dtype"])
    if how.get("use_fast_accum", True):
        keywords["use_fast_accum"] = output["fast"]
    arguments = {"input": a, "mat2": b, "scale_a": scale_a, "scale_b": scale_b}
    for name in how.get("requires_grad") or ():
        arguments[name].requires_grad_(True)
    if how.get("out_fill") is not None:
        keywords["out"] = torch.full((M, N), float(how["out_fill"]), dtype=dtype(output["out_dtype"]))
    result = mmaemu.scaled_mm(*positional, **keywords)
    if "out" in keywords:
        assert result is keywords["out"]
    return result


# --- exact calls of torch._scaled_mm: kind "call" -------------------------------------------------------------


def _stored(bits: np.ndarray, name: str) -> torch.Tensor:
    """An argument as it was before it became an operand: half formats were stored in bfloat16."""
    if bits.dtype == np.uint16:
        return tensor(bits, torch.bfloat16)
    return torch.from_numpy(bits.copy()).view(dtype(name))


def _laid_out(matrix: torch.Tensor, how: Case, *, weight: bool) -> torch.Tensor:
    """The matrix of rows with the recorded strides and offset; a weight [N, K] becomes mat2 [K, N]."""
    rows, columns = matrix.shape
    standard = how["layout"] == "std"
    if not standard:
        matrix, rows, columns = matrix.t(), columns, rows
    pad, offset = how["ld_pad"], how["offset"]
    leading = columns + pad
    memory = torch.zeros(offset + rows * leading + 1, dtype=matrix.dtype)
    memory[offset : offset + rows * leading].view(rows, leading)[:, :columns].copy_(matrix)
    if standard and not pad and not offset:
        view = matrix.contiguous()
    else:
        view = memory.as_strided((rows, columns), (leading, 1), offset)
    return view.t() if standard == weight else view


def _scale(how: Case, count: int) -> torch.Tensor:
    if how["value"] == "rowwise":
        values = [0.25 + 0.0625 * ((7 * i) % 16) for i in range(count)]
        return torch.tensor(values, dtype=torch.float64).reshape(how["shape"]).to(dtype(how["dtype"]))
    return torch.full(how["shape"], float(how["value"]), dtype=torch.float64).to(dtype(how["dtype"]))


def _out(how: Case) -> torch.Tensor:
    shape = how["shape"] if how["contiguous"] else how["shape"][::-1]
    memory = torch.empty(shape, dtype=dtype(how["dtype"]))
    memory.view(torch.uint8).fill_(0x7F)
    return memory if how["contiguous"] else memory.t()


def torch_call(case: Case, output: Case) -> torch.Tensor:
    """The call of one output of a recorded call of torch._scaled_mm."""
    how = output.get("call") or case["call"]
    input = _laid_out(_stored(recorded(case["a"]), how["mat1"]["dtype"]), how["mat1"], weight=False)
    mat2 = _laid_out(_stored(recorded(case["b"]), how["mat2"]["dtype"]), how["mat2"], weight=True)
    scale_a, scale_b = _scale(how["scale_a"], how["M"]), _scale(how["scale_b"], how["N"])
    bias = None
    if how["bias"]:
        steps = torch.arange(how["bias"]["len"], dtype=torch.float64)
        bias = (steps * 0.125 - 1.0).to(dtype(how["bias"]["dtype"]))
    keywords: dict[str, Any] = {
        "use_fast_accum": output["fast"],
        "profile": "ada",
        "splitk": splitk(output["splitk"]),
    }
    if output["out_dtype"]:
        keywords["out_dtype"] = dtype(output["out_dtype"])
    if how["scale_result"]:
        keywords["scale_result"] = _scale(how["scale_result"], 0)
    if how["out"]:
        keywords["out"] = _out(how["out"])
    grad = how["grad"] or {"requires_grad": [], "mode": "enable_grad"}
    for name in grad["requires_grad"]:
        {"scale_a": scale_a, "scale_b": scale_b, "mat1": input}[name].requires_grad_(True)
    mode: AbstractContextManager = torch.no_grad() if grad["mode"] == "no_grad" else torch.enable_grad()
    with mode:
        if how["positional_bias"]:
            return mmaemu.scaled_mm(input, mat2, scale_a, scale_b, bias, **keywords)
        return mmaemu.scaled_mm(input, mat2, scale_a=scale_a, scale_b=scale_b, bias=bias, **keywords)
