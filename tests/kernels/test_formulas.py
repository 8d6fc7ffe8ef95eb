"""The formulas: forward mode, and the float32 passes held against them in float64."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from excora.extrapolation import learned_temperature, linear_temperature
from kernels.samples import DOUBLE, problem, run, single


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("case", ["plain", "masked", "dropout", "logits", "law"])
@pytest.mark.parametrize("shape", [(5, 9, 4), (2, 1, 3), (3, 0, 2), (0, 3, 2), (1, 40, 7)])
def test_float32_passes_equal_the_formulas_in_float64(case, shape):
    _, mask, exact = problem(shape, seed=3, masked=case != "plain")
    keep = torch.rand(shape[:2], generator=torch.Generator().manual_seed(1)) > 0.3 if case == "dropout" else None
    law = linear_temperature if case == "law" else learned_temperature
    call = run(mask, keep, law, logits=case == "logits")
    ours, theirs = call(*single(exact)), call(*exact)
    pulls = [torch.randn(t.shape, generator=torch.Generator().manual_seed(2), dtype=DOUBLE) for t in theirs]
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), reference, rtol=2e-6, atol=2e-6)
    inputs = single(exact)
    outputs = call(*inputs)
    first = torch.autograd.grad(outputs, inputs, [p.float() for p in pulls])
    second = torch.autograd.grad(call(*exact), exact, pulls)
    for mine, reference in zip(first, second, strict=True):
        torch.testing.assert_close(mine.double(), reference, rtol=1e-5, atol=1e-5)


def test_forward_mode_equals_finite_differences():
    _, mask, inputs = problem((3, 4, 2))
    for place in range(len(inputs)):
        point = [t.detach().clone() for t in inputs]
        step = 1e-6
        with forward_ad.dual_level():
            dual = [t if k != place else forward_ad.make_dual(t, torch.ones_like(t)) for k, t in enumerate(point)]
            tangents = [forward_ad.unpack_dual(out).tangent for out in run(mask)(*dual)]
        sides = [run(mask)(*(t + e * (k == place) for k, t in enumerate(point))) for e in (step, -step)]
        for tangent, up, down in zip(tangents, *sides, strict=True):
            slope = (up - down) / (2 * step)
            torch.testing.assert_close(
                torch.zeros_like(slope) if tangent is None else tangent, slope, rtol=1e-6, atol=1e-7
            )
