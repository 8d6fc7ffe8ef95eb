"""What is resampled, and what a seed and a fold give."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from comparison.samples import quick, table
from excora.comparison.analysis import OutOfFold
from excora.comparison.entrants import Entrant
from excora.data.splits import Split
from excora.stats.units import sample_units
from excora.storage import fingerprint


def test_groups_stay_whole_and_are_resampled_whole():
    data = table(group=np.array([f"g{k % 6}" for k in range(60)], object))
    found = quick(data)
    assert (found.setup["resampled"], found.setup["units"]) == ("groups", 6)
    assert any("only 6 groups" in note for note in found.notes)


def test_more_groups_than_can_be_resampled_one_by_one_are_put_together():
    code = np.repeat(np.arange(2500), 2)
    unit = sample_units(5000, group=code)
    assert unit.max() + 1 == 2000
    assert (unit[::2] == unit[1::2]).all()


def test_every_pair_is_judged_and_the_headline_repeats_what_its_pairs_say():
    found = quick(table(40), models=("neighbours", "ridge", "peer:mean"), seeds=1)
    names = [row.model for row in found.rows]
    assert names[0] == "ridge" == found.reference
    assert [row.pcc for row in found.rows] == sorted((row.pcc for row in found.rows), reverse=True)
    assert [(p.model, p.against) for p in found.pairs] == [
        (names[1], "ridge"), (names[2], "ridge"), (names[2], names[1]),
    ]  # fmt: skip
    for name in names[1:]:
        word = found.pair(name).verdict
        assert (name in found.headline.better_than) == (word == "worse")
        assert (name in found.headline.tied_with) == (word in ("cannot tell", "no difference"))
        assert found.pair("ridge", name).difference == -found.pair(name).difference


def test_scores_are_over_all_samples_together():
    data = table()
    found = quick(data, seeds=1)
    errors = [run["mae"] for run in found.row("ridge").runs]  # of folds of one size
    assert found.row("ridge").mae == pytest.approx(np.mean(errors), rel=1e-12)
    assert found.row("ridge").mse == pytest.approx(np.mean([run["mse"] for run in found.row("ridge").runs]), rel=1e-12)
    low, high = found.row("ridge").folds
    assert (low, high) == (
        min(r["pcc"] for r in found.row("ridge").runs),
        max(r["pcc"] for r in found.row("ridge").runs),
    )


def test_time_is_ordered_and_resampled_in_blocks(tmp_path):
    data = table(time=np.arange(60.0)[::-1])
    found = quick(data, output=tmp_path)
    assert (found.setup["resampled"], found.setup["samples"], found.setup["units"]) == ("time blocks", 45, 6)
    tested = set(pd.read_csv(tmp_path / "out_of_fold.csv")["id"])
    assert tested == set(data.ids[:45])  # the earliest stretch is nobody's test part
    assert any("time-ordered" in note for note in found.notes)


def test_several_targets_and_weights(tmp_path):
    data = table(targets=2, weight=np.linspace(0.0, 1.0, 60))
    wide = dataclasses.replace(data, target=data.target * [1.0, 1e6])
    found = quick(wide, output=tmp_path)
    assert list(pd.read_csv(tmp_path / "out_of_fold.csv"))[-2:] == ["neighbours:y0", "neighbours:y1"]
    assert found.row("ridge").mse < 0.1  # of the variance, whatever the unit
    assert {"several", "weights"} <= {note.split()[0] for note in found.notes}


def test_a_fingerprint_sees_every_part_and_the_pool_every_fold():
    split = Split(np.arange(4), np.arange(4, 6), np.arange(6, 8))
    matrix, target = np.ones((8, 2)), np.ones((8, 1))
    marks = {
        fingerprint(*split, matrix, target, None),
        fingerprint(*split._replace(test=np.array([6])), matrix, target, None),
        fingerprint(*split, 2 * matrix, target, None),
        fingerprint(*split, matrix, 2 * target, None),
        fingerprint(*split, matrix, target, np.ones(8)),
    }
    assert len(marks) == 5
    data = table(8)
    pool = OutOfFold(data, [Entrant("ridge", "ridge", None)], {3: [split, split._replace(test=np.array([0, 1]))]})
    assert pool.fold[0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert len(pool.index) == 0
