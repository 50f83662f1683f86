"""Under emulate, a model's FP8 products return the bits of direct scaled_mm calls, and nothing else changes."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

import mmaemu
from calls import E4M3, E5M2, arguments, bits, codes

NATIVE = 7.0  # what StandIn answers
has_v2 = pytest.mark.skipif(not hasattr(torch.nn.functional, "scaled_mm"), reason="this torch has no scaled_mm")


class StandIn(TorchDispatchMode):
    """Answers every scaled product with NATIVE, as if the machine had kernels of its own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "scaled" in func.__name__:
            return torch.full((args[0].shape[0], args[1].shape[-1]), NATIVE)
        return func(*args, **(kwargs or {}))


class Float8Linear(torch.nn.Module):
    """A linear layer as models write it by hand: static scales, the weight kept as [N, K] codes."""

    def __init__(self, rows: int, depth: int, seed: int) -> None:
        super().__init__()
        self.register_buffer("weight", codes(rows, depth, seed=seed))
        self.register_buffer("scale_x", torch.tensor(0.5))
        self.register_buffer("scale_w", torch.tensor(2.0**-12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        coded = x.clamp(-448, 448).to(E4M3)
        return torch._scaled_mm(
            coded, self.weight.t(), self.scale_x, scale_b=self.scale_w, out_dtype=torch.bfloat16, use_fast_accum=True
        )


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = Float8Linear(64, 32, seed=3)
        self.down = Float8Linear(32, 64, seed=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Mlp() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def native(**changes: Any) -> torch.Tensor:
    """torch._scaled_mm with the arguments that calls.arguments gives scaled_mm."""
    given = arguments(**changes)
    return torch._scaled_mm(
        given["input"], given["mat2"], **{k: given[k] for k in given if k not in ("input", "mat2", "profile", "splitk")}
    )


@pytest.mark.parametrize("profile", ["ada", "hopper"])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16, E4M3])
def test_functional_calls_return_the_bits_of_scaled_mm(profile: str, fast: bool, out_dtype: torch.dtype) -> None:
    changes = {"input": codes(16, 256, seed=5), "mat2": codes(32, 256, seed=6).t(), "scale_result": torch.tensor(0.01)}
    changes |= {"out_dtype": out_dtype, "use_fast_accum": fast}
    expected = mmaemu.scaled_mm(**arguments(**changes, profile=profile))
    with mmaemu.emulate(profile, splitk=1):
        assert bits(native(**changes)) == bits(expected)


def test_arguments_may_be_positional_or_by_keyword() -> None:
    given = arguments(scale_result=torch.tensor(3.0), out_dtype=E5M2, input=codes(16, 32, E5M2))
    expected = mmaemu.scaled_mm(**given)
    order = ("input", "mat2", "scale_a", "scale_b", "bias", "scale_result", "out_dtype", "use_fast_accum")
    values = [(given | {"bias": None, "use_fast_accum": True}).get(name) for name in order]
    fast = mmaemu.scaled_mm(**given, use_fast_accum=True)
    with mmaemu.emulate("ada", splitk=1):
        assert bits(torch._scaled_mm(*values)) == bits(fast)
        assert bits(torch._scaled_mm(*values[:7])) == bits(expected)
        keywords = dict(zip(order, values, strict=True))
        keywords["self"] = keywords.pop("input")
        assert bits(torch.ops.aten._scaled_mm(**keywords)) == bits(fast)


@pytest.mark.parametrize("column_major", [False, True])
def test_the_out_variant_writes_the_given_tensor(column_major: bool) -> None:
    out = torch.full((16, 16), 9.0)
    out = out.t() if column_major else out
    expected = mmaemu.scaled_mm(**arguments(), out=torch.empty_like(out))
    with mmaemu.emulate("ada", splitk=1) as log:
        result = native(out=out)
    assert result is out
    assert bits(out) == bits(expected)
    assert log.calls[0].operator == "aten._scaled_mm.out"


def test_every_layer_of_a_model_is_emulated_and_named() -> None:
    model, x = Model(), torch.randn(16, 32)
    expected = x
    for layer in model.layers:
        for linear in (layer.up, layer.down):
            coded = torch.relu(expected) if linear is layer.down else expected
            coded = coded.clamp(-448, 448).to(E4M3)
            expected = mmaemu.scaled_mm(
                coded,
                linear.weight.t(),
                linear.scale_x,
                linear.scale_w,
                None,
                None,
                torch.bfloat16,
                True,
                profile="ada",
            )
    with mmaemu.emulate("ada") as log:
        result = model(x)
    assert bits(result) == bits(expected)
    assert [call.module for call in log.calls] == [
        f"Model.layers.{layer}.{name}" for layer in (0, 1) for name in ("up", "down")
    ]


def test_the_log_tells_what_ran() -> None:
    x, w, one = codes(32, 8192, seed=1), codes(64, 8192, seed=2).t(), torch.ones(())
    with mmaemu.emulate("hopper") as log:
        torch._scaled_mm(x, w, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    (call,) = log.calls
    decision = mmaemu.resolve_splitk(
        32, 64, 8192, a_dtype="e4m3", b_dtype="e4m3", out_dtype="bfloat16", use_fast_accum=True, profile="hopper"
    )
    assert decision.S == 3
    assert (call.M, call.N, call.K) == (32, 64, 8192)
    assert (call.a_dtype, call.b_dtype, call.out_dtype) == ("float8_e4m3fn", "float8_e4m3fn", "bfloat16")
    assert (call.use_fast_accum, call.profile, call.split) == (True, "hopper", decision)
    assert (call.module, call.native, call.backend) == (None, None, "reference")
    assert 0 < call.seconds < 60
    assert len(log) == 1
    assert log.seconds == call.seconds
    assert "3 contiguous, table" in str(log.summary())


def test_a_summary_puts_numbered_layers_together() -> None:
    with mmaemu.emulate("ada", splitk=1) as log:
        for rows in (16, 48):
            Model()(torch.randn(rows, 32))
    text = str(log.summary())
    assert text.splitlines()[0].startswith("8 FP8 products in ")
    up = next(line for line in text.splitlines() if "Model.layers.*.up" in line)
    assert up.split()[1:6] == ["4", "16", "to", "48", "64"]
    assert "1, explicit" in up
    assert len(text.splitlines()) == 4
    assert repr(log.summary()) == text


def test_html_of_a_log_escapes_what_it_shows() -> None:
    class Odd(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return native()

    Odd.__name__ = "<b>"
    with mmaemu.emulate("ada", splitk=1) as log:
        Odd()()
    page = log._repr_html_()
    assert "<td>&lt;b&gt;</td>" in page
    assert "<b>" not in page


def test_a_module_that_its_root_does_not_hold_is_named_by_its_class() -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [Float8Linear(16, 32, seed=1)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.hidden[0](x)

    holder, x = Holder(), torch.randn(16, 32)
    with mmaemu.emulate("ada", splitk=1) as log:
        holder(x)
        holder(x)
        holder.known = holder.hidden[0]
        holder(x)
    assert [call.module for call in log.calls][:2] == ["Float8Linear"] * 2


def test_a_renamed_module_is_not_logged_under_its_old_name() -> None:
    model, x = Mlp(), torch.randn(16, 32)
    with mmaemu.emulate("ada", splitk=1) as log:
        model(x)
        model.up, model.other = Float8Linear(64, 32, seed=9), model.up
        model(x)
        model.up = model.other
        del model.other
        model(x)
    assert [call.module for call in log.calls] == ["Mlp.up", "Mlp.down"] * 3


def test_the_innermost_block_decides_and_leaving_restores_the_outer() -> None:
    results = {
        profile: bits(mmaemu.scaled_mm(**arguments(**_long(), profile=profile))) for profile in ("ada", "hopper")
    }
    assert results["ada"] != results["hopper"]
    with mmaemu.emulate("ada", splitk=1) as outer:
        assert bits(native(**_long())) == results["ada"]
        with mmaemu.emulate("hopper", splitk=1) as inner:
            assert bits(native(**_long())) == results["hopper"]
        assert bits(native(**_long())) == results["ada"]
    assert (len(outer), len(inner)) == (2, 1)
    assert _get_current_dispatch_mode() is None


def _long() -> dict[str, Any]:
    """Operands on which the platforms differ."""
    return {"input": codes(16, 512, seed=1), "mat2": codes(16, 512, seed=2).t(), "use_fast_accum": True}


def test_an_exception_leaves_no_mode_behind() -> None:
    with pytest.raises(ZeroDivisionError), mmaemu.emulate("ada", splitk=1):
        with pytest.raises(KeyError), mmaemu.emulate("hopper"):
            raise KeyError
        assert bits(native()) == bits(mmaemu.scaled_mm(**arguments()))
        raise ZeroDivisionError
    assert _get_current_dispatch_mode() is None
    with StandIn():
        assert native()[0, 0] == NATIVE


def test_one_object_may_be_entered_again_while_it_is_entered() -> None:
    emulation = mmaemu.emulate("ada", splitk=1)
    expected = bits(mmaemu.scaled_mm(**arguments()))
    with emulation:
        with emulation:
            assert bits(native()) == expected
        assert bits(native()) == expected
    assert _get_current_dispatch_mode() is None
    assert len(emulation.log) == 2


def test_a_thread_enters_for_itself_and_may_share_the_object() -> None:
    emulation = mmaemu.emulate("ada", splitk=1)
    expected = bits(mmaemu.scaled_mm(**arguments()))

    def outside() -> float:
        with StandIn():
            return float(native()[0, 0])

    def inside() -> bool:
        for _ in range(20):
            with emulation:
                if bits(native()) != expected:
                    return False
        return _get_current_dispatch_mode() is None

    with concurrent.futures.ThreadPoolExecutor(4) as pool, emulation:
        assert pool.submit(outside).result() == NATIVE
        assert all(job.result() for job in [pool.submit(inside) for _ in range(8)])
    assert len(emulation.log) == 160


def test_threads_that_leave_in_any_order_leave_torch_compile_working() -> None:
    compiled: list[Any] = []
    emulation, barrier = mmaemu.emulate("ada"), threading.Barrier(2)

    def inside() -> None:
        barrier.wait()  # the other thread is inside, or about to leave
        with emulation:
            barrier.wait()
            barrier.wait()

    thread = threading.Thread(target=inside)
    thread.start()
    with emulation:
        barrier.wait()
        barrier.wait()
    barrier.wait()
    thread.join()
    backend = lambda graph, _: compiled.append(graph) or graph.forward  # noqa: E731
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert len(compiled) == 1


def test_a_decorated_function_is_emulated_at_every_call() -> None:
    emulation = mmaemu.emulate("ada", splitk=1)

    @emulation
    def run(again: int) -> list[Any]:
        """Runs."""
        return run(again - 1) if again else bits(native())

    assert run(2) == bits(mmaemu.scaled_mm(**arguments()))
    assert (run.__name__, run.__doc__) == ("run", "Runs.")
    assert len(emulation.log) == 1
    assert _get_current_dispatch_mode() is None


def _generator() -> Any:
    yield


async def _coroutine() -> None: ...


@pytest.mark.parametrize("function", [_generator, _coroutine, "not a function"])
def test_what_does_its_work_after_it_returned_cannot_be_decorated(function: Any) -> None:
    with pytest.raises(TypeError, match="emulate cannot decorate"):
        mmaemu.emulate()(function)


def test_operands_that_require_grad_are_refused_and_run_without_grad() -> None:
    x = codes(16, 32).requires_grad_()
    with mmaemu.emulate("ada", splitk=1):
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="requires grad"):
            native(input=x)
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="requires grad"):
            native(scale_a=torch.tensor(1.0, requires_grad=True))
        with torch.no_grad():
            assert bits(native(input=x)) == bits(mmaemu.scaled_mm(**arguments(input=x)))
        with torch.inference_mode():
            assert bits(native()) == bits(mmaemu.scaled_mm(**arguments()))


def test_an_autograd_function_trains_under_emulation() -> None:
    one = torch.ones(())

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(w)
            return torch._scaled_mm(x.to(E4M3), w.to(E4M3).t(), one, one, out_dtype=torch.float32)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            (w,) = ctx.saved_tensors
            transposed = w.to(E4M3).t().contiguous()
            return torch._scaled_mm(grad.to(E5M2), transposed.t(), one, one, out_dtype=torch.float32), None

    x, w = torch.randn(16, 32, requires_grad=True), torch.randn(16, 32)
    with mmaemu.emulate("ada", splitk=1) as log:
        Product.apply(x, w).sum().backward()
    grad = torch.ones(16, 16).to(E5M2)
    expected = mmaemu.scaled_mm(
        grad, w.to(E4M3).t().contiguous().t(), one, one, out_dtype=torch.float32, profile="ada", splitk=1
    )
    assert bits(x.grad) == bits(expected)
    assert [call.a_dtype for call in log.calls] == ["float8_e4m3fn", "float8_e5m2"]


REFUSED = {
    "bias": {"bias": torch.ones(16, dtype=torch.bfloat16), "out_dtype": torch.bfloat16},
    "row-wise": {"scale_a": torch.ones(16, 1), "scale_b": torch.ones(1, 16), "out_dtype": torch.bfloat16},
}


@pytest.mark.parametrize("feature", REFUSED)
def test_what_is_not_modelled_raises_the_clear_error_that_names_the_module(feature: str) -> None:
    class Layer(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return native(**REFUSED[feature])

    with mmaemu.emulate("ada", splitk=1) as log, pytest.raises(mmaemu.UnsupportedFeatureError, match=feature) as caught:
        Layer()()
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["in module Layer, under mmaemu.emulate"]
    assert len(log) == 0


def test_native_runs_what_is_not_modelled_with_one_warning_per_reason() -> None:
    with StandIn(), mmaemu.emulate("ada", unsupported="native") as log, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            for changes in REFUSED.values():
                assert (native(**changes) == NATIVE).all()
            for rows in (16, 32):  # sizes of which nothing is recorded: one reason
                assert (native(input=codes(rows, 2**21), mat2=codes(16, 2**21).t()) == NATIVE).all()
        assert bits(native(splitk=1)) == bits(mmaemu.scaled_mm(**arguments(splitk="auto")))
    assert [w.category for w in seen] == [mmaemu.NativeCallWarning] * 3
    assert all(w.filename == __file__ for w in seen)
    assert [sum(word in str(w.message) for w in seen) for word in ("bias", "row-wise", '"auto"')] == [1, 1, 1]
    natives = [call for call in log.calls if call.native]
    assert len(natives) == 12
    assert {call.backend for call in natives} == {"native"}
    assert (natives[0].M, natives[0].N, natives[0].K, natives[0].split) == (16, 16, 32, None)
    assert "native: bias is not supported" in str(log.summary())


def test_native_inside_another_emulation_is_that_emulation() -> None:
    with (
        mmaemu.emulate("hopper", splitk=1) as outer,
        mmaemu.emulate("b200-mma-sync-experimental", splitk=1, unsupported="native") as inner,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        result = native(**_long() | {"use_fast_accum": False})  # slow accumulation: not characterised on the B200
    expected = mmaemu.scaled_mm(**arguments(**_long() | {"use_fast_accum": False}, profile="hopper"))
    assert bits(result) == bits(expected)
    assert (len(outer), len(inner)) == (1, 1)


def test_what_the_platform_rejects_raises_even_where_native_is_allowed() -> None:
    with StandIn(), mmaemu.emulate("ada", splitk=1, unsupported="native"):
        with pytest.raises(mmaemu.ReferenceRejectsError, match="multiple"):
            native(input=codes(16, 24), mat2=codes(16, 24).t())
        with pytest.raises(mmaemu.ReferenceRejectsError):
            native(out_dtype=E5M2)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"profile": "h100"}, KeyError),
        ({"profile": 3}, TypeError),
        ({"splitk": 2}, ValueError),
        ({"splitk": "no"}, TypeError),
        ({"splitk": 0}, ValueError),
        ({"backend": None}, TypeError),
        ({"unsupported": "ignore"}, ValueError),
    ],
)
def test_arguments_that_do_not_fit_raise_at_once(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        mmaemu.emulate(**changes)


def test_operators_that_are_no_products_pass() -> None:
    x = torch.randn(8, 8)
    with mmaemu.emulate("ada") as log:
        assert torch.equal(x @ x, torch.mm(x, x))
        torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])
        torch.nn.Linear(8, 8)(x).sum().backward()
    assert len(log) == 0


