"""compare: one table of models on the same folds, resumable, and what it says about them."""

from __future__ import annotations

import dataclasses
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from excora.application import compare
from excora.comparison import Comparison, core, runs
from excora.comparison.analysis import OutOfFold
from excora.comparison.entrants import Entrant, entrants
from excora.comparison.progress import Clock, watch
from excora.comparison.records import Store
from excora.comparison.result import Headline, Pair, conclude
from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.data.table import Table
from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.settings import Settings
from excora.storage import fingerprint

PEERS = ("ridge", "neighbours")
LABELS = {"eca": "ECA (ours)", "softmax": "softmax", "mean": "mean", "ridge": "ridge"}
QUICK = Settings(model="pool", epochs=2, dim=8, heads=2, batch_size=16)


def table(n: int = 60, *, targets: int = 1, seed: int = 0, **roles) -> Dataset:
    """A linear target with little noise: ridge is far ahead of neighbours."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 3))
    target = x @ generator.normal(size=(3, targets)) + 0.1 * generator.normal(size=(n, targets))
    names = ("y",) if targets == 1 else tuple(f"y{k}" for k in range(targets))
    ids = np.array([f"s{k}" for k in range(n)], object)
    return Dataset(ids, names, target, Table(pd.DataFrame(x, columns=list("abc"))), **roles)


def quick(data: Dataset, **options) -> Comparison:
    return compare(data, **{"models": PEERS, "folds": 3, "seeds": 2, "progress": False} | options)


def test_networks_and_peers_side_by_side(tmp_path, capsys):
    data = table(40)
    path = tmp_path / "data.csv"
    data.content.frame.assign(y=data.target).to_csv(path, index=False)
    models = ("softmax", "eca", "ridge")
    found = compare(path, target="y", models=models, folds=2, seeds=1, settings=QUICK, output=tmp_path / "out")
    assert [row.model for row in found.rows] == list(models)
    assert [row.label for row in found.rows] == ["softmax", "ECA (ours)", "ridge"]
    assert [(pair.model, pair.against) for pair in found.pairs] == [
        ("eca", "softmax"), ("ridge", "softmax"), ("eca", "ridge"),
    ]  # fmt: skip
    assert found.best == "ridge"
    assert found.sentence.startswith(("ECA (ours) and softmax cannot", "ECA (ours) is"))
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
    assert found.row("ridge").pooled_pcc == pytest.approx(mean, abs=1e-12)


def test_rows_are_means_over_runs_and_pairs_conclude():
    found = quick(table())
    row = found.row("ridge")
    values = [run["pcc"] for run in row.runs]
    assert [(run["seed"], run["fold"]) for run in row.runs] == [(s, f) for s in (0, 1) for f in (0, 1, 2)]
    assert (row.pcc, row.pcc_sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert (found.reference, found.best, found.headline.better_than) == ("ridge", "ridge", ["neighbours"])
    pair = found.pair("neighbours")
    assert pair.difference == pytest.approx(found.row("neighbours").pooled_pcc - row.pooled_pcc)
    assert pair.low < pair.difference < pair.high < 0
    assert (pair.verdict, pair.mse_verdict) == ("worse", "worse")
    assert found.sentence == (
        f"ridge has the highest PCC over all samples ({row.pooled_pcc:.3f}) and is better than the other, by intervals "
        f"that hold for all pairs of the 2 models at once."
    )
    assert list(found.frame()["verdict"]) == [None, "worse"]


def test_a_seed_changes_folds_and_starts_and_the_same_seed_nothing():
    first, again, other = (quick(table(), settings=Settings(seed=seed)) for seed in (0, 0, 5))
    scores = [[run["mse"] for run in found.row("ridge").runs] for found in (first, again, other)]
    assert scores[0] == scores[1]
    assert not set(scores[0]) & set(scores[2])
    assert [run["seed"] for run in other.row("ridge").runs] == [5, 5, 5, 6, 6, 6]


def test_groups_stay_whole_and_are_resampled_whole():
    data = table(group=np.array([f"g{k % 6}" for k in range(60)], object))
    found = quick(data)
    assert (found.setup["resampled"], found.setup["units"]) == ("groups", 6)
    assert any("only 6 groups" in note for note in found.notes)


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


def test_any_model_with_any_pool_and_any_peer_can_be_asked_for():
    settings = Settings(epochs=1, dim=8, heads=2, neighbours=5)
    names = [
        "ft-transformer",
        "ft-transformer:softmax",
        "retrieval:mean",
        "pool:gated",
        "eca",
        "extratrees",
        "peer:mean",
    ]
    who, _ = entrants(names, settings, "table")
    asked = [None if one.settings is None else (one.settings.model, one.settings.named.get("pool")) for one in who]
    assert asked == [("ft-transformer", None), ("ft-transformer", "softmax"), ("retrieval", "mean"), ("pool", "gated"),
                     ("ft-transformer", "eca"), None, None]  # fmt: skip
    assert who[2].settings.named["neighbours"] == 5  # what a model knows is handed on to it
    assert "neighbours" not in who[0].settings.named
    assert [one.peer for one in who][-2:] == ["extratrees", "mean"]
    with pytest.raises(InputError, match="the pools of model 'ft-transformer' are softmax, eca-paper, eca"):
        entrants(["ft-transformer:mean"], settings, "table")
    found = quick(table(), models=names[1:3], seeds=1, settings=settings)
    assert [row.label for row in found.rows] == ["ft-transformer, softmax", "retrieval, mean"]


# Interrupted, resumed, refused.


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": Settings(criterion="mse")}, "criterion was 'joint' and is 'mse'"),
        ({"folds": 2}, "the data, their roles or the number of folds"),
        ({"data": table(seed=1)}, "the data, their roles"),
    ],
    ids=["settings", "folds", "data"],
)
def test_other_runs_are_not_taken_for_these(tmp_path, change, message):
    quick(table(), output=tmp_path, seeds=1)
    with pytest.raises(InputError, match=message):
        quick(**{"data": table()} | change, output=tmp_path, seeds=1, resume=True)


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b"[" * 100_000, b'{"settings": 3}']))
def test_a_broken_run_file_is_named(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("broken")
    store = Store(folder, resume=True)
    path = store.parts.path("ridge-0-0")
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"ridge-0-0\.json"):
        store.load("ridge", 0, 0, "mark", (3, 1), {})


def test_a_run_file_with_other_predictions_is_refused(tmp_path):
    quick(table(), output=tmp_path, seeds=1)
    path = tmp_path / "runs" / "ridge-0-0.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"prediction": content["prediction"][1:]}))
    with pytest.raises(InputError, match="must hold 20 x 1 finite predictions"):
        quick(table(), output=tmp_path, seeds=1, resume=True)


def test_arguments_that_cannot_be_are_refused(tmp_path):
    data = table()
    for options, message in [
        ({"models": ["ridge", "forest"]}, "models must be some of .*ridge.*, got 'forest'"),
        ({"models": []}, "got none"),
        ({"seeds": 0}, "seeds must be at least 1"),
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


def test_a_missing_lightgbm_is_left_out_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    who, notes = entrants(None, QUICK, "table")
    assert [one.name for one in who] == ["mean", "softmax", "gated", "eca-paper", "eca", "ridge", "neighbours"]
    assert notes == [
        "LightGBM is left out: 'lightgbm' is needed here and is not installed: pip install 'excora[compare]'"
    ]
    with pytest.raises(MissingExtraError, match="compare"):
        quick(table(), models=("ridge", "lightgbm"))


def test_a_network_that_diverges_does_not_end_the_comparison(monkeypatch):
    def diverge(*_, **__):
        raise ExcoraError("training diverged in its first epoch")

    monkeypatch.setattr(runs, "train", diverge)
    found = quick(table(), models=("softmax", "ridge"))
    assert found.row("softmax").pcc is None
    assert (found.best, found.pair("ridge").verdict) == ("ridge", "better")
    assert any(note.startswith("softmax: training diverged in 6 runs") for note in found.notes)
    assert "undefined" in str(found)


def test_another_error_of_training_is_not_taken_for_divergence(monkeypatch):
    def refuse(*_, **__):
        raise InputError("no")

    monkeypatch.setattr(runs, "train", refuse)
    with pytest.raises(InputError, match="no"):
        quick(table(), models=("softmax",))


# What it says.


def test_it_prints_whole_lines_to_a_file_and_a_table_to_a_terminal():
    found = quick(table())
    file = io.StringIO()
    Console(file=file, width=40).print(found, soft_wrap=True)
    assert file.getvalue() == f"{found}\n"
    header, *rows = file.getvalue().splitlines()[:3]
    assert header.split("  ")[0] == "model"
    assert [row[header.index("verdict") :] for row in rows] == ["reference", "worse"]
    terminal = io.StringIO()
    Console(file=terminal, width=120, force_terminal=True, color_system="standard").print(found)
    assert "\x1b[31mworse" in terminal.getvalue()


def pair(difference: float, low: float, high: float, verdict: str) -> Pair:
    return Pair(model="eca", against="softmax", difference=difference, low=low, high=high, verdict=verdict,
                mse_difference=0.0, mse_low=0.0, mse_high=0.0, mse_verdict="no difference")  # fmt: skip


def test_the_sentence_is_plain_about_noise():
    tied = Headline(best="eca", better_than=["ridge"], tied_with=["mean", "softmax"])
    assert conclude(LABELS, pair(0.003, -0.004, 0.010, "no difference"), tied, 0.8) == (
        "ECA (ours) and softmax cannot be told apart here: PCC differs by +0.003, 95 % interval -0.004 to +0.010. "
        "ECA (ours) has the highest PCC over all samples (0.800), but cannot be told apart from mean and softmax, by "
        "intervals that hold for all pairs of the 4 models at once."
    )
    won = Headline(best="eca", better_than=["ridge", "softmax"], tied_with=[])
    assert conclude(LABELS, pair(-0.1, -0.2, -0.05, "worse"), won, 0.8) == (
        "ECA (ours) is worse than softmax here: PCC differs by -0.100, 95 % interval -0.200 to -0.050. ECA (ours) has "
        "the highest PCC over all samples (0.800) and is better than all 2 others, by intervals that hold for all "
        "pairs of the 3 models at once."
    )
    alone = Headline(best="ridge", better_than=[], tied_with=[])
    assert conclude(LABELS, None, alone, 0.5) == "ridge has a PCC of 0.500 over all samples."


def test_time_left_is_shown_on_a_terminal_and_in_lines():
    jobs = [(0, fold, model) for fold in (0, 1) for model in ("a", "b")]
    file = io.StringIO()
    with watch(jobs, Console(file=file, width=80)) as finish:
        for job in jobs:
            finish(job, 30.0)
    assert file.getvalue() == "seed 0, fold 0: 2 of 4 runs, about 60 s left\nseed 0, fold 1: 4 of 4 runs, done\n"
    file = io.StringIO()
    with watch(jobs, Console(file=file, width=80, force_terminal=True)) as finish:
        for job in jobs:
            finish(job, None)
    assert "4/4" in file.getvalue()
    assert Clock(jobs).left is None


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
