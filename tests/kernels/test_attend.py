"""attend and eca_pool against the oracle, on every kind of passes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.pooling import eca_bag

from excora import eca_pool
from excora.errors import InputError
from excora.extrapolation import learned_temperature, linear_temperature
from excora.kernels.attend import attend
from excora.ragged import Ragged
from kernels.samples import DOUBLE, problem, run


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
        np.testing.assert_allclose(out.temperature[s].item(), tau, atol=1e-12)


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
    flat = attend(ragged, scores, learned_temperature, parameters)
    boxed = attend(padded, scores, learned_temperature, parameters, mask=mask)
    for name in flat._fields:
        theirs = getattr(boxed, name)
        torch.testing.assert_close(getattr(flat, name), theirs[mask] if name in ("weights", "logits") else theirs)
    inputs = (values, weight, slope)
    first = [torch.autograd.grad(o.attended.square().sum(), inputs, create_graph=True) for o in (flat, boxed)]
    second = [torch.autograd.grad(sum(g.square().sum() for g in grads), inputs) for grads in first]
    for ours, theirs in (*zip(*first, strict=True), *zip(*second, strict=True)):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


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


def test_inference_mode_and_threads_give_the_same():
    h, _, (_, weight, bias, base, slope) = problem((9, 4, 3), masked=False)
    with torch.inference_mode():
        expected = run(None)(h, weight, bias, base, slope)[0].clone()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: run(None)(h, weight, bias, base, slope)[0], range(16)))
    for value in found:
        torch.testing.assert_close(value.detach(), expected)
        value.sum().backward()
