"""The autograd function: first and second gradients, of all outputs or some."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from excora.extrapolation import learned_temperature, linear_temperature
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