@has_v2
def test_the_newer_entry_point_is_routed_with_one_scale_per_tensor() -> None:
    from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

    given = arguments(out_dtype=torch.bfloat16)
    wise = ScalingType.TensorWise
    expected = mmaemu.scaled_mm(**given)
    product = (given["input"], given["mat2"], given["scale_a"], wise, given["scale_b"], wise)
    with mmaemu.emulate("ada", splitk=1) as log:
        assert bits(scaled_mm(*product)) == bits(expected)
        assert bits(scaled_mm(*product, SwizzleType.NO_SWIZZLE, SwizzleType.NO_SWIZZLE)) == bits(expected)
        assert bits(scaled_mm(*product, contraction_dim=(-1, -2))) == bits(expected)
        out = torch.empty(16, 16, dtype=torch.bfloat16)
        scales = [given["scale_a"]], [0], [], [given["scale_b"]], [0], []
        torch.ops.aten._scaled_mm_v2.out(given["input"], given["mat2"], *scales, None, torch.bfloat16, out=out)
        assert bits(out) == bits(expected)
        fast = scaled_mm(*product, use_fast_accum=True, output_dtype=torch.float32)
        assert bits(fast) == bits(mmaemu.scaled_mm(**arguments(use_fast_accum=True)))
    assert [call.operator for call in log.calls][2:4] == ["aten._scaled_mm_v2.default", "aten._scaled_mm_v2.out"]


