"""predict: the numbers of the run again, what does not fit, and that nothing in a file is ever run."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from application.samples import TINY, Poison, content, leaves_of, table
from excora.application import Run, fit, predict
from excora.data.preparation import Preparation
from excora.errors import ExcoraError, InputError


def test_predicting_the_same_rows_gives_the_same_numbers(home):
    frame = pd.read_csv(home / "run" / "predictions.csv").set_index("id")
    found = predict(home / "run", home / "data.csv").frame.astype({"id": int}).set_index("id").loc[frame.index]
    for name in ("prediction:y", "prediction:z", "outside"):
        assert found[name].to_numpy() == pytest.approx(frame[name].to_numpy(), rel=1e-5, abs=1e-5)


def test_columns_that_do_not_fit_are_named(home, tmp_path):
    table().drop(columns=["a", "colour"]).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(ExcoraError, match=r"'a' is missing(.|\n)*'colour' is missing"):
        predict(home / "run", tmp_path / "new.csv")


def test_what_training_has_not_seen_is_counted(home, tmp_path):
    new = table(10).drop(columns=["y", "z", "slide"]).assign(extra=1.0)
    new.loc[:2, "colour"] = "green"
    new.loc[5, "a"] = 1e6
    new.to_csv(tmp_path / "new.csv", index=False)
    found = predict(home / "run", tmp_path / "new.csv", attention=True)
    assert found.frame["outside"].tolist() == [0] * 5 + [1] + [0] * 4
    assert any("'colour': 3 cells" in note for note in found.notes)
    assert any("'extra' is ignored" in note for note in found.notes)
    assert any("samples with inputs far outside the training range: 1" in note for note in found.notes)
    found.save(tmp_path / "out.csv", tmp_path / "attention.parquet")
    assert pd.read_csv(tmp_path / "out.csv", float_precision="round_trip").astype({"id": str}).equals(found.frame)
    assert len(pd.read_parquet(tmp_path / "attention.parquet")) == 10 * 4
    assert json.loads(json.dumps(found.to_dict()))["predictions"]["outside"][5] == 1
    with pytest.raises(InputError, match=r"\.csv or \.parquet, got '\.xlsx'"):
        found.save(tmp_path / "out.xlsx")
    with pytest.raises(InputError, match=r"out\.csv: cannot be written"):
        found.save("/proc/nowhere/out.csv")
    with pytest.raises(InputError, match="no attention to write"):
        predict(home / "run", tmp_path / "new.csv").save(tmp_path / "other.csv", tmp_path / "attention.csv")


def test_memory_is_bounded_by_the_setting_and_changes_nothing(home):
    run = Run.load(home / "run")
    small = dataclasses.replace(run, setup=run.setup.settings().replace(max_elements=9).settled("table", 54))
    whole, pieces = (predict(one, home / "data.csv").frame["prediction:y"].to_numpy() for one in (run, small))
    assert pieces == pytest.approx(whole, rel=1e-4, abs=1e-4)


def test_bags_in_files_train_and_predict(tmp_path):
    generator = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    bags = {f"s{k}": generator.normal(size=(generator.integers(1, 6), 3)).astype(np.float32) for k in range(24)}
    for name, bag in bags.items():
        np.savez(tmp_path / "features" / f"{name}.npz", features=bag)
    labels = pd.DataFrame({"slide": list(bags), "y": [float(bag[:, 0].mean()) for bag in bags.values()]})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    run = fit(
        tmp_path / "features", target="y", labels=tmp_path / "labels.csv", output=tmp_path / "run",
        settings=TINY.replace(pool="gated"), progress=False,
    )  # fmt: skip
    assert content(run.path, "attention.json")["pools"]["pool"]["gamma"] == []
    found = predict(run.path, tmp_path / "features", attention=True)
    assert found.frame["id"].tolist() == sorted(bags)
    assert len(found.attention) == sum(map(len, bags.values()))
    assert found.attention["weight"].to_numpy() == pytest.approx(found.attention["effective"].to_numpy(), abs=1e-6)
    labels.head(3).to_csv(tmp_path / "three.csv", index=False)
    assert predict(run, tmp_path / "features", labels=tmp_path / "three.csv").frame["id"].tolist() == ["s0", "s1", "s2"]


@pytest.mark.parametrize("name", ["new.npz", "new.h5", "new.csv", "new.parquet", "new.safetensors"])
def test_poisoned_data_never_run(home, tmp_path, name):
    canary = tmp_path / "canary"
    (tmp_path / name).write_bytes(pickle.dumps(Poison(canary)))
    folder = tmp_path / "bags"
    folder.mkdir()
    shutil.copy(tmp_path / name, folder)
    objects = tmp_path / "objects.npz"
    np.savez(objects, values=np.array([Poison(canary)], object), lengths=np.array([1]))
    for path in (tmp_path / name, folder, objects):
        with pytest.raises(ExcoraError):
            predict(home / "run", path)
    assert not canary.exists()


@given(place=st.integers(0, 10_000), value=st.sampled_from([None, -1, 1e400, "x", [], {}, [[]], True]))
def test_any_wrong_value_in_the_preparation_is_an_error_or_harmless(home, place, value):
    """Every leaf of the JSON in turn is replaced by something else: ExcoraError, or predictions still come out."""
    run = Run.load(home / "run")
    prepared = json.loads(json.dumps(run.preparation.to_dict()))
    leaves = list(leaves_of(prepared))
    owner, key = leaves[place % len(leaves)]
    owner[key] = value
    try:
        preparation = Preparation.from_dict(prepared)
        if preparation.spec == run.preparation.spec:
            found = predict(dataclasses.replace(run, preparation=preparation), home / "data.csv")
            assert len(found.frame) == 90
    except ExcoraError:
        pass


def test_targets_in_the_data_are_carried_over_and_scored(home, tmp_path):
    new = table(40).tail(30)
    new.loc[new.index[:5], "y"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    found = predict(home / "run", tmp_path / "new.csv")
    assert list(found.frame) == ["id", "target:y", "target:z", "prediction:y", "prediction:z", "outside"]
    np.testing.assert_allclose(found.frame["target:y"], new["y"])
    known = found.frame.dropna()
    assert found.scores["y"]["pcc"] == pytest.approx(np.corrcoef(known["target:y"], known["prediction:y"])[0, 1])
    assert found.scores["y"]["mse"] == pytest.approx(np.mean((known["target:y"] - known["prediction:y"]) ** 2))
    assert found.to_dict()["scores"]["z"]["mae"] == found.scores["z"]["mae"]
    text = io.StringIO()
    Console(file=text, width=200).print(found)
    assert f"{found.scores['y']['pcc']:.3f}" in text.getvalue()
    assert not any("no test" in note for note in found.notes)
    again = predict(home / "run", home / "data.csv").notes
    assert any("trained on this file: its scores here are no test" in note for note in again)
    new.drop(columns="z").to_csv(tmp_path / "new.csv", index=False)
    assert predict(home / "run", tmp_path / "new.csv").scores == {}


def test_a_file_that_is_there_is_kept_unless_told(home, tmp_path):
    found = predict(home / "run", home / "data.csv")
    (tmp_path / "out.csv").write_text("precious")
    with pytest.raises(InputError, match=r"out\.csv: this file is there already; give another name, or say overwrite="):
        found.save(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "precious"
    found.save(tmp_path / "out.csv", overwrite=True)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 90


def test_text_may_be_written_otherwise_than_in_training(home, tmp_path):
    new = table(10).drop(columns=["y", "z", "slide"])
    new.to_csv(tmp_path / "a.csv", index=False)
    new.to_csv(tmp_path / "b.csv", index=False, sep="!", decimal=",", encoding="utf-16")
    same = predict(home / "run", tmp_path / "a.csv").frame["prediction:y"]
    told = predict(home / "run", tmp_path / "b.csv", sep="!", decimal=",", encoding="utf-16")
    np.testing.assert_array_equal(told.frame["prediction:y"], same)
