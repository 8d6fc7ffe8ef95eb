"""The non-parametric transformer: no label comes back to its row, groups stay whole, hidden cells, and the lookup."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.rows import randomised, wavy

from excora.errors import InputError
from excora.models import Samples, models
from excora.models.npt import FOLDS

MODEL = models["npt"]
OPTIONS = MODEL.Options(dim=8, heads=2, context=60, dropout=0.0, feature_dropout=0.0)
TRAIN = np.arange(200)


def built(options=OPTIONS, **more):
    spec, features, target = wavy()
    network, found = MODEL.build(spec, Samples(features, target, TRAIN, **more), options, seed=0)
    return randomised(network, 0.3), found


def test_the_label_of_a_training_row_reaches_others_and_never_itself():
    network, features = built()
    network.eval()
    before = network(features.read(TRAIN)).prediction
    for row in range(3):
        fold = int(network.context_fold[row])
        kept = network.context_labels[row].clone()
        network.context_labels[row] += 5.0
        moved = (network(features.read(TRAIN)).prediction - before).abs()[:, 0] > 1e-6
        network.context_labels[row] = kept
        same = features.fold[:200] == fold
        assert not moved[same].any()
        assert moved[~same].any()


def test_a_group_is_of_one_part_and_new_rows_see_all():
    group = np.repeat(np.arange(65), 4)
    network, features = built(group=group)
    parts = features.fold[:200].reshape(50, 4)
    assert (parts == parts[:, :1]).all()
    assert set(parts.flatten().tolist()) == set(range(FOLDS))
    assert (features.fold[200:] == FOLDS).all()
    assert (network.look_up(features.features).fold == FOLDS).all()
    assert len(network.context_labels) == 60
    assert "60 training rows" in network.carried()[0]


def test_rows_that_do_not_count_are_not_looked_at():
    weight = np.ones(260)
    weight[:150] = 0.0
    assert len(built(weight=weight)[0].context_labels) == 50
    with pytest.raises(InputError, match="no training row"):
        built(weight=np.zeros(260))


def test_hidden_cells_are_a_loss_in_training_alone():
    network, features = built(MODEL.Options(dim=8, heads=2, context=20, feature_dropout=0.3))
    inputs = features.read(TRAIN)
    loss = network.train()(inputs).losses["hidden cells"]
    assert float(loss.count) == pytest.approx(0.3 * inputs["numeric"].numel(), rel=0.2)
    loss.sum.backward()
    assert network.hidden.token.grad.any()
    assert network.eval()(inputs).losses == {}


def test_rows_without_their_part_are_refused():
    network, features = built()
    with pytest.raises(InputError, match="look_up says it"):
        network(features.features.read(TRAIN))
