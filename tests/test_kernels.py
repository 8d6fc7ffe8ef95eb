"""kernels: attend and eca_pool against the oracle, forward, backward and backward again, on every kind of passes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.pooling import eca_bag
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import excora.kernels.attend
import excora.ragged
from excora import dispersion, eca_pool
from excora.errors import InputError
from excora.extrapolation import learned_temperature, linear_temperature
from excora.kernels import closed_form, compiled, function
from excora.kernels.attend import attend
from excora.kernels.formulas import Box, plain
from excora.ragged import Ragged

DOUBLE = torch.float64


@pytest.fixture(params=[1 << 19, 8], ids=["one block", "many blocks"])
def tile(request, monkeypatch):
    for module, name in ((excora.ragged, "TILE"), (excora.kernels.attend, "CHUNK")):
        monkeypatch.setattr(module, name, request.param)


@pytest.fixture(params=["torch", "compiled", "compiled, two threads"])
def kind(request, monkeypatch):
    """Both ways to compute in float32, the compiled one also with its bags shared out among threads."""
    chosen = closed_form if request.param == "torch" else compiled
    for module in (function, excora.kernels.attend):
        monkeypatch.setattr(module, "fastest", lambda dtype, *_: chosen if dtype == torch.float32 else closed_form)
    threads = torch.get_num_threads()
    if "two" in request.param:
        monkeypatch.setattr(compiled, "WORTH_SHARING", 0)
        torch.set_num_threads(2)
    yield chosen
    torch.set_num_threads(threads)


def problem(shape=(4, 5, 3), seed=0, masked=True):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator, dtype=DOUBLE)
    mask = torch.rand(shape[:2], generator=generator) > 0.4 if masked else None
    if masked and shape[0] > 1:
        mask[0] = False
    weight = torch.randn(shape[2], generator=generator, dtype=DOUBLE)
    numbers = [torch.tensor(x, dtype=DOUBLE) for x in (0.3, 0.7, 0.5)]  # bias, base, slope
    return h, mask, [t.requires_grad_() for t in (h, weight, *numbers)]


def run(mask, keep=None, law=learned_temperature, logits=False):
    def call(h, weight, bias, base, slope):
        scores = (h @ weight + bias,) if logits else (weight, bias)
        out = attend(h, scores, law, (base, slope), mask=mask, keep=keep, divisor=1.7, scale=0.6)
        if mask is not None:
            out = out._replace(logits=out.logits * mask)  # logits in padding mean nothing and carry no gradient
        return tuple(out)

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
        np.testing.assert_allclose(out.temperature[s].item(), tau, atol=1e-12)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("law", [learned_temperature, linear_temperature])
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
    reference = plain(Box(h, mask, keep, (weight, bias), learned_temperature, (base, slope), 1.7, 0.6))
    reference = reference._replace(logits=reference.logits * mask)
    for ours, theirs in zip(gradient(run(mask, keep)(*inputs)), gradient(reference), strict=True):
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


@pytest.mark.usefixtures("kind")
def test_dispersion_in_the_kernel_is_as_exact_as_the_function():
    centre = torch.randn(256)
    h = centre * (1e3 / centre.norm()) + torch.randn(4, 300, 256) * (1e-3 / 16)
    zero = torch.zeros(256)
    out = attend(h, (zero, zero[0]), linear_temperature, (zero[0] + 1, zero[0]))
    exact = dispersion(h.double())
    assert ((out.dispersion.double() - exact).abs() / exact).max() < 1e-5


@pytest.mark.usefixtures("kind")
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


# The passes for float32 against the formulas in float64.


def single(tensors):
    return [t.detach().float().requires_grad_() for t in tensors]


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


@pytest.mark.usefixtures("kind")
def test_what_nobody_asks_for_is_not_needed_for_the_rest():
    """Every subset of the outputs may be used: gradients that do not arrive count as zero."""
    _, mask, exact = problem((4, 6, 3), seed=5)
    for place in range(6):
        inputs = single(exact)
        loss = run(mask)(*inputs)[place].square().sum()
        found = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        expected = torch.autograd.grad(
            run(mask)(*exact)[place].square().sum(), exact, allow_unused=True, materialize_grads=True
        )
        for mine, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.double(), reference, rtol=2e-5, atol=2e-5)


@pytest.mark.usefixtures("kind")
def test_nan_in_padding_leaks_nowhere_in_float32():
    h, mask, (_, weight, bias, base, slope) = problem((4, 5, 3), seed=7)
    found = []
    for filler in (0.0, torch.nan, torch.inf):
        inputs = single([torch.where(mask.unsqueeze(-1), h, filler), weight, bias, base, slope])
        out = run(mask)(*inputs)
        found.append((out[0], *torch.autograd.grad((out[0] * out[1]).sum() + out[5].sum(), inputs)))
    for other in found[1:]:
        for clean, dirty in zip(found[0], other, strict=True):
            torch.testing.assert_close(dirty, clean, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("kind")
def test_a_homogeneous_bag_far_from_zero_has_its_gradient():
    """d sigma / d h = (h - mu) / (n sigma): the deviations must not drown in the distance from zero."""
    h = (1e3 + 1e-2 * torch.randn(2, 50, 8)).requires_grad_()
    zero, one = torch.zeros(8), torch.tensor(1.0)
    sigma = attend(h, (zero, zero[0]), linear_temperature, (one, one)).dispersion
    (found,) = torch.autograd.grad(sigma.sum(), h)
    exact = h.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(dispersion(exact).sum(), exact)
    assert (found.double() - expected).abs().max() < 2e-2 * expected.abs().max()


def test_the_compiled_form_does_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_SHARING", 0)
    scores = torch.randn(8), torch.tensor(0.1)
    box = Box(
        torch.randn(5, 50, 8), None, None, scores, learned_temperature, (torch.tensor(0.7), torch.tensor(0.3)), 2.0
    )
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(compiled.forward(box).found)
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_long_bags_keep_their_digits():
    h = 3.0 + torch.randn(1, 100_000, 4)
    box = Box(h, None, None, (torch.zeros(4), torch.tensor(0.0)), linear_temperature, (torch.tensor(1.0),) * 2, 1.0)
    for module in (closed_form, compiled):
        found = module.forward(box).found
        exact = dispersion(h.double())
        assert abs(found.dispersion.double() - exact) / exact < (2e-6 if module is compiled else 1e-5)
        # Torch's own product sums a bag in float32 from end to end.
        assert (found.mean.double() - h.double().mean(1)).abs().max() < (2e-6 if module is compiled else 5e-5)


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


def test_inference_mode_and_threads_give_the_same():
    h, _, (_, weight, bias, base, slope) = problem((9, 4, 3), masked=False)
    with torch.inference_mode():
        expected = run(None)(h, weight, bias, base, slope)[0].clone()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: run(None)(h, weight, bias, base, slope)[0], range(16)))
    for value in found:
        torch.testing.assert_close(value.detach(), expected)
        value.sum().backward()
