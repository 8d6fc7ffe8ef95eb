"""The parts of a record."""

from __future__ import annotations

import dataclasses
import math

import pytest

from excora.errors import InputError
from excora.report import write_report
from excora.report.parts import Config, Predictions, Results, Score
from report.samples import write_run


def test_a_missing_column_is_named(tmp_path):
    write_run(tmp_path, samples=60)
    path = tmp_path / "predictions.csv"
    path.write_text(path.read_text().replace("prediction", "guess", 1))
    with pytest.raises(InputError, match="'prediction' is missing"):
        write_report(tmp_path)


def config(**settings):
    return Config(excora="0.1", rerun="", state="finished", data={}, settings=settings, environment={})


def test_a_setting_is_found_wherever_it_stands():
    found = config(model="pool", recipe={"seed": 3, "model": "hidden"}, machine={"devices": 1})
    assert [found.setting(name) for name in ("model", "seed", "devices", "pool")] == ["pool", 3, 1, None]


def test_without_test_scores_those_of_validation_count():
    score = Score(pcc=0.5, mse=1.0, mae=1.0)
    one = Results(best_epoch=None, epochs=1, counts={}, validation={"y": score}, test={})
    assert (one.part, one.scores) == ("validation", {"y": score})
    assert dataclasses.replace(one, test={"z": score}).scores == {"z": score}


def test_predictions_of_one_target_take_its_name_and_draw_what_has_both_numbers():
    columns = {
        "id": [1, 2, 3],
        "part": ["test"] * 3,
        "target": [1.0, math.nan, 3.0],
        "prediction": [1.0, 2.0, math.inf],
    }
    found = Predictions.of(columns, ["y"])
    assert found.ids == ["1", "2", "3"]
    assert found.drawable("y").tolist() == [True, False, False]
    assert list(Predictions.of(columns, ["y", "z"]).target) == ["target"]  # which of them is not known
    with pytest.raises(InputError, match="column 'part' must hold 'validation' or 'test', got 'train'"):
        Predictions.of(columns | {"part": ["test", "train", "test"]}, ["y"])
