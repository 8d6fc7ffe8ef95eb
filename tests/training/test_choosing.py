"""The model "best": chosen on validation, within a time that is said, without a look at the test part."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.data.table import Table
from excora.errors import InputError
from excora.settings import Settings
from excora.training import choosing
from excora.training.choosing import choose, rivals, said, summary

N = 90
PARTS = Split(np.arange(50), np.arange(50, 70), np.arange(70, N))
FEW = {"epochs": 1, "batch_size": 32, "seed": 0}


@pytest.fixture(scope="module")
def rows() -> Dataset:
    x = np.random.default_rng(0).normal(size=(N, 3))
    y = (x[:, :1] + 0.1 * x[:, 1:2] ** 2).astype(np.float64)
    return Dataset(np.arange(N).astype(str).astype(object), ("y",), y, Table(pd.DataFrame(x, columns=list("abc"))))


@pytest.fixture(scope="module")
def chosen(rows):
    heard: list[str] = []
    settings, tried = choose(rows, PARTS, Settings("best", **FEW), tell=heard.append)
    return settings, tried, heard


def test_the_least_criterion_on_validation_wins_and_all_scores_are_told(chosen):
    settings, tried, heard = chosen
    assert [one["model"] for one in tried] == ["kriging", "ft-transformer", "retrieval"]
    least = min(tried, key=lambda one: one["validation"]["criterion"])
    assert settings == Settings(least["model"], **FEW)
    assert heard[0].startswith("best of kriging, ft-transformer, retrieval on validation, in 10 min at most")
    assert heard[1:] == [said(one) for one in tried]
    assert all(said(one) in summary(tried, settings.model)[0] for one in tried)


def test_labels_of_the_test_part_are_not_read(rows, chosen):
    other = rows.target.copy()
    other[PARTS.test] = np.random.default_rng(1).normal(size=(len(PARTS.test), 1)) * 1e3
    settings, tried = choose(
        dataclasses.replace(rows, target=other), PARTS, Settings("best", **FEW), tell=lambda _: None
    )
    assert settings == chosen[0]
    assert [one["validation"] for one in tried] == [one["validation"] for one in chosen[1]]


def test_what_there_is_no_time_for_is_left_out_with_a_word(rows, monkeypatch):
    monkeypatch.setattr(choosing, "forward_time", lambda *_: 100.0)
    named = {"seed": 0, "seconds": 1000.0, "members": 1}
    assert rivals(Settings("best", **named), "table") == ["kriging"]
    del named["members"]
    settings, tried = choose(rows, PARTS, Settings("best", **named), tell=lambda _: None)
    assert settings == Settings("kriging", **named)
    assert [one["validation"] is None for one in tried] == [False, True, True]
    assert "it may take" in tried[1]["note"]


def test_the_first_is_tried_in_any_case(rows):
    ticks = iter(float(10 * k) for k in range(100))
    settings, tried = choose(rows, PARTS, Settings("best", seed=0, seconds=1.0), tell=str, clock=lambda: next(ticks))
    assert settings.model == "kriging"
    assert [one["note"] for one in tried[1:]] == ["left out: the time is over"] * 2


def test_what_cannot_be_chosen_is_refused(rows):
    with pytest.raises(InputError, match="is for tables, and these are bags"):
        rivals(Settings("best"), "bags")
    with pytest.raises(InputError, match="no model that competes for 'best' has all of members, metric"):
        rivals(Settings("best", members=2, metric="plain"), "table")
    with pytest.raises(InputError, match="there is none: give it a share"):
        choose(rows, Split(np.arange(90), np.arange(0), np.arange(0)), Settings("best"), tell=str)
    with pytest.raises(InputError, match="chosen by one process"):
        choose(rows, PARTS, Settings("best", devices=2), tell=str)
    with pytest.raises(InputError, match="name a model here"):
        Settings("best").model_for("table")