@has_v2
def test_the_newer_entry_point_with_other_scales_is_refused() -> None:
    from torch.nn.functional import ScalingType, scaled_mm

    x, w = codes(16, 128), codes(16, 128).t()
    with mmaemu.emulate("ada", splitk=1):
        for recipe, scales in (
            (ScalingType.RowWise, (torch.ones(16, 1), torch.ones(1, 16))),
            (ScalingType.BlockWise1x128, (torch.ones(16, 1), torch.ones(1, 16))),
        ):
            with pytest.raises(mmaemu.UnsupportedFeatureError, match=r"_scaled_mm_v2.*not tensor-wise.*scaled_mm"):
                scaled_mm(x, w, scales[0], recipe, scales[1], recipe)
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="contracts"):
            wise = ScalingType.TensorWise
            scaled_mm(x, w, torch.ones(()), wise, torch.ones(()), wise, contraction_dim=(0, 0))


@pytest.mark.parametrize("name", ["_scaled_grouped_mm", "_scaled_grouped_mm_v2", "_scaled_addmm", "_scaled_addmm_"])
def test_other_scaled_products_of_torch_are_refused(name: str) -> None:
    if not hasattr(torch.ops.aten, name):
        pytest.skip(f"this torch has no {name}")
    x, w, one = codes(16, 128), codes(16, 128).t(), torch.ones(())
    wise = ([one], [0], [], [one], [0], [])
    given = {
        "_scaled_grouped_mm": (x, w, torch.ones(16), torch.ones(16)),
        "_scaled_grouped_mm_v2": (x, w, *wise),
        "_scaled_addmm": (torch.zeros(16, 16), x, w, *wise),
        "_scaled_addmm_": (torch.zeros(16, 16), x, w, *wise),
    }[name]
    with mmaemu.emulate("ada"), pytest.raises(mmaemu.UnsupportedFeatureError, match=f"{name}.* is another scaled"):
        getattr(torch.ops.aten, name)(*given)


