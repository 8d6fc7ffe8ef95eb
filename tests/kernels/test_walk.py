"""The walk in boxes: a ragged batch or one in half precision gives what its padded float32 batch gives."""

from __future__ import annotations

import pytest
import torch

from excora.extrapolation import Extrapolation, given_temperature, learned_temperature
from excora.kernels import walk
from excora.kernels.attend import attend, attend_beyond
from excora.ragged import Ragged


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


@pytest.mark.usefixtures("kind", "tile")
def test_a_temperature_of_each_bag_has_its_gradient_in_whatever_block_the_bag_is():
    torch.manual_seed(0)
    ragged = Ragged.collate([torch.randn(n, 3) for n in (5, 1, 4, 2, 7)])
    padded, mask = ragged.pad()
    tau, logits, pull = torch.rand(5) + 0.5, torch.randn(19), torch.randn(5, 3)
    found = []
    for h, real in ((ragged, None), (padded, mask)):
        z = logits if real is None else torch.zeros(mask.shape).masked_scatter(mask, logits)
        given = [x.clone().requires_grad_() for x in (z, tau)]
        out = attend(h, (given[0],), given_temperature, (given[1],), mask=real)
        d_z, d_tau = torch.autograd.grad((out.attended * pull).sum(), given)
        found.append((d_z if real is None else d_z[mask], d_tau))
    assert len(found[0][1].unique()) == 5
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("kind", "tile")
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_in_blocks_with_the_numbers_of_float32(half):
    torch.manual_seed(0)
    extrapolation = Extrapolation(6, cap=3.0, hidden=5)
    with torch.no_grad():
        for parameter in extrapolation.parameters():
            parameter.normal_(std=0.5)
    h, mask = torch.randn(9, 7, 6).to(half), torch.rand(9, 7) < 0.8
    scores = torch.randn(6).to(half), torch.randn(1).to(half)
    found = []
    for dtype in (half, torch.float32):
        inputs = [x.to(dtype).requires_grad_() for x in (h, *scores)]
        out, value, gamma = attend_beyond(extrapolation, inputs[0], tuple(inputs[1:]), mask=mask, keep=None, scale=0.4)
        assert value.dtype == out.weights.dtype == torch.float32
        total = value.square().sum() + (gamma * out.dispersion).sum()
        own = torch.autograd.grad(total, [*inputs, *extrapolation.parameters()])
        found.append((value, gamma, out.weights, *own))
    for k, (ours, theirs) in enumerate(zip(*found, strict=True)):
        rough = 3 <= k < 6  # gradients in half precision: of h, weight and bias
        torch.testing.assert_close(
            ours.float(), theirs.float(), rtol=2e-2 if rough else 1e-4, atol=5e-2 if rough else 1e-4
        )
    assert found[0][1].std() > 0.05


def test_half_precision_walks_several_blocks(monkeypatch):
    monkeypatch.setattr(walk.closed_form, "CHUNK", 100)
    blocks = walk._blocks(torch.zeros(9, 7, 6, dtype=torch.float16), None)
    assert [block.shape for block in blocks] == [(2, 7)] * 4 + [(1, 7)]
    assert len(walk._blocks(torch.zeros(9, 7, 6), None)) == 1


@pytest.mark.parametrize("again", [False, True], ids=["once", "create_graph"])
@pytest.mark.parametrize("transformed", [False, True])
def test_autocast_lowers_nothing_in_a_ragged_batch(transformed, again):
    torch.manual_seed(0)
    values, weight = torch.randn(20, 64), torch.randn(64)
    lengths, pull = torch.tensor([7, 13]), torch.randn(2, 64)

    def loss(h, w):
        found = attend(Ragged(h, lengths), (w, torch.zeros(1)), learned_temperature, (torch.zeros(1), torch.ones(1)))
        return (found.attended * pull).sum()

    def gradient():
        if transformed:  # the value alone: the backward is torch's own, of which a user keeps autocast away
            with torch.autograd.forward_ad.dual_level():
                return (loss(values, weight),)
        inputs = [x.clone().requires_grad_() for x in (values, weight)]
        return torch.autograd.grad(loss(*inputs), inputs, create_graph=again)

    expected = gradient()
    with torch.autocast("cpu", torch.bfloat16):
        found = gradient()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
