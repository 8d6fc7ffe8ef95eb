"""Rows as the kriging network reads them, and the weights of rows that several members name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.rows import wavy

from excora.errors import InputError
from excora.models.parts.kriging_network import KrigingFeatures, KrigingNetwork, _merged
from excora.models.parts.neighbours import nearest


def network(n: int = 50) -> tuple[KrigingNetwork, object]:
    spec, features, _ = wavy(80)
    found = KrigingNetwork(spec, 6, {"context": n, "gaps": [3], "members": 2, "knots": 9})
    generator = torch.Generator().manual_seed(0)
    for name in ("context_x", "scale", "mix", "knots"):
        getattr(found, name).normal_(generator=generator)
    found.knots.copy_(found.knots.sort(0).values)
    return found, features


def test_weights_of_a_row_that_comes_twice_are_added_where_it_stands_first():
    numbers = torch.tensor([[4, 2, 4, 4, 1], [0, 1, 2, 3, 4]])
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.5, -0.1], [1.0, 2.0, 3.0, 4.0, 5.0]])
    truth = torch.tensor([[0.9, 0.2, 0.0, 0.0, -0.1], [1.0, 2.0, 3.0, 4.0, 5.0]])
    torch.testing.assert_close(_merged(numbers, weights), truth)


def test_neighbours_are_the_nearest_of_each_member_in_turn():
    found, features = network()
    read = found.look_up(features).read(np.arange(5))
    assert read["neighbours"].shape == (5, 12) == read["allowed"].shape
    for member in range(2):
        keys = found.keys(member)
        truth = nearest(keys(read["channels"]), keys(found.context_x), 6)[0]
        assert torch.equal(read["neighbours"].view(5, 6, 2)[..., member], truth)
    assert len(found.element_names(None)) == 12


def test_training_rows_need_to_be_told_whom_they_may_see():
    found, features = network()
    with pytest.raises(InputError, match="train and excluded go together"):
        KrigingFeatures(features, found, np.arange(50), None)
