"""columns: predictions and labels in one shape, mask and weight as one, and what is refused."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.samples import columns, transformed

X, Y = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([[1.0, 0.0], [2.0, 1.0], [4.0, 9.0]])
KNOWN = torch.tensor([[True, False], [True, True], [False, True]])


def test_a_vector_becomes_a_column_and_no_weights_stay_none():
    x, y, weight = columns(X[:, 0], Y[:, 0], None, None)
    assert (x.tolist(), y.tolist(), weight) == ([[1.0], [3.0], [5.0]], [[1.0], [2.0], [4.0]], None)


def test_mask_and_weight_become_one_and_blank_what_does_not_count():
    target = Y.masked_fill(~KNOWN, torch.nan)
    x, y, weight = columns(X, target, KNOWN, torch.tensor([0.5, 2.0, 0.0]))
    assert weight.tolist() == [[0.5, 0.0], [2.0, 2.0], [0.0, 0.0]]
    assert x.tolist() == [[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]]
    assert y.tolist() == [[1.0, 0.0], [2.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("given", "other", "wanted"),
    [
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
        (torch.float16, torch.int64, torch.float32),
    ],
)
def test_computed_is_in_float32_or_better(given, other, wanted):
    x, y, _ = columns(X.to(given), Y.to(other), None, None)
    assert (x.dtype, y.dtype) == (wanted, wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X.long(), Y, None, None), "prediction must be a floating tensor"),
        ((X[None], Y[None], None, None), r"prediction .* of shape \(1, 3, 2\)"),
        ((X[:, 0], Y[:, :1], None, None), r"one shape, got \(3,\) and \(3, 1\).*squeeze"),
        ((X, Y, KNOWN.float(), None), "mask must be boolean"),
        ((X, Y, KNOWN[:2], None), r"mask must have shape \(3,\), \(3, 1\) or \(3, 2\), got \(2, 2\)"),
        ((X, Y, None, torch.ones(3, 3)), r"weight must have shape"),
        ((X, Y, None, torch.tensor([1.0, -2.0, 1.0])), "not negative, got -2.0"),
        ((X, Y, None, torch.tensor([1.0, torch.nan, 1.0])), "must be finite"),
        ((X, Y, None, torch.ones(3, requires_grad=True)), r"weight\.detach\(\)"),
    ],
)
def test_what_breaks_a_rule_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        columns(*arguments)


def test_a_weight_that_a_mask_hides_may_be_anything():
    weight = torch.tensor([[1.0, torch.nan], [1.0, 1.0], [-1.0, 1.0]])
    assert columns(X, Y, KNOWN, weight)[2].tolist() == [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def test_in_a_transform_wrong_weights_count_as_0_because_they_cannot_be_read():
    def summed(weight):
        assert transformed()
        return columns(X, Y, None, weight)[2].sum()

    assert torch.func.vmap(summed)(torch.tensor([[1.0, -1.0, 2.0]])).tolist() == [6.0]
    assert not transformed()
