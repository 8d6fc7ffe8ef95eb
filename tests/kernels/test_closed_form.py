"""The closed form of the gradient against the graph of the formulas."""

from __future__ import annotations

import pytest
import torch

from excora.extrapolation import learned_temperature
from excora.kernels import closed_form
from excora.kernels.formulas import Box, plain
from kernels.samples import problem, run


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


@pytest.mark.parametrize("shape", [(2, 11, 3), (3, 8, 3), (1, 3, 5), (5, 2, 2), (2, 37, 1)])
def test_the_pieces_of_a_batch_hold_every_row_once(shape, monkeypatch):
    monkeypatch.setattr(closed_form, "CHUNK", 8)
    monkeypatch.setattr(closed_form, "ROWS", 4)
    seen = torch.zeros(shape[:2], dtype=torch.int)
    for bags, rows in closed_form.pieces(torch.zeros(shape)):
        seen[bags, rows] += 1
        assert seen[bags, rows].numel() > 0
    assert (seen == 1).all()


@pytest.mark.parametrize("elements", [7, 8, 22, 37])
@pytest.mark.parametrize("masked", [False, True])
def test_a_long_bag_in_groups_of_rows_gives_what_it_gives_at_once(elements, masked, monkeypatch):
    h, mask, inputs = problem((3, elements, 5), masked=masked)
    found = [run(mask)(*inputs)]
    monkeypatch.setattr(closed_form, "CHUNK", 24)
    monkeypatch.setattr(closed_form, "ROWS", 4)
    assert len(closed_form.pieces(h)) > 1
    found.append(run(mask)(*inputs))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
