"""kernels.operator: torch's own checks of an operator, and that compiled graphs call it while others do not."""

from __future__ import annotations

import pytest
import torch

from excora import ECAPool, GatedPool
from excora.kernels import operator
from excora.kernels.attend import attend


def arguments(case: str):
    torch.manual_seed(0)
    h, mask = torch.randn(3, 5, 4), torch.rand(3, 5) > 0.3
    numbers = [torch.rand(1, requires_grad=True) for _ in range(3)]
    if case == "logits":
        inputs = [torch.randn(3, 5, requires_grad=True), torch.rand(3, requires_grad=True)]
        return h.requires_grad_(), inputs, None, mask, "given_temperature", 1.0, None, "", 0.0
    h = h.transpose(0, 1).contiguous().transpose(0, 1) if case == "strided" else h
    inputs = [torch.randn(4, requires_grad=True), *numbers]
    form = ("paper", 2.0) if case == "residual" else ("", 0.0)
    if form[0]:
        inputs += [torch.randn(shape, requires_grad=True) for shape in ((6, 4), (6,), (1, 6), (1,))]
    return h.requires_grad_(case != "frozen"), inputs, mask, None, "learned_temperature", 2.0, 0.5, *form


@pytest.mark.parametrize("case", ["linear", "strided", "frozen", "logits", "residual"])
def test_it_is_a_well_behaved_operator(case):
    found = torch.library.opcheck(operator.attend_operator, arguments(case))
    assert set(found.values()) == {"SUCCESS"}


def called(graph: torch.fx.GraphModule) -> set[str]:
    return {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}


def graphs_of(pool: torch.nn.Module, *given: torch.Tensor) -> set[str]:
    seen: set[str] = set()

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]):
        seen.update(called(graph))
        return graph

    torch.compiler.reset()
    torch.compile(pool, fullgraph=True, backend=backend)(*given)
    return seen


@pytest.mark.parametrize("make", [ECAPool, ECAPool.paper, GatedPool])
def test_a_compiled_graph_calls_it(make):
    pool = make(4)
    assert any("excora.attend" in name for name in graphs_of(pool, torch.randn(2, 3, 4)))
    assert not any("excora" in name for name in graphs_of(pool.double(), torch.randn(2, 3, 4).double()))


def test_an_exported_graph_does_not():
    program = torch.export.export(ECAPool(4), (torch.randn(2, 3, 4),))
    assert not any("excora" in name for name in called(program.graph_module))


def test_transforms_within_a_compiled_graph_have_the_formulas():
    pool, h = ECAPool(4), torch.randn(3, 5, 4)
    parameters = dict(pool.named_parameters())

    def loss(own: dict[str, torch.Tensor], bag: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(pool, own, (bag[None],)).value.square().sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))
    torch.compiler.reset()
    found = torch.compile(each, backend="aot_eager", fullgraph=True)(parameters, h)
    for name, gradient in each(parameters, h).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5)


def test_a_scorer_of_another_format_is_taken_in_that_of_the_elements():
    h, weight, bias = torch.randn(3, 5, 4), torch.randn(4, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)

    def weights(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return attend(h, (weight, bias), None, (), scale=0.5).weights

    torch.compiler.reset()
    found = torch.compile(weights, fullgraph=True, backend="eager")(h, weight)
    torch.testing.assert_close(found, torch.softmax(h @ weight.float() * 0.5, 1))
