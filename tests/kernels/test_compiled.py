"""The compiled form: independent of threads."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.extrapolation import learned_temperature
from excora.kernels import calls, closed_form, compiled
from excora.kernels.formulas import Box
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
    torch.testing.assert_close(found.weight, expected.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.parameters, expected.parameters, rtol=1e-4, atol=1e-5)
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
