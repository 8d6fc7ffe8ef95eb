"""The losses of DLF."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import crossmodal as oracle
from torch import nn

from excora.models.sentiment.dlf_losses import branch_errors, hinge, orthogonal, rebuilt
from excora.models.sentiment.parts import Sequence


def sequences() -> tuple[Sequence, Sequence]:
    """Two of them, of equal lengths."""
    length = torch.tensor([4, 2, 1])
    return Sequence(torch.randn(3, 4, 5), length), Sequence(torch.randn(3, 4, 5), length)


def test_only_real_steps_count():
    a, b = sequences()
    rows = [x.values[x.mask] for x in (a, b)]
    found = rebuilt(a, b, 2.0)
    torch.testing.assert_close(found.sum / found.count, 2 * nn.functional.mse_loss(*rows))
    found = orthogonal(a, b, 2.0)
    expected = nn.CosineEmbeddingLoss()(*rows, -torch.ones(7))
    torch.testing.assert_close(found.sum / found.count, 2 * expected)
    a.values[0, 3] = 0.0
    assert orthogonal(a, b, 1.0).sum.isfinite()


def test_errors_of_branches_with_unknown_labels():
    predictions, target = torch.randn(4, 2, 3), torch.randn(4, 3)
    known = torch.rand(4, 3) < 0.6
    known[0, 0] = True
    errors = [(predictions[:, k] - target).abs()[known].mean() for k in range(2)]
    torch.testing.assert_close(branch_errors(predictions, target, known, [3.0, 1.0]), 3 * errors[0] + errors[1])
    assert float(branch_errors(predictions, target, torch.zeros_like(known), [3.0, 1.0])) == 0


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=14), st.integers(1, 3))
def test_the_hinge_is_that_of_the_description(labels, modalities):
    summaries = torch.randn(len(labels), modalities, 4, dtype=torch.float64)
    target = torch.tensor(labels, dtype=torch.float64).unsqueeze(1)
    expected = oracle.hinge(summaries.flatten(0, 1).numpy(), np.repeat(labels, modalities))
    assert float(hinge(summaries, target)) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_samples_without_labels_are_no_anchors():
    summaries, target = torch.randn(5, 2, 4), torch.tensor([[0.0], [1.0], [0.0], [1.0], [0.0]])
    known = torch.tensor([True, True, True, True, False]).unsqueeze(1)
    torch.testing.assert_close(hinge(summaries, target, known), hinge(summaries[:4], target[:4]))
    assert float(hinge(summaries, target, torch.zeros_like(known))) == 0


def test_its_gradient_is_finite():
    summaries = torch.randn(40, 1, 4, dtype=torch.float64, requires_grad=True)
    target = torch.arange(40.0).remainder(4).double().unsqueeze(1)
    hinge(summaries, target).backward()
    assert summaries.grad.isfinite().all()
    assert summaries.grad.any()
    zero = torch.zeros(4, 1, 3, requires_grad=True)
    hinge(zero, torch.tensor([[0.0], [0.0], [1.0], [1.0]])).backward()
    assert zero.grad.isfinite().all()