def test_every_scaled_product_that_this_torch_has_is_routed_or_refused() -> None:
    from mmaemu import _routing

    products = [
        getattr(getattr(torch.ops.aten, name), overload)
        for name in dir(torch.ops.aten)
        if "scaled" in name and "mm" in name
        for overload in getattr(torch.ops.aten, name).overloads()
    ]
    assert len(products) >= 2
    assert [str(func) for func in products if _routing._reader(func) is None] == []


@pytest.fixture
def library() -> Any:
    with torch.library._scoped_library("mmaemu_test", "FRAGMENT") as scoped:
        yield scoped


def _inner(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(x, w.t(), scale, scale, out_dtype=torch.float32)


@pytest.mark.parametrize("key", ["CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd"])
@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_products_inside_an_extensions_operator_are_emulated(
    library: Any, key: str, context: Callable[[], Any]
) -> None:
    library.define("linear(Tensor x, Tensor[] w, Tensor scale) -> Tensor")
    library.impl("linear", lambda x, w, scale: _inner(x, w[0], scale), key)
    x, w, one = codes(16, 32, seed=1), codes(16, 32, seed=2), torch.ones(())
    expected = mmaemu.scaled_mm(x, w.t(), one, one, out_dtype=torch.float32, profile="ada", splitk=1)
    with StandIn(), mmaemu.emulate("ada", splitk=1) as log, context():
        result = torch.ops.mmaemu_test.linear(x, [w], one)
    assert bits(result) == bits(expected)
    assert len(log) == 1


def test_products_inside_a_custom_op_are_emulated() -> None:
    custom = torch.library.custom_op("mmaemu_test::custom", _inner, mutates_args=())
    x, w, one = codes(16, 32, seed=1), codes(16, 32, seed=2), torch.ones(())
    expected = mmaemu.scaled_mm(x, w.t(), one, one, out_dtype=torch.float32, profile="ada", splitk=1)
    with mmaemu.emulate("ada", splitk=1):
        assert bits(custom(x, w, one)) == bits(expected)


def test_an_extensions_scaled_product_is_refused_for_fp8_and_passes_for_integers(library: Any) -> None:
    library.define("cutlass_scaled_mm(Tensor x, Tensor w) -> Tensor")
    library.impl("cutlass_scaled_mm", lambda x, w: x.float() @ w.float(), "CPU")
    integers = torch.ones(16, 16, dtype=torch.int8)
    with mmaemu.emulate("ada"):
        assert torch.ops.mmaemu_test.cutlass_scaled_mm(integers, integers)[0, 0] == 16
        with pytest.raises(mmaemu.UnsupportedFeatureError, match=r"mmaemu_test\.cutlass_scaled_mm"):
            torch.ops.mmaemu_test.cutlass_scaled_mm(codes(16, 16), codes(16, 16))


class Wrapper(torch.Tensor):
    """A tensor that wraps another and runs every operator on that one."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unwrapped = [a.inner if isinstance(a, Wrapper) else a for a in args]
        return func(*unwrapped, **(kwargs or {}))


def test_tensors_that_wrap_others_are_unwrapped_first() -> None:
    given = arguments()
    with mmaemu.emulate("ada", splitk=1) as log:
        result = native(input=Wrapper(given["input"]))
    assert bits(result) == bits(mmaemu.scaled_mm(**given))
    assert len(log) == 1


def test_torch_compile_inside_runs_the_products_through_mmaemu() -> None:
    compiled = torch.compile(lambda: native() + 1, backend="eager")
    with mmaemu.emulate("ada", splitk=1) as log:
        result = compiled()
    assert bits(result) == bits(mmaemu.scaled_mm(**arguments()) + 1)
    assert len(log) == 1


def test_a_log_remembers_the_newest_calls_and_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from mmaemu import emulation

    monkeypatch.setattr(emulation, "_KEPT", 3)
    with mmaemu.emulate("ada", splitk=1) as log:
        for rows in range(1, 6):
            native(input=codes(rows, 32))
    assert [call.M for call in log.calls] == [3, 4, 5]
    assert len(log) == 5
    assert str(log.summary()).splitlines()[0].startswith("5 FP8 products")


def _fastest(run: Callable[[], Any]) -> float:
    """Seconds a call, in the best of many short runs: other processes share the processors."""

    def timed() -> float:
        begin = time.perf_counter()
        for _ in range(10):
            run()
        return (time.perf_counter() - begin) / 10

    return min(timed() for _ in range(200))


def test_emulation_adds_less_than_100_microseconds_a_call() -> None:
    torch.set_num_threads(1)
    given = arguments()
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Sequential(torch.nn.Identity())))
    x, w = given["input"], given["mat2"]
    model[0][0][0].forward = lambda x: torch._scaled_mm(x, w, given["scale_a"], given["scale_b"])
    direct = _fastest(lambda: mmaemu.scaled_mm(x, w, given["scale_a"], given["scale_b"], profile="ada", splitk=1))
    with mmaemu.emulate("ada", splitk=1):
        emulated = _fastest(lambda: model(x))
    assert emulated - direct < 100e-6


def float8_linear(granularity: Any, *, bias: bool = False, dtype: torch.dtype = torch.bfloat16) -> torch.nn.Linear:
    """torchao's dynamically quantised linear layer. Its configuration insists on a GPU, so the weight is built here."""
    from torchao.dtypes import Float8Layout, to_affine_quantized_floatx
    from torchao.float8.inference import Float8MMConfig
    from torchao.quantization import quant_api, to_linear_activation_quantized
    from torchao.quantization.observer import get_block_size

    layer = torch.nn.Linear(64, 32, bias=bias, dtype=dtype)
    weight = to_affine_quantized_floatx(
        input_float=layer.weight.detach(),
        block_size=get_block_size(layer.weight.shape, granularity),
        target_dtype=E4M3,
        scale_dtype=torch.float32,
        _layout=Float8Layout(mm_config=Float8MMConfig(use_fast_accum=True)),
    )
    keywords = {"activation_granularity": granularity, "activation_dtype": E4M3}
    weight = to_linear_activation_quantized(weight, quant_api._input_activation_quant_func_fp8, quant_kwargs=keywords)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer


@pytest.fixture
def torchao() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("torchao", minversion="0.12.0", exc_type=ImportError)


def test_a_torchao_layer_returns_the_bits_of_scaled_mm(torchao: Any) -> None:
    from torchao.quantization import quant_api
    from torchao.quantization.granularity import PerTensor

    layer, x = float8_linear(PerTensor()), torch.randn(5, 64, dtype=torch.bfloat16)
    with mmaemu.emulate("ada", splitk=1) as log:
        result = torch.nn.Sequential(layer)(x)
    weight = layer.weight.original_weight_tensor.tensor_impl
    coded = quant_api._input_activation_quant_func_fp8(x, PerTensor(), E4M3).tensor_impl
    expected = mmaemu.scaled_mm(
        coded.float8_data,
        weight.float8_data.t(),
        coded.scale.reshape(()),
        weight.scale.reshape(()),
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
        profile="ada",
        splitk=1,
    )
    assert bits(result) == bits(expected)
    assert [(call.module, call.M, call.N, call.K) for call in log.calls] == [("Sequential.0", 5, 32, 64)]


def test_a_torchao_layer_with_bias_or_row_wise_scales_is_refused(torchao: Any) -> None:
    from torchao.quantization.granularity import PerRow, PerTensor

    x = torch.randn(16, 64, dtype=torch.bfloat16)
    with mmaemu.emulate("ada", splitk=1):
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="bias"):
            float8_linear(PerTensor(), bias=True)(x)
        with pytest.raises(mmaemu.UnsupportedFeatureError, match="row-wise"):
            float8_linear(PerRow())(x)
