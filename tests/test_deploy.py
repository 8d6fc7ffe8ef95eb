"""Where people run it: autocast, torch.compile, torch.export, ONNX. Attention and losses have their own such tests,
and torch.compile as it comes, with a C++ compiler, is in test_inductor.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pooling.samples import moved
from torch import Tensor, nn

from excora import ECAPool, GatedPool, JointLoss, MeanPool, SoftmaxPool

DIM = 6
POOLS = {
    "mean": MeanPool,
    "softmax": SoftmaxPool,
    "gated": lambda dim: GatedPool(dim, hidden=4),
    "eca": lambda dim: moved(ECAPool(dim)),
    "eca paper": ECAPool.paper,
}


class Regressor(nn.Module):
    """A pool with a head, as people export it."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.head = moved(ECAPool(DIM)), nn.Linear(DIM, 1)

    def forward(self, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pooled = self.pool(h, mask)
        return self.head(pooled.value), pooled.weights, pooled.details["gamma"]


def bags(elements: int) -> tuple[Tensor, Tensor]:
    """Two bags: one with real elements, one empty."""
    mask = torch.zeros(2, elements, dtype=torch.bool)
    mask[0, : max(elements - 1, 1)] = True
    return torch.randn(2, elements, DIM), mask


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_keeps_statistics_in_float32(name, dtype):
    encoder, pool = nn.Linear(3, DIM), POOLS[name](DIM)
    x, mask = torch.randn(4, 9, 3), torch.rand(4, 9) > 0.2
    with torch.autocast("cpu", dtype=dtype):
        pooled = pool(encoder(x), mask)
        pooled.value.float().square().sum().backward()
    full = pool(encoder(x), mask)
    assert pooled.weights.dtype == torch.float32
    assert all(tensor.dtype == torch.float32 for tensor in pooled.details.values())
    torch.testing.assert_close(pooled.value.float(), full.value, rtol=0.05, atol=0.05)
    torch.testing.assert_close(pooled.weights.sum(1), mask.any(1).float())
    assert torch.isfinite(encoder.weight.grad).all()


def test_half_input_agrees_with_float32_of_the_same_numbers():
    pool = moved(ECAPool(DIM))
    half = torch.randn(3, 50, DIM).bfloat16()
    gradients = []
    for h in (half.clone().requires_grad_(), half.float().requires_grad_()):
        pooled = pool(h)
        gradients.append(
            torch.autograd.grad(pooled.value.float().square().sum() + pooled.details["dispersion"].sum(), h)[0]
        )
    torch.testing.assert_close(gradients[0].float(), gradients[1], rtol=0.02, atol=2e-3)
    torch.testing.assert_close(pool(half).details["dispersion"], pool(half.float()).details["dispersion"])


@pytest.mark.parametrize("name", ["gated", "eca"])
def test_compile_fullgraph_equals_eager(name):
    pool = POOLS[name](DIM)
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager", dynamic=True)
    for elements in (4, 7):
        h, mask = bags(elements)
        results = []
        for call in (pool, compiled):
            x = h.clone().requires_grad_()
            pooled = call(x, mask)
            total = pooled.value.square().sum() + pooled.weights.square().sum() + pooled.penalty.sum
            results.append((pooled.value, pooled.weights, *torch.autograd.grad(total, [x, *pool.parameters()])))
        for eager, other in zip(*results, strict=True):
            torch.testing.assert_close(other, eager, rtol=1e-4, atol=1e-5)


def exported(model: nn.Module) -> torch.export.ExportedProgram:
    bag, element = torch.export.Dim("bags", min=1, max=64), torch.export.Dim("elements", min=1, max=4096)
    return torch.export.export(model, bags(5), dynamic_shapes=({0: bag, 1: element}, {0: bag, 1: element}))


def test_export_with_a_dynamic_number_of_elements():
    model = Regressor().eval()
    program = exported(model).module()
    for elements in (1, 5, 300):
        h, mask = bags(elements)
        for ours, theirs in zip(program(h, mask), model(h, mask), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


# The exporter calls what torch itself has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_onnx_agrees_at_three_lengths_and_for_an_empty_bag(tmp_path):
    import onnxruntime

    model = Regressor().eval()
    file = tmp_path / "pool.onnx"
    torch.onnx.export(exported(model), (), file, verbose=False)
    session = onnxruntime.InferenceSession(file)
    names = [entry.name for entry in session.get_inputs()]
    for elements in (1, 5, 300):
        h, mask = bags(elements)
        outputs = session.run(None, dict(zip(names, (h.numpy(), mask.numpy()), strict=True)))
        for ours, theirs in zip(outputs, model(h, mask), strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(outputs[1][1], np.zeros(elements, np.float32))  # the empty bag's weights


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("masked", [False, True])
def test_no_device_is_assumed(name, masked):
    """On the meta device every tensor made on the CPU by mistake is an error."""
    pool = POOLS[name](DIM).to("meta")
    h = torch.randn(4, 7, DIM, device="meta", requires_grad=True)
    mask = torch.ones(4, 7, dtype=torch.bool, device="meta") if masked else None
    pooled = pool(h, mask)
    JointLoss().to("meta")(pooled.value, torch.zeros(4, DIM, device="meta"), penalty=pooled.penalty).backward()
    assert pooled.value.device.type == h.grad.device.type == "meta"
    assert pooled.value.shape == (4, DIM)
