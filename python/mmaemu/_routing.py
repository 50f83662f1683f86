"""Where a model's FP8 products pass: which dispatched operators they are, with which arguments, from which module.

emulation.py computes what passes here, recording.py saves it. Nothing of torch is replaced: a dispatch mode sees
every operator that eager code of its thread runs.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .errors import UnsupportedFeatureError

# scaled_mm of torch, of its successors, and of the extensions that name theirs alike (cutlass_scaled_mm, ...).
_SCALED_PRODUCT = re.compile(r"scaled_(\w+_)?(add)?(mm|matmul)(?![a-z])")
_TENSOR_WISE, _NO_SWIZZLE = 0, 0  # of torch.nn.functional.ScalingType and SwizzleType
_FIRST = ("self", "mat2", "scale_a", "scale_b", "bias", "scale_result", "out_dtype", "use_fast_accum")
_SECOND = (
    "self",
    "mat2",
    "scale_a",
    "recipe_a",
    "swizzle_a",
    "scale_b",
    "recipe_b",
    "swizzle_b",
    "bias",
    "out_dtype",
    "contraction_dim",
    "use_fast_accum",
)
_REMEDY = (
    "mmaemu computes torch._scaled_mm with one scale per tensor; replace this call by mmaemu.scaled_mm or "
    'mmaemu.accumulate and what it adds to them, or pass unsupported="native" to run it as it is'
)


def _named(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    arguments = dict(zip(names, args, strict=False)) | kwargs
    arguments["input"] = arguments.pop("self")
    return arguments


def _from_first(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return _named(_FIRST, args, kwargs)


def _from_second(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call of _scaled_mm_v2, whose tensor-wise case is that of _scaled_mm. UnsupportedFeatureError for others."""
    arguments = _named(_SECOND, args, kwargs)
    for side in ("a", "b"):
        scales, recipe = arguments[f"scale_{side}"], list(arguments.pop(f"recipe_{side}"))
        swizzle = list(arguments.pop(f"swizzle_{side}"))
        if recipe != [_TENSOR_WISE] or len(scales) != 1 or any(s != _NO_SWIZZLE for s in swizzle):
            raise UnsupportedFeatureError(
                f"{operator} with recipe_{side}={recipe} and swizzle_{side}={swizzle} is not tensor-wise; {_REMEDY}"
            )
        arguments[f"scale_{side}"] = scales[0]
    axes = [axis % 2 for axis in arguments.pop("contraction_dim", None) or (1, 0)]
    if axes != [1, 0]:
        raise UnsupportedFeatureError(f"{operator} contracts dimensions {axes}, not the last with the first; {_REMEDY}")
    return arguments


