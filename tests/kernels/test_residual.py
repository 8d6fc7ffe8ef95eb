"""kernels.residual: value and gamma of the compiled loop are those of the module, and so are its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from excora.extrapolation import Extrapolation, extrapolate
from excora.kernels import residual as kernels
from excora.kernels.residual import Residual, attend_beyond, residual


def made(form="free", dim=6, size=2.0):
    torch.manual_seed(0)
    extrapolation = Extrapolation(dim, residual=form, cap=3.0, hidden=5)
    with torch.no_grad():
        for parameter in extrapolation.parameters():
            parameter.normal_(std=size)
    mean, attended = torch.randn(40, dim, requires_grad=True), torch.randn(40, dim, requires_grad=True)
    return extrapolation, mean, attended


def expected(extrapolation, mean, attended):
    gamma = extrapolation.gamma(mean)
    return extrapolate(mean, attended, gamma.unsqueeze(1)), gamma


@pytest.mark.parametrize("form", ["free", "paper"])
@pytest.mark.parametrize("graph", [False, True])
def test_value_and_gamma_are_those_of_the_module(form, graph):
    extrapolation, mean, attended = made(form)
    with torch.set_grad_enabled(graph):
        found = residual(extrapolation, mean, attended)
    for ours, theirs in zip(found, expected(extrapolation, mean, attended), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, check_stride=False)
        assert ours.requires_grad == graph
    assert found[1].std() > 0.1


@pytest.mark.parametrize("form", ["free", "paper"])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=["value", "gamma", "both"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "create_graph"])
def test_the_gradients_are_those_of_the_module(form, used, again):
    extrapolation, mean, attended = made(form)
    inputs = [mean, attended, *extrapolation.gain.parameters()]
    pulls = [torch.randn(40, 6), torch.randn(40)]

    def gradient(call, **options):
        outputs = call(extrapolation, mean, attended)
        total = sum((outputs[k] * pulls[k]).sum() for k in used)
        return torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True, **options)

    for ours, theirs in zip(gradient(residual, create_graph=again), gradient(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_graph_of_its_gradient_can_be_differentiated():
    extrapolation, mean, attended = made(size=0.5)
    found = []
    for call in (residual, expected):
        value, gamma = call(extrapolation, mean, attended)
        (first,) = torch.autograd.grad(value.square().sum() + gamma.square().sum(), mean, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [mean, attended]))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    double = extrapolation.double()
    inputs = [x.detach()[:3].double().requires_grad_() for x in (mean, attended)]
    assert gradcheck(lambda *x: residual(double, *x), inputs)
    assert gradgradcheck(lambda *x: residual(double, *x), inputs)


def test_a_start_is_the_attended_value_to_the_last_bit():
    _, mean, attended = made()
    value, gamma = residual(Extrapolation(6), mean * 1e3, attended)
    assert torch.equal(value, attended)
    assert torch.equal(gamma, torch.ones(40))


def test_what_the_loop_does_not_know_is_left_to_the_module(monkeypatch):
    extrapolation, mean, attended = made()
    seen = []
    monkeypatch.setattr(Residual, "apply", lambda *_: pytest.fail("the loop was called"))
    extrapolation.gain.register_forward_hook(lambda *_: seen.append(1))
    residual(extrapolation, mean, attended)
    assert seen == [1]
    value, gamma = residual(Extrapolation(6, residual=None), mean, attended)
    assert torch.equal(value, attended)
    assert torch.equal(gamma, torch.ones(40))


@pytest.mark.parametrize("form", ["free", "paper"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_and_residual_in_one_loop_are_the_two_calls(form, masked, monkeypatch):
    extrapolation, _, _ = made(form, size=0.5)
    h, scores = torch.randn(40, 7, 6), (torch.randn(6), torch.randn(1))
    mask = torch.arange(7) < torch.randint(0, 8, (40, 1)) if masked else None
    options = {"mask": mask, "keep": torch.rand(40, 7) < 0.8, "scale": 0.4}
    with_graph = attend_beyond(extrapolation, h, scores, **options)
    monkeypatch.setattr(kernels, "attend", lambda *_, **__: pytest.fail("two calls where there is no graph"))
    with torch.no_grad():
        without = attend_beyond(extrapolation, h, scores, **options)
    for ours, theirs in zip((*without[0], *without[1:]), (*with_graph[0], *with_graph[1:]), strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
    assert without[2].std() > 0.1
