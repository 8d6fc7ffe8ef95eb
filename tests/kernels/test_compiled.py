"""The compiled form: independent of threads."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.extrapolation import Gain, given_temperature, learned_temperature
from excora.kernels import calls, closed_form, compiled
from excora.kernels.formulas import Box, plain, residual
from kernels.samples import problem


def test_the_compiled_form_does_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(calls, "WORTH_SHARING", 0)
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


@pytest.mark.parametrize("wants", [True, False])
def test_it_gives_what_the_closed_form_gives_forward_and_backward(wants):
    h, mask, (_, weight, bias, base, slope) = problem((6, 9, 5), seed=2)
    keep = torch.rand(6, 9) > 0.2
    plain = [t.detach().float() for t in (weight, bias, base, slope)]
    box = Box(h.detach().float(), mask, keep, tuple(plain[:2]), learned_temperature, tuple(plain[2:]), 1.7, 0.6)
    ours, theirs = compiled.forward(box), closed_form.forward(box)
    for mine, other in zip(ours.found._replace(logits=mask), theirs.found._replace(logits=mask), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
    grads = [torch.randn_like(x) for x in theirs.found]
    grads[3] = grads[3] * mask
    outs = [torch.empty_like(box.h) if wants else None for _ in range(2)]
    found = compiled.backward(box, ours, grads, outs[0])
    expected = closed_form.backward(box, theirs, grads, outs[1])
    torch.testing.assert_close(found.logits[mask], expected.logits[mask], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.others, expected.others, rtol=1e-4, atol=1e-5)
    if wants:
        torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)


def test_a_law_of_your_own_is_not_compiled():
    assert compiled.knows(learned_temperature)
    assert compiled.knows(None)
    assert not compiled.knows(lambda spread, base: base + spread.square())


def test_a_scorer_of_another_width_is_refused():
    box = Box(torch.randn(2, 3, 4), None, None, (torch.randn(5), torch.zeros(1)), None, ())
    with pytest.raises(InputError, match="5 weights for elements of width 4"):
        compiled.forward(box)


def with_gain(form="free", bags=7, dtype=torch.float32, law=learned_temperature):
    torch.manual_seed(0)
    gain = Gain(6, form=form, cap=3.0, hidden=5)
    for weight in gain.weights():
        torch.nn.init.normal_(weight, std=0.7)
    h, real = torch.randn(bags, 9, 6), torch.rand(bags, 9) < 0.7
    scores = torch.randn(6), torch.randn(1)
    parameters = (torch.rand(bags) + 0.5,) if law is given_temperature else (torch.tensor([0.7]), torch.tensor([0.3]))
    wide = [[x.detach().to(dtype) for x in part] for part in ((h,), scores, parameters, gain.weights())]
    return Box(wide[0][0], real, None, tuple(wide[1]), law, tuple(wide[2]), 1.7, 0.6, (form, 3.0), tuple(wide[3]))


@pytest.mark.parametrize("form", ["free", "paper"])
def test_a_gain_keeps_its_units_and_slope_for_the_backward(form):
    box = with_gain(form)
    result = compiled.forward(box)
    value, gamma = result.beyond
    expected = residual(box, result.found)
    torch.testing.assert_close((value, gamma), expected, rtol=1e-5, atol=1e-6)
    units, slope, kept = result.kept[0][:, 12:17], result.kept[0][:, 17], result.kept[0][:, 18]
    act = torch.tanh if form == "free" else torch.relu
    torch.testing.assert_close(units, act(result.found.mean @ box.gain[0].T + box.gain[1]), rtol=1e-5, atol=1e-6)
    raw = (units @ box.gain[2].T + box.gain[3]).squeeze(1)
    rise = gamma * (1.0 - gamma / 3.0) if form == "free" else torch.sigmoid(raw) * (gamma < 3.0)
    torch.testing.assert_close(slope, rise, rtol=1e-4, atol=1e-5)
    assert torch.equal(kept, gamma)
    assert gamma.std() > 0.1


@pytest.mark.parametrize("arrived", [(6,), (7,), (0, 1, 6, 7), tuple(range(8))], ids=["value", "gamma", "wide", "all"])
@pytest.mark.parametrize("law", [learned_temperature, given_temperature])
@pytest.mark.parametrize("together", [1, 1 << 17], ids=["a bag a group", "one group"])
@pytest.mark.parametrize("form", ["free", "paper"])
def test_with_a_gain_its_gradients_are_those_of_the_formulas_in_double_precision(
    form, together, law, arrived, monkeypatch
):
    monkeypatch.setattr(compiled, "TOGETHER", together)
    box, exact = with_gain(form, law=law), with_gain(form, law=law, dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (exact.h, *exact.scores, *exact.parameters, *exact.gain)]
    found = plain(exact)
    outputs = (*found, *residual(exact, found))
    pulls = [torch.randn(x.shape) * (exact.real if x.shape == exact.real.shape else 1.0) for x in outputs]
    total = sum((outputs[k] * pulls[k]).sum() for k in arrived)
    wanted = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    result, d_h = compiled.forward(box), torch.empty_like(box.h)
    for _ in range(2):  # and a second time: nothing that was kept is written to
        grads = [pull if k in arrived else None for k, pull in enumerate(pulls)]
        ours = (d_h, *compiled.backward(box, result, grads, d_h).others)
        for mine, theirs in zip(ours, wanted, strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=1e-3, atol=1e-4)


def test_gradients_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(calls, "WORTH_SHARING", 0)
    monkeypatch.setattr(compiled, "TOGETHER", 1)
    box, before, found = with_gain(bags=300), torch.get_num_threads(), []
    result, pull = compiled.forward(box), torch.randn(300, 6)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        d_h = torch.empty_like(box.h)
        found += [(d_h, *compiled.backward(box, result, (None,) * 6 + (pull, None), d_h).others) for _ in range(5)]
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_no_bags_have_gradients_of_zero():
    box = with_gain(bags=0)
    result = compiled.forward(box)
    found = compiled.backward(box, result, (None,) * 6 + (torch.empty(0, 6), None), None)
    assert all(torch.equal(d, torch.zeros_like(d)) for d in found.others)


def test_a_gain_of_another_width_is_refused():
    box = with_gain()
    box.gain = (torch.zeros(5, 4), *box.gain[1:])
    with pytest.raises(InputError, match="elements of width 4, got 6"):
        compiled.forward(box)
