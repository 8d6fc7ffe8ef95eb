"""The closed form of the gradient against the graph of the formulas."""

from __future__ import annotations

import pytest
import torch

from excora.extrapolation import learned_temperature
from excora.kernels.formulas import Box, plain
from kernels.samples import problem, run


@pytest.mark.usefixtures("tile")
def test_the_closed_form_gradient_equals_the_graph_of_the_formulas():
    _, mask, inputs = problem((6, 9, 5))
    keep = torch.rand(6, 9) > 0.3
    pulls = [torch.randn_like(t) for t in run(mask, keep)(*inputs)]
    pulls[3] = pulls[3] * mask

    def gradient(outputs):
        return torch.autograd.grad(sum((o * p).sum() for o, p in zip(outputs, pulls, strict=True)), inputs)

    h, weight, bias, base, slope = inputs
    reference = plain(Box(h, mask, keep, (weight, bias), learned_temperature, (base, slope), 1.7, 0.6))
    reference = reference._replace(logits=reference.logits * mask)
    for ours, theirs in zip(gradient(run(mask, keep)(*inputs)), gradient(reference), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
