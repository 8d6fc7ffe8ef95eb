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
from excora.extrapolation import Extrapolation, extrapolate, learned_temperature, linear_temperature
from excora.kernels.attend import attend, attend_beyond
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


class Beyond:
    """A batch under an extrapolation away from its start, and the same by its parts."""

    def __init__(self, form="free", *, ragged=False, size=0.7):
        torch.manual_seed(0)
        self.extrapolation = Extrapolation(6, residual=form, cap=3.0, hidden=5)
        with torch.no_grad():
            for parameter in self.extrapolation.parameters():
                parameter.normal_(std=size)
        self.mask = torch.arange(7) < torch.randint(1, 8, (20, 1))
        self.keep = torch.rand(20, 7) < 0.8
        self.ragged = ragged
        self.inputs = [torch.randn(20, 7, 6), torch.randn(6), torch.randn(1)]
        self.inputs = [x.requires_grad_() for x in self.inputs] + list(self.extrapolation.parameters())

    def __call__(self, h, weight, bias):
        given = {"scale": 0.4, "mask": self.mask, "keep": self.keep}
        if self.ragged:
            h, given = Ragged.from_padded(h, self.mask), {"scale": 0.4, "mask": None, "keep": self.keep[self.mask]}
        return attend_beyond(self.extrapolation, h, (weight, bias), **given)

    def parts(self, h, weight, bias):
        law, parameters = self.extrapolation.law(h)
        found = attend(h, (weight, bias), law, parameters, mask=self.mask, keep=self.keep,
                       divisor=self.extrapolation.divisor, scale=0.4)  # fmt: skip
        gamma = self.extrapolation.gamma(found.mean)
        return found, extrapolate(found.mean, found.attended, gamma.unsqueeze(1)), gamma


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("form", ["free", "paper"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "create_graph"])
def test_value_gamma_and_their_gradients_are_those_of_the_parts(form, ragged, again):
    batch = Beyond(form, ragged=ragged)
    found = []
    for call in (batch, batch.parts):
        out, value, gamma = call(*batch.inputs[:3])
        total = value.square().sum() + (gamma * out.dispersion).sum() + out.attended.sin().sum() + out.mean[:, 0].sum()
        first = torch.autograd.grad(total, batch.inputs, create_graph=again)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), batch.inputs[:2]) if again else ()
        found.append((value, gamma, *first, *second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * (1.0 + float(theirs.detach().abs().max())))
    assert found[0][1].std() > 0.1


@pytest.mark.parametrize("used", ["value", "gamma", "attended"])
def test_what_of_value_and_gamma_is_not_asked_for_is_not_needed(used):
    batch = Beyond()
    found = []
    for call in (batch, batch.parts):
        out, value, gamma = call(*batch.inputs[:3])
        total = {"value": value, "gamma": gamma, "attended": out.attended}[used].square().sum()
        found.append(torch.autograd.grad(total, batch.inputs, allow_unused=True, materialize_grads=True))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["free", "paper"])
def test_without_a_graph_it_is_one_loop_with_the_same_numbers(form, monkeypatch):
    batch = Beyond(form)
    with_graph = batch(*batch.inputs[:3])
    monkeypatch.setattr("excora.kernels.attend.walked", lambda *_: pytest.fail("a walk where there is no graph"))
    monkeypatch.setattr("excora.kernels.attend.extrapolate", lambda *_: pytest.fail("the residual by itself"))
    with torch.no_grad():
        without = batch(*batch.inputs[:3])
    for ours, theirs in zip((*without[0], *without[1:]), (*with_graph[0], *with_graph[1:]), strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_a_start_is_the_attended_value_to_the_last_bit():
    batch = Beyond()
    batch.extrapolation = Extrapolation(6)
    out, value, gamma = batch(batch.inputs[0] * 1e3, *batch.inputs[1:3])
    assert torch.equal(value, out.attended)
    assert torch.equal(gamma, torch.ones(20))


def test_what_the_loop_does_not_know_is_left_to_the_module():
    batch, seen = Beyond(), []
    known = batch(*batch.inputs[:3])
    batch.extrapolation.gain.register_forward_hook(lambda *_: seen.append(1))
    hooked = batch(*batch.inputs[:3])
    assert seen == [1]
    torch.testing.assert_close(hooked[1], known[1], rtol=1e-5, atol=1e-6)
    batch.extrapolation = Extrapolation(6, residual=None)
    out, value, gamma = batch(*batch.inputs[:3])
    assert torch.equal(value, out.attended)
    assert torch.equal(gamma, torch.ones(20))
