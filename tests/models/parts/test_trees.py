"""Trees as tensors say what the loops that grew them say, and end whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.models.parts import trees
from excora.models.parts.growing import grow
from excora.models.parts.trees import DEPTH, Trees, joined
from tests.oracles import trees as oracle


def rows(n: int = 300, columns: int = 4) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, columns)).astype(np.float32)
    x[:, 0] = x[:, 0].round(1)  # many equal values
    return x


def grown(x: np.ndarray, y: np.ndarray, depth: int = DEPTH, seed: int = 0):
    random = np.random.default_rng(seed)
    return grow(x, np.arange(len(x)), y, np.ones(len(x)), random, leaf=1, depth=depth, share=1.0)


@pytest.mark.parametrize("targets", [1, 3])
def test_the_sum_of_trees_is_that_of_the_leaves_of_each(targets, monkeypatch):
    monkeypatch.setattr(trees, "CELLS", 64)  # parts of a few rows
    x = rows()
    y = np.sin(x @ np.random.default_rng(1).normal(size=(4, targets)))
    each = [grown(x, y, seed=seed) for seed in range(7)]
    truth = sum(value[oracle.leaves(x, *nodes)] for *nodes, value in each)
    found = joined(each)
    assert found.broken(4) == []
    wide = torch.cat([torch.full((300, 2), 9.0), torch.from_numpy(x)], 1)
    np.testing.assert_allclose(found(torch.from_numpy(x)), truth, atol=7e-6)
    np.testing.assert_allclose(joined(each, 2)(wide), truth, atol=7e-6)


def test_what_leads_out_of_the_nodes_or_back_is_named_and_the_reading_ends_all_the_same():
    x = rows()
    found = joined([grown(x, (x[:, 1] * x[:, 2])[:, None], depth=3)])
    back = found._replace(child=found.child.clone())
    back.child[1] = 0
    assert back.broken(4) == ["child"]
    assert back(torch.from_numpy(x)).shape == (300, 1)
    half = found._replace(child=found.child.clone())
    half.child[0, 0] = 0  # its own child on one side only
    assert half.broken(4) == ["child"]
    assert found.broken(1) == ["feature"]
    assert found._replace(root=torch.tensor([len(found.feature)])).broken(4) == ["root"]
    assert Trees(*(t[:0] for t in found)).broken(4) == []
    assert Trees(*(t[:0] for t in found))(torch.from_numpy(x)).tolist() == [[0.0]] * 300
    assert found(torch.zeros(0, 4)).shape == (0, 1)
