"""kernels.residual: value and gamma of the loop are those of the module, and so is its gradient."""

from __future__ import annotations

import pytest
import torch

from excora.extrapolation import Extrapolation, extrapolate
from excora.kernels import residual


def made(form="free"):
    torch.manual_seed(0)
    extrapolation = Extrapolation(6, residual=form, cap=3.0, hidden=5)
    with torch.no_grad():
        for parameter in extrapolation.parameters():
            parameter.normal_(std=2.0)
    return extrapolation, torch.randn(40, 6, requires_grad=True), torch.randn(40, 6, requires_grad=True)


def expected(extrapolation, mean, attended):
    gamma = extrapolation.gamma(mean)
    return extrapolate(mean, attended, gamma.unsqueeze(1)), gamma


@pytest.mark.parametrize("form", ["free", "paper"])
def test_value_and_gamma_are_those_of_the_module(form):
    extrapolation, mean, attended = made(form)
    inputs = (mean.detach(), attended.detach(), *(w.detach() for w in extrapolation.gain.weights()))
    loop, plain = (call((form, 3.0), *inputs) for call in (residual.forward, residual.plain))
    for theirs, *ours in zip(expected(extrapolation, mean, attended), loop[:2], plain, strict=True):
        for one in ours:
            torch.testing.assert_close(one, theirs, rtol=1e-5, atol=1e-6, check_stride=False)
    assert loop[1].std() > 0.1


@pytest.mark.parametrize("form", ["free", "paper"])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=["value", "gamma", "both"])
def test_the_gradients_are_those_of_the_module(form, used):
    extrapolation, mean, attended = made(form)
    inputs = [mean, attended, *extrapolation.gain.weights()]
    pulls = [torch.randn(40, 6), torch.randn(40)]
    outputs = expected(extrapolation, mean, attended)
    total = sum((outputs[k] * pulls[k]).sum() for k in used)
    wanted = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    plain = tuple(x.detach() for x in inputs)
    _, *found = residual.forward((form, 3.0), *plain)
    grads = tuple(pull if k in used else None for k, pull in enumerate(pulls))
    for ours, theirs in zip(residual.backward((form, 3.0), plain, tuple(found), grads), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
