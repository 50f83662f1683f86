"""torch.compile leaves the entry points alone: they run as they are, inside a compiled function too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import mmaemu
from calls import arguments, bits, codes, run_python, scaled

# What torch says of itself while it compiles.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def graphs() -> list[torch.fx.GraphModule]:
    """The graphs that are compiled in a test."""
    torch.compiler.reset()
    return []


def compiled(function: Callable[..., Any], graphs: list[torch.fx.GraphModule]) -> Callable[..., Any]:
    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, backend=backend)


def test_scaled_mm_inside_a_compiled_function(graphs: list[torch.fx.GraphModule]) -> None:
    a, b, one = codes(16, 32, seed=1), codes(16, 32, seed=2), torch.tensor(1.0)

    def layer(scale: torch.Tensor) -> torch.Tensor:
        doubled = scale * 2.0
        product = mmaemu.scaled_mm(a, b.t(), doubled, one, out_dtype=torch.float32, splitk=1, profile="ada")
        return product + 1.0

    scale = torch.tensor(0.25)
    assert bits(compiled(layer, graphs)(scale)) == bits(layer(scale))
    assert len(graphs) == 2  # before the call and after it
    called = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert not any("mm" in name for name in called)


def test_accumulate_and_dot_inside_a_compiled_function(graphs: list[torch.fx.GraphModule]) -> None:
    def layer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = mmaemu.accumulate(a, b, use_fast_accum=True, splitk=1)
        return product.diagonal() - mmaemu.model.dot(a, b, preset="hopper")

    a, b = codes(16, 64, seed=1), codes(16, 64, seed=2)
    assert bits(compiled(layer, graphs)(a, b)) == bits(torch.zeros(16))


def test_explain_inside_a_compiled_function(graphs: list[torch.fx.GraphModule]) -> None:
    a, one = codes(16, 32), torch.tensor(1.0)

    def planned(scale: torch.Tensor) -> str:
        return mmaemu.explain(a, a.t(), scale * 1.0, one, out_dtype=torch.float32, splitk=1).validation

    assert compiled(planned, graphs)(one) == "ok"
    assert len(graphs) == 1


def test_an_entry_point_that_is_itself_compiled(graphs: list[torch.fx.GraphModule]) -> None:
    assert bits(compiled(mmaemu.scaled_mm, graphs)(**arguments())) == bits(scaled())
    assert graphs == []


def test_tracing_a_whole_graph_through_a_call_is_refused() -> None:
    torch.compiler.reset()
    a = codes(16, 32)
    whole = torch.compile(
        lambda x: mmaemu.accumulate(x, x, use_fast_accum=True, splitk=1), backend="eager", fullgraph=True
    )
    with pytest.raises(torch._dynamo.exc.Unsupported):
        whole(a)


def test_errors_pass_through_a_compiled_function(graphs: list[torch.fx.GraphModule]) -> None:
    a, one = codes(16, 32), torch.tensor(1.0)

    def layer(scale: torch.Tensor) -> torch.Tensor:
        return mmaemu.scaled_mm(a, a.t(), scale.double(), one)

    with pytest.raises(mmaemu.ReferenceRejectsError, match="scale_a must be a float32 tensor"):
        compiled(layer, graphs)(one)


def test_warnings_from_a_compiled_function_name_the_callers_line(graphs: list[torch.fx.GraphModule]) -> None:
    a = codes(16, 64)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return mmaemu.accumulate(x, x, use_fast_accum=True, splitk=1, profile="hopper-experimental")

    with pytest.warns(mmaemu.ExperimentalPresetWarning) as caught:
        compiled(layer, graphs)(a)
    assert [warning.filename for warning in caught if warning.category is mmaemu.ExperimentalPresetWarning] == [
        __file__
    ]


LAYER = """
import torch
a = torch.zeros(16, 32, dtype=torch.uint8).view(torch.float8_e4m3fn)

def layer(x, fast, profile):
    product = mmaemu.accumulate(x, x, use_fast_accum=fast, splitk=1, profile=profile)
    return product + mmaemu.model.dot(x, x)[:, None]
"""


def test_a_call_before_torch_compile_is_used_does_not_import_dynamo() -> None:
    calls = """
before = "torch._dynamo.eval_frame" in sys.modules
layer(a, True, "ada")
assert ("torch._dynamo.eval_frame" in sys.modules) == before
assert not torch.compile(layer, backend="eager")(a, True, "ada").any()
"""
    result = run_python("import sys, mmaemu" + LAYER + calls)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("first", ["import mmaemu", "from mmaemu import accumulate, model; import mmaemu"])
def test_nothing_is_compiled_or_said_for_each_combination_of_arguments(first: str) -> None:
    """Whether torch or an entry point is imported first."""
    calls = """
compiled = torch.compile(layer, backend="eager", dynamic=False)
for rows in (1, 2, 3):
    for fast in (True, False):
        for profile in ("ada", "hopper", mmaemu.get_profile("ada-te")):
            compiled(a[:rows], fast, profile)
"""
    result = run_python(first + LAYER + calls, TORCH_LOGS="recompiles")
    assert result.returncode == 0
    assert "function layer" in result.stderr
    assert "function entry" not in result.stderr
    assert "UserWarning" not in result.stderr
