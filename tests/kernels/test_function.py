"""The autograd function: first and second gradients, of all outputs or some."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from excora.extrapolation import learned_temperature, linear_temperature
from excora.kernels.attend import attend
from excora.ragged import Ragged
from kernels.samples import problem, run, single


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("law", [learned_temperature, linear_temperature])
@pytest.mark.parametrize("logits", [False, True])
def test_gradcheck_and_gradgradcheck(masked, law, logits):
    _, mask, inputs = problem((3, 4, 2), masked=masked)
    call = run(mask, law=law, logits=logits)
    assert gradcheck(call, inputs)
    # Every entry of the matrix for each law and each kind of scores, otherwise the matrix along random directions.
    assert gradgradcheck(call, inputs, fast_mode=not (masked and logits is (law is learned_temperature)))


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
def test_a_ragged_batch_has_the_gradients_of_the_padded_one_in_float32():
    """Bags of unlike length share a block, in which a short one borrows rows of another in place of padding."""
    torch.manual_seed(0)
    ragged = Ragged.collate([torch.randn(n, 3) for n in (5, 3, 4, 1, 0, 5)])
    padded, mask = ragged.pad()
    pulls = torch.randn(6, 3), torch.randn(18), torch.randn(18)
    found = []
    for h, real in ((ragged.values.requires_grad_(), None), (padded.requires_grad_(), mask)):
        own = [
            torch.full((3,), 0.7, requires_grad=True),
            *(torch.tensor(x, requires_grad=True) for x in (0.1, 0.2, 0.4)),
        ]
        given = Ragged(h, ragged.lengths) if real is None else h
        out = attend(given, tuple(own[:2]), learned_temperature, tuple(own[2:]), mask=real)
        weights, logits = (x if real is None else x[real] for x in (out.weights, out.logits))
        total = sum((x * pull).sum() for x, pull in zip((out.attended, weights, logits), pulls, strict=True))
        first, *rest = torch.autograd.grad(total + out.dispersion.sum(), [h, *own])
        found.append([first if real is None else first[real], *rest])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
