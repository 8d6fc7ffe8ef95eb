"""The simple models of a run: fitted to the training part, judged where they are asked to be."""

from __future__ import annotations

import numpy as np
import pytest
import samples_data
from sklearn.linear_model import RidgeCV

from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.errors import MissingExtraError
from excora.peers import baselines as module
from excora.peers import peers
from excora.peers.baselines import baselines
from excora.settings import Recipe
from excora.stats.ridge import PENALTIES

PARTS = Split(np.arange(42), np.arange(42, 56), np.arange(56, 70))


def found(data: Dataset) -> module.Baselines:
    return baselines(data, PARTS, Preparation.fit(data, PARTS.train), Recipe())


@pytest.mark.parametrize("kind", samples_data.KINDS)
def test_all_are_there_with_their_scores(kind):
    records = found(samples_data.KINDS[kind](targets=2)).records(PARTS._asdict())
    assert [one["name"] for one in records] == ["ridge", "LightGBM", "ExtraTrees", "neighbours"]
    for one in records:
        for part in ("validation", "test"):
            assert -1 <= one[part]["pcc"] <= 1
            assert one[part]["mse"] > 0


def test_ridge_is_that_of_scikit_learn():
    data = samples_data.table()
    simple = found(data)
    x, y = simple.matrix, data.target[:, 0]
    std = x[PARTS.train].std(0)
    z = (x - x[PARTS.train].mean(0)) / np.where(std > 0, std, 1.0)
    peer = RidgeCV(alphas=PENALTIES).fit(z[PARTS.train], y[PARTS.train]).predict(z[PARTS.test])
    mine = simple.records({"test": PARTS.test})[0]["test"]
    assert mine["pcc"] == pytest.approx(np.corrcoef(peer, y[PARTS.test])[0, 1], abs=1e-6)
    assert mine["mse"] == pytest.approx(np.square(peer - y[PARTS.test]).mean(), rel=1e-5)


def test_the_test_part_is_not_read_before_it_is_asked_for():
    data, other = samples_data.table(), samples_data.table()
    other.target[PARTS.test] = 1e6
    mine, theirs = (found(one).records({"validation": PARTS.validation}) for one in (data, other))
    assert mine == theirs


def test_an_empty_part_has_no_scores():
    assert "test" not in found(samples_data.table()).records({"test": PARTS.test[:0]})[0]


def test_what_is_left_out_is_said(monkeypatch):
    monkeypatch.setattr(module, "MOST_CELLS", 10)
    monkeypatch.setattr(module, "MOST_COLUMNS", 2)
    monkeypatch.setattr(module, "NEAR_CELLS", 10)
    simple = found(samples_data.table())
    assert not simple.fitted
    assert "7 columns of 42 samples" in simple.notes[0]
    assert all("excora compare" in note for note in simple.notes[1:])
    assert len(simple.notes) == 4


def test_trees_learn_from_so_many_rows_as_there_is_time_for(monkeypatch):
    monkeypatch.setattr(module, "TREE_CELLS", 7 * 14)
    seen = []
    fits = type(peers["extratrees"])._fits
    monkeypatch.setattr(
        type(peers["extratrees"]),
        "_fits",
        lambda self, train, *more: (seen.append(len(train.x)), fits(self, train, *more))[1],
    )
    assert "ExtraTrees" in found(samples_data.table()).fitted
    assert seen == [14]


def test_without_a_validation_part_there_is_ridge():
    data, none = samples_data.table(), PARTS._replace(validation=PARTS.validation[:0])
    simple = baselines(data, none, Preparation.fit(data, PARTS.train), Recipe())
    assert [*simple.fitted] == ["ridge"]
    assert "without a validation part" in simple.notes[0]


def test_without_lightgbm_there_are_the_others(monkeypatch):
    def missing() -> None:
        raise MissingExtraError("lightgbm", "compare")

    monkeypatch.setattr(peers["lightgbm"], "check", missing)
    simple = found(samples_data.table())
    assert [*simple.fitted] == ["ridge", "ExtraTrees", "neighbours"]
    assert "excora[compare]" in simple.notes[0]


def test_groups_and_weights_count():
    data = samples_data.table()
    group = np.array([f"g{k % 5}" for k in range(len(data))], object)
    weight = np.where(np.arange(len(data)) % 7 == 0, 0.0, 1.0)
    odd = Dataset(data.ids, data.targets, data.target.copy(), data.content, group, weight=weight)
    before = found(odd).records({"test": PARTS.test})[0]
    odd.target[PARTS.train[::7]] += 50.0  # of weight 0, in the scale of the others
    preparation = Preparation.fit(data, PARTS.train)
    wild, calm = (baselines(one, PARTS, preparation, Recipe()) for one in (odd, Dataset(
        data.ids, data.targets, data.target, data.content, group, weight=weight)))  # fmt: skip
    assert wild.records({"test": PARTS.test})[0]["test"] == calm.records({"test": PARTS.test})[0]["test"]
    assert before["test"]["pcc"] > 0.5
