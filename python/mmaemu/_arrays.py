"""torch tensors and numpy arrays as the library sees them: descriptions for planning, views for computing.

torch and numpy are looked up where they are already loaded, never imported for a type test.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _native
from .errors import ReferenceRejectsError, UnsupportedFeatureError

Array = Any  # a torch.Tensor or a numpy.ndarray


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def kind_name(value: Any) -> str:
    return type(value).__name__


def from_dlpack(value: Any) -> Array:
    """A DLPack producer as a tensor or, where torch cannot import it, as an array; other values as they are."""
    if is_tensor(value) or is_numpy(value) or not hasattr(value, "__dlpack__"):
        return value
    problems = []
    for module, load in (("torch", _torch_from_dlpack), ("numpy", _numpy_from_dlpack)):
        try:
            return load(value)
        except Exception as problem:
            problems.append(f"{module}: {problem}")
    raise TypeError(f"cannot import a {kind_name(value)} by DLPack ({'; '.join(problems)})")


def _torch_from_dlpack(value: Any) -> Array:
    import torch

    return torch.utils.dlpack.from_dlpack(value)


def _numpy_from_dlpack(value: Any) -> Array:
    import numpy

    return numpy.from_dlpack(value)


def dtype_of(array: Array) -> str:
    """torch's name of the dtype, without "torch."."""
    return array.dtype.name if is_numpy(array) else str(array.dtype)[6:]


def strides_of(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    if is_numpy(array):
        return tuple(s // array.itemsize for s in array.strides)
    return array.stride()


def _check_dense(name: str, tensor: Array) -> None:
    import torch

    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout)
        raise ReferenceRejectsError(f"{name} must be a dense tensor, not one of layout {layout}")


def is_packed(value: Any) -> bool:
    weights = sys.modules.get(f"{__package__}.weights")
    return weights is not None and isinstance(value, weights.PackedWeight)


def describe(name: str, array: Array) -> _native.TensorDesc:
    """What planning needs to know of an argument. A packed weight is a contiguous w, and as mat2 its w.t()."""
    if is_packed(array):
        N, K = array.shape
        shape, strides = ([K, N], [1, K]) if name == "mat2" else ([N, K], [K, 1])
        return _native.TensorDesc(array.dtype, shape, strides, 0, "cpu", False)
    if is_numpy(array):
        return _native.TensorDesc(dtype_of(array), list(array.shape), list(strides_of(array)), 0, "cpu", False)
    _check_dense(name, array)
    return _native.TensorDesc(
        dtype_of(array),
        list(array.shape),
        list(array.stride()),
        offset_of(array),
        device_of(array),
        array.requires_grad,
    )


def device_of(tensor: Array) -> str:
    """ "cpu", "cuda:0"."""
    return str(tensor.device)


def offset_of(tensor: Array) -> int:
    """Bytes from a 16-byte boundary, as far as cuBLAS would see one.

    On the CPU, where addresses mean nothing to it, the offset into the storage stands for them.
    """
    if tensor.device.type == "cuda":
        return tensor.data_ptr() % 16
    return tensor.storage_offset() * tensor.itemsize if tensor.device.type == "cpu" else 0


def check_has_data(name: str, array: Array) -> None:
    """UnsupportedFeatureError for tensors whose memory does not hold their numbers."""
    if is_numpy(array) or is_packed(array) or 0 in array.shape:
        return
    try:
        held = not _is_fake(array) and array.data_ptr() != 0
    except RuntimeError:
        held = False
    if not held:
        raise UnsupportedFeatureError(
            f"{name} is a {kind_name(array)} on device {array.device} that holds no data (a meta or fake tensor, "
            f"or a wrapper around other tensors); pass a tensor with data"
        )
    if array.itemsize == 1 and array.is_neg():
        raise UnsupportedFeatureError(f"{name} is a negated view; torch has no negation of {array.dtype} codes")


def _is_fake(tensor: Array) -> bool:
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return fakes is not None and isinstance(tensor, fakes.FakeTensor)


def address_of(array: Array) -> int:
    return array.ctypes.data if is_numpy(array) else array.data_ptr()


def on_host(array: Array) -> Array:
    """The array itself, or a CUDA tensor's copy on the CPU."""
    if is_numpy(array) or array.device.type == "cpu":
        return array
    return array.detach().cpu()


def right_operand(array: Array) -> _native.OperandView | _native.PackedOperand:
    """N x K codes as the library takes them, from an array or a packed weight."""
    return array._packed if is_packed(array) else operand_view(on_host(array))


def operand_view(array: Array) -> _native.OperandView:
    """rows x K codes in host memory, in any layout."""
    row_stride, depth_stride = strides_of(array)
    rows, depth = array.shape
    return _native.OperandView(address_of(array), dtype_of(array), rows, depth, row_stride, depth_stride)


def result_view(array: Array) -> _native.ResultView:
    row_stride, column_stride = strides_of(array)
    rows, columns = array.shape
    return _native.ResultView(address_of(array), dtype_of(array), rows, columns, row_stride, column_stride)


def threads() -> int:
    """torch's thread count where torch is loaded, else $MMAEMU_NUM_THREADS; 0: the affinity mask decides."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.get_num_threads()
    text = os.environ.get("MMAEMU_NUM_THREADS", "")
    if not text:
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise ValueError(f"MMAEMU_NUM_THREADS must be an integer in 1..4096, not {text!r}")
    return int(text)


def empty_float32(shape: tuple[int, ...], *, like: Array) -> Array:
    """An uninitialised float32 array of like's library, in host memory."""
    if is_numpy(like):
        import numpy

        return numpy.empty(shape, dtype=numpy.float32)
    import torch

    return torch.empty(shape, dtype=torch.float32, device="cpu")
