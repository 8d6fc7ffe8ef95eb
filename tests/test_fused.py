"""fused: attend and eca_pool against the oracle, forward, backward and backward again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.pooling import eca_bag
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import excora.ragged
import excora.tiles
from excora import dispersion, eca_pool
from excora.errors import InputError
from excora.functional import linear_temperature, power_temperature
from excora.fused import _plain, attend
from excora.ragged import Ragged

DOUBLE = torch.float64
OUTPUTS = 6  # all but the radius carry a gradient


@pytest.fixture(params=[1 << 19, 8], ids=["one tile", "many tiles"])
def tile(request, monkeypatch):
    for module in (excora.ragged, excora.tiles):
        monkeypatch.setattr(module, "TILE", request.param)


def problem(shape=(4, 5, 3), seed=0, masked=True):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator, dtype=DOUBLE)
    mask = torch.rand(shape[:2], generator=generator) > 0.4 if masked else None
    if masked and shape[0] > 1:
        mask[0] = False
    weight = torch.randn(shape[2], generator=generator, dtype=DOUBLE)
    numbers = [torch.tensor(x, dtype=DOUBLE) for x in (0.3, 0.7, 0.5)]  # bias, base, slope
    return h, mask, [t.requires_grad_() for t in (h, weight, *numbers)]


def run(mask, keep=None, law=power_temperature, logits=False):
    def call(h, weight, bias, base, slope):
        scores = (h @ weight + bias,) if logits else (weight, bias)
        out = attend(h, scores, law, (base, slope), mask=mask, keep=keep, divisor=1.7)
        if mask is not None:
            out = out._replace(logits=out.logits * mask)  # logits in padding mean nothing and carry no gradient
        return out[:OUTPUTS]

    return call


@given(st.integers(0, 10_000), st.sampled_from([(3, 5, 2), (1, 1, 1), (2, 7, 4), (0, 3, 2), (3, 0, 2)]))
def test_eca_pool_equals_the_oracle_away_from_the_start(seed, shape):
    h, mask, _ = problem(shape, seed)
    logits = torch.randn(shape[:2], dtype=DOUBLE) * 3
    gamma, tau = torch.rand(shape[0], dtype=DOUBLE) * 3, torch.rand(shape[0], dtype=DOUBLE) + 0.1
    value, weights = eca_pool(h, logits, gamma, tau, mask)
    for s in range(shape[0]):
        bag = eca_bag(h[s][mask[s]].detach().numpy(), logits[s][mask[s]].numpy(), gamma[s].item(), tau[s].item())
        np.testing.assert_allclose(value[s].detach(), bag.value, atol=1e-11)
        np.testing.assert_allclose(weights[s][mask[s]].detach(), bag.weights, atol=1e-12)
        assert (weights[s][~mask[s]] == 0).all()


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("masked", [False, True])
def test_statistics_equal_the_oracle(masked):
    h, mask, (_, weight, bias, base, slope) = problem(masked=masked)
    out = attend(h, (weight, bias), linear_temperature, (base, slope), mask=mask, divisor=2.0)
    for s in range(h.shape[0]):
        real = h[s] if mask is None else h[s][mask[s]]
        real = real.detach().numpy()
        tau = 0.7 + 0.5 * eca_bag(real, np.zeros(len(real)), 1, 1).dispersion / 2.0
        bag = eca_bag(real, real @ weight.detach().numpy() + 0.3, 1.0, tau)
        np.testing.assert_allclose(out.attended[s].detach(), bag.value, atol=1e-12)
        np.testing.assert_allclose(out.mean[s].detach(), bag.mean, atol=1e-12)
        np.testing.assert_allclose(out.dispersion[s].item(), bag.dispersion, atol=1e-12)
        np.testing.assert_allclose(out.radius[s].item(), bag.radius, atol=1e-12)
        np.testing.assert_allclose(out.temperature[s].item(), tau, atol=1e-12)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("law", [power_temperature, linear_temperature])
@pytest.mark.parametrize("logits", [False, True])
def test_gradcheck_and_gradgradcheck(masked, law, logits):
    _, mask, inputs = problem((3, 4, 2), masked=masked)
    call = run(mask, law=law, logits=logits)
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs)


@pytest.mark.usefixtures("tile")
def test_the_closed_form_gradient_equals_the_graph_of_the_formulas():
    _, mask, inputs = problem((6, 9, 5))
    keep = torch.rand(6, 9) > 0.3
    pulls = [torch.randn_like(t) for t in run(mask, keep)(*inputs)]
    pulls[3] = pulls[3] * mask

    def gradient(outputs):
        return torch.autograd.grad(sum((o * p).sum() for o, p in zip(outputs, pulls, strict=True)), inputs)

    h, weight, bias, base, slope = inputs
    plain = _plain(h, (weight, bias), power_temperature, (base, slope), mask, keep, 1.7)[:OUTPUTS]
    for ours, theirs in zip(gradient(run(mask, keep)(*inputs)), gradient(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("tile")
@settings(max_examples=20)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(0, 1000))
def test_ragged_equals_padded_forward_backward_and_twice(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sum(lengths), 3, generator=generator, dtype=DOUBLE, requires_grad=True)
    weight = torch.randn(3, generator=generator, dtype=DOUBLE, requires_grad=True)
    slope = torch.tensor(0.5, dtype=DOUBLE, requires_grad=True)
    ragged = Ragged(values, torch.tensor(lengths))
    scores, parameters = (weight, torch.tensor(0.1, dtype=DOUBLE)), (torch.tensor(0.9, dtype=DOUBLE), slope)
    padded, mask = ragged.pad()
    flat = attend(ragged, scores, power_temperature, parameters)
    boxed = attend(padded, scores, power_temperature, parameters, mask=mask)
    for name in flat._fields:
        theirs = getattr(boxed, name)
        torch.testing.assert_close(getattr(flat, name), theirs[mask] if name in ("weights", "logits") else theirs)
    inputs = (values, weight, slope)
    first = [torch.autograd.grad(o.attended.square().sum(), inputs, create_graph=True) for o in (flat, boxed)]
    second = [torch.autograd.grad(sum(g.square().sum() for g in grads), inputs) for grads in first]
    for ours, theirs in (*zip(*first, strict=True), *zip(*second, strict=True)):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


def test_dispersion_in_the_kernel_is_as_exact_as_the_function():
    centre = torch.randn(256)
    h = centre * (1e3 / centre.norm()) + torch.randn(4, 300, 256) * (1e-3 / 16)
    zero = torch.zeros(256)
    out = attend(h, (zero, zero[0]), linear_temperature, (zero[0] + 1, zero[0]))
    exact = dispersion(h.double())
    assert ((out.dispersion.double() - exact).abs() / exact).max() < 1e-5
    radius = (h.double() - h.double().mean(1, keepdim=True)).norm(dim=-1).amax(1)
    assert ((out.radius.double() - radius).abs() / radius).max() < 1e-5


def test_an_outlier_in_front_does_not_spoil_the_dispersion():
    h = torch.randn(1, 20_000, 4) * 1e-3
    h[0, 0] = 1e4
    one, zero = torch.tensor(1.0), torch.zeros(4)
    out = attend(h, (zero, zero[0]), linear_temperature, (one, one))
    exact = dispersion(h.double())
    assert abs(out.dispersion.double() - exact) / exact < 1e-5


@pytest.mark.parametrize("tau", [0.0, 1e-38, 1e-12, 1e30])
def test_every_temperature_is_finite_forward_and_backward(tau):
    h = torch.randn(2, 5, 3, requires_grad=True)
    logits = (torch.randn(2, 5) * 50).requires_grad_()
    temperature = torch.full((2,), tau, requires_grad=True)
    value, weights = eca_pool(h, logits, torch.tensor(2.0), temperature)
    value.square().sum().backward()
    assert all(torch.isfinite(t).all() for t in (value, weights, h.grad, logits.grad, temperature.grad))
    if tau == 0.0:
        torch.testing.assert_close(weights, torch.full((2, 5), 0.2))


def test_nan_and_inf_in_padding_leak_nowhere():
    h, mask, (_, weight, bias, base, slope) = problem((4, 5, 3))
    gradients = []
    for filler in (0.0, torch.nan, torch.inf):
        inputs = [torch.where(mask.unsqueeze(-1), h.detach(), filler).requires_grad_()]
        inputs += [t.detach().clone().requires_grad_() for t in (weight, bias, base, slope)]
        out = run(mask)(*inputs)
        gradients.append((out[0], *torch.autograd.grad((out[0] * out[1]).sum() + out[5].sum(), inputs)))
    for other in gradients[1:]:
        for clean, dirty in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(dirty, clean, rtol=1e-12, atol=1e-14)


def test_wrong_logits_are_refused():
    with pytest.raises(InputError, match=r"\(2, 3\).*\(2, 4\)"):
        eca_pool(torch.zeros(2, 3, 1), torch.zeros(2, 4), torch.tensor(1.0), torch.tensor(1.0))


def test_forward_mode_is_refused_instead_of_silently_wrong():
    h, _, (_, weight, bias, base, slope) = problem(masked=False)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="jvp"):
        run(None)(forward_ad.make_dual(h.detach(), h.detach()), weight, bias, base, slope)


def test_inference_mode_and_threads_give_the_same():
    h, _, (_, weight, bias, base, slope) = problem((9, 4, 3), masked=False)
    with torch.inference_mode():
        expected = run(None)(h, weight, bias, base, slope)[0].clone()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: run(None)(h, weight, bias, base, slope)[0], range(16)))
    for value in found:
        torch.testing.assert_close(value.detach(), expected)
        value.sum().backward()
