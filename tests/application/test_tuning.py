"""tune: an ensemble from a table, its folder, and its predictions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from excora import predict
from excora.application.tuning import Tuned, tune
from excora.data.dataset import Dataset
from excora.errors import InputError
from excora.estimators import TabularEnsemble

QUICK = {"members": 1, "trials": 1, "epochs": 2, "progress": False}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "t.csv"
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(np.arange(60) == 3, np.nan, 4 + x @ [2.0, -1.0])
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y, "patient": np.arange(60) // 3}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def found(table):
    return tune(table, target="y", group="patient", output=table.with_name("tuned"), **QUICK)


def test_the_test_part_is_held_out_by_group_and_scored(found, table):
    part = pd.read_csv(found.path / "predictions.csv")
    counts = found.results["counts"]
    assert counts["train"] + counts["test"] == 59 == 60 - 1  # a row has no label
    assert len(part) == counts["test"]
    assert found.results["notes"] == ["1 of 60 rows has no label and is left out"]
    pcc = np.corrcoef(part["target"], part["prediction"])[0, 1]
    assert found.results["test"]["y"]["pcc"] == pytest.approx(pcc, rel=1e-9)
    whole = pd.read_csv(table).dropna()["patient"].value_counts()
    assert all(count == whole[int(group)] for group, count in part["group"].value_counts().items())


def test_predict_reads_the_folder(found, table):
    again = predict(found.path, table)
    assert again.frame.columns.tolist() == ["id", "prediction"]
    part = pd.read_csv(found.path / "predictions.csv", dtype={"id": str}).set_index("id")
    mine = again.frame.assign(id=again.frame["id"].astype(str)).set_index("id").loc[part.index]
    np.testing.assert_allclose(mine["prediction"], part["prediction"], rtol=1e-12)
    assert (predict(found, table).frame["prediction"] == again.frame["prediction"]).all()
    assert isinstance(Tuned.load(found.path).ensemble, TabularEnsemble)
    assert Tuned.load(found.path).results == found.results
    with pytest.raises(InputError, match="no attention to write"):
        predict(found.path, table, attention=True)


def test_columns_that_are_missing_are_named(found, table, tmp_path):
    pd.read_csv(table).drop(columns="b").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(InputError, match="lack the columns 'b'"):
        predict(found.path, tmp_path / "less.csv")


def test_what_it_cannot_read_is_refused(table, tmp_path):
    with pytest.raises(InputError, match="does not know --weight"):
        tune(table, target="y", weight="patient", output=tmp_path / "w", **QUICK)
    with pytest.raises(InputError, match="reads labelled tables, one row a sample, got bags"):
        tune(table, target="y", bag="a", output=tmp_path / "b", **QUICK)
    with pytest.raises(InputError, match="not empty"):
        tune(table, target="y", output=table.parent, **QUICK)
    with pytest.raises(InputError, match="trials must be a whole number"):
        tune(table, target="y", output=tmp_path / "t", **QUICK | {"trials": 0})


def test_a_stopped_one_leaves_no_ensemble(table, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(TabularEnsemble, "_fitted", stop)
    with pytest.raises(KeyboardInterrupt):
        tune(table, target="y", output=tmp_path / "run", **QUICK)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["state"] == "interrupted"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.json"]


def test_there_is_nothing_to_predict_in_no_samples(found):
    empty = Dataset(np.empty(0, object), (), None)
    with pytest.raises(InputError, match="no samples"):
        predict(found, empty)


def test_the_report_has_trials_and_scores_and_the_command(found):
    page = (found.path / "report.html").read_text("utf-8")
    for words in ("Settings that were tried", "Test PCC", "How to run it again"):
        assert words in page
    for words in ("excora tune", "--target y", "--group patient", "--epochs 2", "--output NEW"):
        assert words in found.config["rerun"]
    assert not (found.path / "fits").exists()


def test_a_stopped_one_goes_on_to_the_same_ensemble(table, tmp_path, monkeypatch):
    options = {"target": "y", "members": 2, "trials": 2, "epochs": 2, "progress": False}
    whole = tune(table, output=tmp_path / "whole", **options)
    fit, fits = TabularEnsemble._fitted, []

    def two(*given):
        if len(fits) == 2:
            raise KeyboardInterrupt
        fits.append(given)
        return fit(*given)

    with monkeypatch.context() as patch:
        patch.setattr(TabularEnsemble, "_fitted", two)
        with pytest.raises(KeyboardInterrupt):
            tune(table, output=tmp_path / "run", **options)
    with pytest.raises(InputError, match="other data or options"):
        tune(table, output=tmp_path / "run", resume=True, **options | {"epochs": 3})
    fits.clear()
    monkeypatch.setattr(TabularEnsemble, "_fitted", lambda *given: fits.append(given) or fit(*given))
    again = tune(table, output=tmp_path / "run", resume=True, **options)
    assert len(fits) == 4  # of the six: a second seed of the best, two members and the default
    assert [one["mse"] for one in again.results["trials"]] == [one["mse"] for one in whole.results["trials"]]
    assert again.results["test"] == whole.results["test"]
    done = tune(table, output=tmp_path / "run", resume=True, **options)
    assert done.results == again.results
