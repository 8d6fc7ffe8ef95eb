"""Trees as tensors say what scikit-learn's trees say, and end whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.tree import DecisionTreeRegressor

from excora.models.parts import trees
from excora.models.parts.trees import DEPTH, Trees, joined


def rows(n: int = 300, columns: int = 4) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, columns)).astype(np.float32)
    x[:, 0] = x[:, 0].round(1)  # many equal values: thresholds between them
    return x


@pytest.mark.parametrize("targets", [1, 3])
def test_the_sum_of_trees_is_what_scikit_learn_predicts(targets, monkeypatch):
    monkeypatch.setattr(trees, "CELLS", 64)  # parts of a few rows
    x = rows()
    y = np.sin(x @ np.random.default_rng(1).normal(size=(4, targets)))
    forest = ExtraTreesRegressor(7, max_depth=DEPTH, random_state=0).fit(x, y.squeeze())
    found = joined(forest.estimators_)
    assert found.broken(4) == []
    wide = torch.cat([torch.full((300, 2), 9.0), torch.from_numpy(x)], 1)
    truth = forest.predict(x).reshape(300, targets)
    np.testing.assert_allclose(found(torch.from_numpy(x)) / 7, truth, atol=1e-6)
    np.testing.assert_allclose(joined(forest.estimators_, 2)(wide) / 7, truth, atol=1e-6)


def test_a_threshold_in_single_precision_parts_rows_as_the_double_one_does():
    ulp = 2.0**-23
    x = np.array([[1.0], [1.0 + 3 * ulp]], np.float32)
    tree = DecisionTreeRegressor().fit(x, [0.0, 1.0])
    assert tree.tree_.threshold[0] == 1.0 + 1.5 * ulp, "a number that float32 does not have"
    between = np.array([[1.0], [1.0 + ulp], [1.0 + 2 * ulp], [1.0 + 3 * ulp]], np.float32)
    assert tree.predict(between).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert joined([tree])(torch.from_numpy(between)).ravel().tolist() == [0.0, 0.0, 1.0, 1.0]


def test_what_leads_out_of_the_nodes_or_back_is_named_and_the_reading_ends_all_the_same():
    x = rows()
    found = joined([DecisionTreeRegressor(max_depth=3).fit(x, x[:, 1] * x[:, 2])])
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