def _refuse(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    raise UnsupportedFeatureError(f"{operator} is another scaled matrix product; {_REMEDY}")


def _is_float8(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and str(value.dtype).startswith("torch.float8")


def _refuse_float8(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Extensions' products are refused where they get FP8 operands: the same names also take integers."""
    if any(map(_is_float8, (*args, *kwargs.values()))):
        return _refuse(operator, args, kwargs)
    return None


# Operator, args and kwargs -> the arguments under scaled_mm's names, None for what is no FP8 product after all.
Reader = Callable[[str, tuple[Any, ...], dict[str, Any]], "dict[str, Any] | None"]
_READERS: dict[tuple[str, str], Reader] = {
    ("aten", "_scaled_mm"): _from_first,
    ("aten", "_scaled_mm_v2"): _from_second,
}


def _reader(func: Any) -> Reader | None:
    """What reads the arguments of an operator; None for operators that are no FP8 product."""
    namespace, _, name = getattr(func, "_schema", func).name.partition("::")
    if not _SCALED_PRODUCT.search(name):
        return None
    return _READERS.get((namespace, name), _refuse if namespace == "aten" else _refuse_float8)


class _Readers(dict):  # type: ignore[type-arg]
    """Operator -> its reader, looked up once."""

    def __missing__(self, func: Any) -> Reader | None:
        reader = self[func] = _reader(func)
        return reader


_readers = _Readers()


class _Recordings(threading.local):
    """The recordings that this thread has entered."""

    def __init__(self) -> None:
        self.entered: list[Any] = []


recordings = _Recordings()


@dataclasses.dataclass(frozen=True)
class Request:
    """An FP8 product that a model asks for. arguments: under scaled_mm's names, None where error says what it is."""

    operator: str
    arguments: dict[str, Any] | None
    error: UnsupportedFeatureError | None
    native: Callable[[], Any]  # runs the operator itself: outside, where another mode may see it
    module: Callable[[], str | None]  # the path of the calling module, if one calls


class RoutingMode(TorchDispatchMode):
    """Answers each FP8 product with what serve(request) returns, and lets every other operator pass."""

    def __init__(self, serve: Callable[[Request], Any]) -> None:
        super().__init__()
        self._serve = serve
        self._names = ModuleNames()

    _lock = threading.Lock()
    _entries = 0  # of all threads

    def __enter__(self) -> RoutingMode:
        with RoutingMode._lock:
            super().__enter__()
            RoutingMode._entries += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        with RoutingMode._lock:
            RoutingMode._entries -= 1
            if torch._C._len_torch_dispatch_stack() == 1:
                self._correct_flags(RoutingMode._entries > 0)
            super().__exit__(*exception)

    def _correct_flags(self, active: bool) -> None:
        """What torch restores when this thread's last mode ends: whether a mode is on, one flag for all threads.

        It remembers the flag at the entrance, when another thread may have been inside; left on, torch.compile would
        compile nothing any more.
        """
        for name in (
            "old_dispatch_mode_flags",
            "old_non_infra_dispatch_mode_flags",
            "old_without_ignore_compile_internals_dispatch_mode_flags",
        ):
            if hasattr(self, name):  # not each torch version has all
                getattr(self, name)[-1] = active

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types and any(map(_unwraps_itself, types)):
            # Tensors of such classes unwrap themselves: their handler runs the operators inside, which come here.
            return NotImplemented
        reader = _readers[func]
        if reader is None:
            return self._pass(func, args, kwargs)
        operator, arguments, refusal = str(func), None, None
        try:
            arguments = reader(operator, args, kwargs)
            if arguments is None:
                return self._pass(func, args, kwargs)
        except UnsupportedFeatureError as error:
            refusal = error
        native = functools.partial(func, *args, **kwargs)
        return self._serve(Request(operator, arguments, refusal, native, self._names.current))

    def _pass(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs another operator. One of an extension may itself run FP8 products, so this mode stays on inside it."""
        if func.namespace in ("aten", "prim", "prims"):
            return func(*args, **kwargs)
        keys = _dispatch_keys((*args, *kwargs.values()))
        if keys is None:
            return func(*args, **kwargs)
        with self:  # redispatched below the modes' key, or this mode would see the same operator again
            return func.redispatch(keys & _BELOW_MODES, *args, **kwargs)


def _unwraps_itself(tensor_class: type) -> bool:
    """Whether a class of tensors handles operators; Parameters made under a mode are listed and do not."""
    return tensor_class.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__  # type: ignore[attr-defined]


_BELOW_MODES = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)


def _dispatch_keys(values: Any) -> Any:
    """The dispatch keys of all tensors among an operator's arguments; None where there is no tensor."""
    keys = None
    for value in values:
        if isinstance(value, torch.Tensor):
            found = torch._C._dispatch_keys(value)
        elif isinstance(value, (list, tuple)):
            found = _dispatch_keys(value)
        else:
            continue
        if found is not None:
            keys = found if keys is None else keys | found
    return keys


_CALLS_A_MODULE = torch.nn.Module._call_impl.__code__


def _running_modules() -> list[torch.nn.Module]:
    """The modules that this thread is calling, innermost first: read from its stack, since hooks would change them."""
    modules = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALLS_A_MODULE:
            modules.append(frame.f_locals["self"])
        frame = frame.f_back
    return modules


class ModuleNames:
    """Names the module that runs an operator, as named_modules() does, behind the outermost module's class."""

    def __init__(self) -> None:
        self._names: Any = weakref.WeakKeyDictionary()  # root -> module -> name, None where the root lacks it

    def current(self) -> str | None:
        """For example "Transformer.layers.0.mlp"; None where no module runs."""
        running = _running_modules()
        for root in reversed(running):
            name = self._name(root, running[0])
            if name is not None:
                return f"{type(root).__name__}.{name}" if name else type(root).__name__
        return None

    def _name(self, root: torch.nn.Module, module: torch.nn.Module) -> str | None:
        if root is module:
            return ""
        names = self._names.get(root)
        if names is None or module not in names or not _is_at(root, names[module], module):
            names = weakref.WeakKeyDictionary[torch.nn.Module, str | None]()
            self._names[root] = names
            for name, child in root.named_modules():
                names[child] = name
            names.setdefault(module, None)
        return names[module]


def _is_at(root: torch.nn.Module, name: str | None, module: torch.nn.Module) -> bool:
    """Whether root still holds module under the name: a remembered name may be out of date."""
    if name is None:
        return True
    try:
        return root.get_submodule(name) is module
    except AttributeError:
        return False
