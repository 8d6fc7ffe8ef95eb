"""compare: one table of models on the same folds, resumable."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from comparison.samples import QUICK, quick, table
from excora.application import compare
from excora.comparison import core, runs
from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.errors import InputError
from excora.settings import Settings


def test_networks_and_peers_side_by_side(tmp_path, capsys):
    data = table(40)
    path = tmp_path / "data.csv"
    data.content.frame.assign(y=data.target).to_csv(path, index=False)
    models = ("softmax", "eca", "ridge")
    found = compare(path, target="y", models=models, folds=2, seeds=1, settings=QUICK, output=tmp_path / "out")
    assert {row.model: row.label for row in found.rows} == dict(
        zip(models, ["softmax", "ECA (ours)", "ridge"], strict=True)
    )
    assert len(found.pairs) == 3
    assert found.best == found.rows[0].model == max(found.rows, key=lambda row: row.pcc).model
    assert found.sentence.startswith(f"{found.rows[0].label} has the highest PCC")
    assert "ECA (ours)" in found.sentence
    assert all(run["details"]["epochs"] == 2 for run in found.row("eca").runs)
    stored = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert stored == found.to_dict()
    assert stored["rerun"] == (
        f"excora compare {path} --target y --models softmax,eca,ridge --folds 2 --seeds 1 --model pool "
        f"--epochs 2 --dim 8 --heads 2 --batch-size 16 --output {tmp_path / 'out'}"
    )
    assert "ECA (ours)" in (tmp_path / "out" / "report.html").read_text()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == "seed 0, fold 1: 6 of 6 runs, done"


def test_every_run_had_the_same_material_and_every_sample_one_prediction_a_seed(tmp_path):
    data = table()
    found = quick(data, output=tmp_path)
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "runs").glob("*.json"))]
    marks: dict[tuple[int, int], set[str]] = {}
    for record in records:
        marks.setdefault((record["seed"], record["fold"]), set()).add(record["fingerprint"])
    assert len(marks) == 6
    assert all(len(same) == 1 for same in marks.values())
    assert len(set().union(*marks.values())) == 6
    frame = pd.read_csv(tmp_path / "out_of_fold.csv")
    assert list(frame) == ["id", "seed", "target", "ridge", "neighbours"]
    assert frame.groupby("seed")["id"].apply(sorted).tolist() == [sorted(data.ids)] * 2
    first = frame[frame["seed"] == 0]
    np.testing.assert_allclose(first["target"], data.target[:, 0], rtol=1e-12)
    mean = np.mean([np.corrcoef(part["ridge"], part["target"])[0, 1] for _, part in frame.groupby("seed")])
    assert found.row("ridge").pcc == pytest.approx(mean, abs=1e-12)


def test_a_seed_changes_folds_and_starts_and_the_same_seed_nothing():
    first, again, other = (quick(table(), settings=Settings(seed=seed)) for seed in (0, 0, 5))
    scores = [[run["mse"] for run in found.row("ridge").runs] for found in (first, again, other)]
    assert scores[0] == scores[1]
    assert not set(scores[0]) & set(scores[2])
    assert [run["seed"] for run in other.row("ridge").runs] == [5, 5, 5, 6, 6, 6]


def test_bags_are_compared_by_their_summaries():
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 6, 24)
    values = generator.normal(size=(lengths.sum(), 2)).astype(np.float32)
    bag = np.repeat(np.arange(24), lengths)
    target = np.array([[values[bag == k, 0].mean()] for k in range(24)])
    data = Dataset(np.arange(24).astype(str).astype(object), ("y",), target, BagSet(ArrayBags(values, lengths)))
    found = compare(data, models=("eca-paper", "ridge"), folds=2, seeds=1, settings=QUICK, progress=False)
    assert found.row("ridge").pcc > 0.9
    assert found.row("eca-paper").seconds > 0
    assert any("one seed" in note for note in found.notes)


def test_unknown_labels_are_masked():
    data = table(targets=2)
    target = data.target.copy()
    target[::4, 1] = np.nan
    found = quick(dataclasses.replace(data, target=target), models=("pool:softmax", "ridge"), settings=QUICK, seeds=1)
    assert found.row("ridge").pcc > 0.95
    assert np.isfinite([row.mse for row in found.rows]).all()


def counted(monkeypatch, stop_after: int | None = None) -> list[str]:
    """Names of the models that run, until Ctrl-C."""
    names: list[str] = []

    def run(model, *rest):
        if len(names) == stop_after:
            raise KeyboardInterrupt
        names.append(model.name)
        return runs.run(model, *rest)

    monkeypatch.setattr(core, "run", run)
    return names


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        assert counted(patch, 4) == []
        with pytest.raises(KeyboardInterrupt):
            quick(table(), models=["ridge"], output=tmp_path / "a", progress=True)
    assert f"stopped: 4 of 6 runs are in {tmp_path / 'a' / 'runs'}; the same call" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"holds the runs .* go on with them \(--resume"):
        quick(table(), models=["ridge"], output=tmp_path / "a")
    names = counted(monkeypatch)
    found = quick(table(), models=["ridge"], output=tmp_path / "a", resume=True)
    assert names == ["ridge"] * 2
    whole = quick(table(), models=["ridge"])
    assert [run["mse"] for run in found.rows[0].runs] == [run["mse"] for run in whole.rows[0].runs]
    names.clear()
    more = quick(table(), output=tmp_path / "a", resume=True, seeds=3)
    assert sorted(names) == ["neighbours"] * 9 + ["ridge"] * 3
    assert more.row("ridge").runs[:6] == found.row("ridge").runs


def test_arguments_that_cannot_be_are_refused(tmp_path):
    data = table()
    for options, message in [
        ({"models": ["ridge", "forest"]}, "models must be some of .*ridge.*, got 'forest'"),
        ({"models": []}, "got none"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"margin": 0.0}, "margin must be a difference in PCC above 0"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"target": "other"}, "a Dataset has its target"),
        ({"group": "g"}, "a Dataset has its target"),
        ({"resume": True}, "give output as well"),
        ({"settings": Settings(devices=2)}, "one device, got 2"),
    ]:
        with pytest.raises(InputError, match=message):
            quick(data, **options)
    with pytest.raises(InputError, match="no target"):
        quick(data.without_target())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        quick(data, output=tmp_path / "file" / "out")
