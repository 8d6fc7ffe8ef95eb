"""Clips whose label one frame gives away: the order of the pools is known, and training finds it."""

from __future__ import annotations

import pytest

from excora.data.reading import read
from excora.data.splits import split
from excora.settings import Settings
from excora.stats.sentiment import sentiment_scores
from excora.tasks.sentiment import SentimentTask
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    task = SentimentTask()
    data = read(task.write(tmp_path_factory.mktemp("clips") / "a.pkl", clips=(320, 100, 300)), drop=["text", "audio"])
    parts, found = split(data), {}
    for pool in ("mean", "softmax", "eca"):
        settings = Settings(
            model="streams", pool=pool, layers=0, start="none", correlation="none", weight_decay=0.0, batch_size=64,
            learning_rate=0.03, epochs=50, patience=50, accelerator="cpu",
        )  # fmt: skip
        setup = settings.settled("modalities", len(parts.train))
        built = build(data, parts.train, setup)
        training = train(
            built.network, built.features, built.target, parts, setup.recipe, setup.machine, progress=False
        )
        made = built.preparation.unscale(predictions(training.network, built.features, parts.test, setup))
        found[pool] = sentiment_scores(made[:, 0], data.target[parts.test, 0])
    return found


def test_eca_beats_softmax_and_softmax_the_mean_by_a_clear_margin(scores):
    assert scores["softmax"].pcc > scores["mean"].pcc + 0.1
    assert scores["eca"].pcc > scores["softmax"].pcc + 0.1
    assert scores["eca"].mae < scores["softmax"].mae < scores["mean"].mae


def test_no_convex_pool_passes_its_bound_and_eca_does(scores):
    bound = SentimentTask().best_softmax_pcc
    assert scores["softmax"].pcc < bound + 0.05
    assert scores["eca"].pcc > bound + 0.05
