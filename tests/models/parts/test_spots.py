"""Parts of the models of spots."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.models.parts.exemplars import Exemplars
from excora.models.parts.spots import ExemplarAttention, carried, check_bank, check_counts, parted
from excora.ragged import Ragged


def test_own_and_neighbours_are_told_apart_whatever_their_numbers():
    own, near = torch.tensor([2, 1, 2]), torch.tensor([1, 2, 0])
    lengths = own + near
    values = torch.arange(8.0).unsqueeze(1)
    places = torch.stack([values[:, 0], torch.zeros(8)], 1)
    mine, around = parted({"elements": Ragged(values, lengths), "places": Ragged(places, lengths), "own": own})
    assert [mine.elements[k][mine.real[k]][:, 0].tolist() for k in range(3)] == [[0, 1], [3], [6, 7]]
    assert [around.elements[k][around.real[k]][:, 0].tolist() for k in range(3)] == [[2], [4, 5], []]
    assert torch.equal(around.elements[..., 0], around.elements[..., 1]), "the distance is the last channel"


@pytest.mark.parametrize("pool", ["softmax", "eca", "kriging", "mean"])
def test_attention_over_exemplars_is_of_their_labels_and_starts_at_nothing(pool):
    torch.manual_seed(0)
    attention = ExemplarAttention(4, 2, 3, pool)
    real = torch.tensor([[True, True, False], [True, True, True]])
    inputs = {"feature": torch.randn(2, 4), "exemplar_features": torch.randn(2, 3, 4), "exemplar_mask": real,
              "exemplar_targets": torch.randn(2, 3, 2)}  # fmt: skip
    found, pooled = attention(inputs)
    assert not found.any()
    with torch.no_grad():
        attention.gain.fill_(1.0)
    found, pooled = attention(inputs)
    shares = pooled.effective * real
    torch.testing.assert_close(found, torch.bmm(shares.unsqueeze(1), inputs["exemplar_targets"]).squeeze(1))


def test_near_exemplars_weigh_more():
    attention = ExemplarAttention(2, 1, 2, "softmax")
    with torch.no_grad():
        attention.key.weight.copy_(torch.eye(2))
    inputs = {
        "feature": torch.zeros(1, 2),
        "exemplar_features": torch.tensor([[[0.0, 0.0], [1.0, 0.0]]]),
        "exemplar_mask": torch.ones(1, 2, dtype=torch.bool),
        "exemplar_targets": torch.zeros(1, 2, 1),
    }
    weights = attention(inputs)[1].weights[0]
    torch.testing.assert_close(weights[0] / weights[1], torch.tensor(1.0).exp())


def test_what_comes_from_a_stranger_is_checked():
    check_counts({"exemplars": 3}, ("exemplars",), "spots")
    for wrong in (None, {}, {"exemplars": 0}, {"exemplars": True}, {"exemplars": 3, "more": 1}):
        with pytest.raises(InputError, match="what a spots network learned must be exemplars"):
            check_counts(wrong, ("exemplars",), "spots")
    check_bank({"bank.target": torch.zeros(2), "other": torch.tensor([torch.nan])})
    with pytest.raises(InputError, match=r"damaged in bank\.target"):
        check_bank({"bank.target": torch.tensor([torch.nan])})


def test_it_says_that_it_carries_training_data():
    assert "features and the expression of its 3 training spots" in carried(Exemplars(3, 2, 1))
