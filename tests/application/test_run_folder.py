"""fit, predict and the run folder: what is in it, what is refused, and that nothing in it is ever run."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from excora.application import Run, fit, predict
from excora.application.folder import ROOM, check_room
from excora.data.preparation import Preparation
from excora.errors import ExcoraError, InputError
from excora.report import write_report
from excora.settings import Settings, Setup
from excora.training.evaluation import answers

TINY = Settings(model="pool", dim=8, epochs=2, batch_size=16, learning_rate=0.01)
ROLES = {"target": ["y", "z"], "group": "slide", "drop": "comment"}
COPIED = ("config.json", "preparation.json", "weights.safetensors", "results.json", "metrics.csv", "monitor.json",
          "predictions.csv", "attention.json")  # fmt: skip


def table(rows: int = 90) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x, colour = generator.normal(size=(rows, 3)), generator.choice(["red", "blue"], rows)
    y = x[:, 0] + np.sin(x[:, 1]) + (colour == "red")
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(colour=colour, comment="none", y=y, z=10 * y + x[:, 2])
    frame.loc[3, "b"] = np.nan
    return frame.assign(slide=[f"s{k % 12}" for k in range(rows)])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with data.csv and the run that was fitted on it."""
    folder = tmp_path_factory.mktemp("home")
    table().to_csv(folder / "data.csv", index=False)
    fit(folder / "data.csv", output=folder / "run", settings=TINY, progress=False, **ROLES)
    return folder


@pytest.fixture
def copy(home, tmp_path) -> Path:
    """The run folder without its report, to be spoilt."""
    for name in COPIED:
        shutil.copy(home / "run" / name, tmp_path)
    shutil.copytree(home / "run" / "checkpoints", tmp_path / "checkpoints")
    return tmp_path


def content(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text())


# What is in it.


def test_the_results_are_those_of_the_predictions(home):
    frame, results = pd.read_csv(home / "run" / "predictions.csv"), content(home / "run", "results.json")
    assert list(frame) == ["id", "part", "group", "target:y", "target:z", "prediction:y", "prediction:z", "outside"]
    for part in ("validation", "test"):
        rows = frame[frame["part"] == part]
        assert len(rows) == results["counts"][part]
        for name in ("y", "z"):
            truth, guess = rows[f"target:{name}"], rows[f"prediction:{name}"]
            score = results[part][name]
            assert score["pcc"] == pytest.approx(np.corrcoef(truth, guess)[0, 1], abs=1e-9)
            assert score["mse"] == pytest.approx(np.mean((truth - guess) ** 2))
            assert score["mae"] == pytest.approx(np.mean(np.abs(truth - guess)))
            assert ("low" in score) == (part == "test")
    test = frame[frame["part"] == "test"]
    assert not set(test["group"]) & set(frame[frame["part"] == "validation"]["group"])
    for group in results["groups"]["test"]:
        rows = test[test["group"] == group["group"]]
        errors = rows[["target:y", "target:z"]].to_numpy() - rows[["prediction:y", "prediction:z"]].to_numpy()
        assert group["n"] == len(rows)
        assert group["mse"] == pytest.approx(np.mean(errors**2))
    assert results["stopped"] == "epochs"
    assert results["verdict"]["name"] == "cannot tell"


def test_predicting_the_same_rows_gives_the_same_numbers(home):
    frame = pd.read_csv(home / "run" / "predictions.csv").set_index("id")
    found = predict(home / "run", home / "data.csv").frame.astype({"id": int}).set_index("id").loc[frame.index]
    for name in ("prediction:y", "prediction:z", "outside"):
        assert found[name].to_numpy() == pytest.approx(frame[name].to_numpy(), rel=1e-5, abs=1e-5)


def test_the_configuration_names_everything(home):
    config, results = content(home / "run", "config.json"), content(home / "run", "results.json")
    assert config["state"] == "finished"
    assert Setup.from_dict(config["settings"]) == TINY.settled("table", 54)
    assert config["data"]["target"] == ["y", "z"]
    assert config["split"] == {"validation": 0.2, "test": 0.2}
    assert set(config["settings"]) == {"model", "options", "recipe", "machine"}
    assert {"python", "torch", "lightning", "numpy", "platform"} <= set(config["environment"])
    assert config["rerun"].startswith(f"excora fit {home / 'data.csv'} --target y --target z --group slide")
    assert "--dim 8" in config["rerun"]
    assert (home / "run" / "report.html").stat().st_size > 10_000
    assert len((home / "run" / "metrics.csv").read_text().splitlines()) == 1 + results["epochs"]


def test_attention_is_that_of_the_network(home):
    run, attention = Run.load(home / "run"), content(home / "run", "attention.json")["pools"]["pool"]
    assert len(attention["gamma"]) == len(attention["elements"]) == run.results["counts"]["test"]
    assert set(attention["elements"]) == {4}
    for bag in attention["bags"]:
        assert {top["label"] for top in bag["top"]} == {"a", "b", "c", "colour"}
        assert sum(top["weight"] for top in bag["top"]) == pytest.approx(1, abs=1e-5)
        for top in bag["top"]:
            effective = (1 - bag["gamma"]) / 4 + bag["gamma"] * top["weight"]
            assert top["effective"] == pytest.approx(effective, abs=1e-6)
    found = predict(run, home / "data.csv", attention=True)
    first = found.attention[found.attention["id"] == attention["bags"][0]["id"]].set_index("element")
    for top in attention["bags"][0]["top"]:
        assert first.loc[top["label"], "effective"] == pytest.approx(top["effective"], abs=1e-5)


def test_the_effective_number_of_elements(home):
    bag = next(iter(_answers(home))).attention["pool"]
    entropy = -(bag.weight * np.log(bag.weight)).sum()
    assert bag.effective_elements == pytest.approx(np.exp(entropy), rel=1e-5)


def _answers(home):
    from excora.data.reading import read

    run, data = Run.load(home / "run"), read(home / "data.csv", labelled=False, **ROLES)
    return answers(run.network, run.preparation.features(data), np.arange(5), run.setup)


def test_a_run_prints(home):
    text = io.StringIO()
    Console(file=text, width=200).print(Run.load(home / "run"), predict(home / "run", home / "data.csv"))
    for word in ("target", "PCC", "cannot tell", "report.html", "90 predictions"):
        assert word in text.getvalue()


# Predicting.


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
        predict(home / "run", tmp_path / "new.csv").save(tmp_path / "out.csv", tmp_path / "attention.csv")


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


# What is refused before anything is trained.


def test_a_folder_that_is_in_use_is_left_alone(home):
    with pytest.raises(InputError, match=r"run: the run folder is not empty; give another one, or resume"):
        fit(home / "data.csv", output=home / "run", settings=TINY, progress=False, **ROLES)


def test_a_folder_that_cannot_be_written_is_reported(home):
    with pytest.raises(InputError, match="/proc/nowhere: the run folder cannot be written"):
        fit(home / "data.csv", output="/proc/nowhere", settings=TINY, progress=False, **ROLES)


def test_a_full_disk_is_reported_before_training(home, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.application.folder.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(InputError, match="a run takes about 20 MB and the disk has 0 MB left"):
        fit(home / "data.csv", output=tmp_path / "run", settings=TINY, progress=False, **ROLES)


@pytest.mark.parametrize(("average", "copies"), [(0.0, 4), (0.9, 5)])
def test_the_room_that_is_asked_for_is_that_of_two_checkpoints_and_the_weights(tmp_path, monkeypatch, average, copies):
    table()[["a", "b", "y"]].to_csv(tmp_path / "data.csv", index=False)
    settings = TINY.replace(dim=128, epochs=1, average=average)
    run = fit(tmp_path / "data.csv", target="y", output=tmp_path / "run", settings=settings, progress=False)
    size = sum(t.numel() * t.element_size() for t in run.network.state_dict().values())
    written = (tmp_path / "run" / "checkpoints" / "last.ckpt").stat().st_size
    assert copies <= written / size < copies + 0.5
    need = (2 * copies + 1) * size + 200 * 36 + ROOM

    def room(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2 * need, need, free))
        check_room(tmp_path, run.network, samples=36, averaged=average > 0)

    room(need)
    with pytest.raises(InputError, match="a run takes about"):
        room(need - 1)


def test_resuming_another_run_says_what_differs(home, copy):
    table().assign(a=0.5).to_csv(copy.parent / "other.csv", index=False)
    changed = TINY.replace(dim=16, epochs=1, workers=2)
    with pytest.raises(InputError) as raised:
        fit(copy.parent / "other.csv", output=copy, settings=changed, resume=True, test=0.3, progress=False, **ROLES)
    for word in ("dim was 8 and is 16", "epochs was 2 and is 1", "the data have changed", "test was 0.2 and is 0.3"):
        assert word in str(raised.value)
    assert "workers" not in str(raised.value)
    (copy / "config.json").unlink()
    with pytest.raises(InputError, match="no run to resume here"):
        fit(home / "data.csv", output=copy, settings=TINY, resume=True, progress=False, **ROLES)


def test_a_finished_run_is_not_trained_again(home, copy, monkeypatch):
    monkeypatch.setattr("excora.application.fitting.train", None)
    run = fit(home / "data.csv", output=copy, settings=TINY, resume=True, progress=False, **ROLES)
    assert run.results == content(home / "run", "results.json")


def test_resuming_without_a_run_starts_one(home, tmp_path):
    run = fit(home / "data.csv", output=tmp_path / "run", settings=TINY, resume=True, progress=False, **ROLES)
    assert (run.path / "weights.safetensors").read_bytes() == (home / "run" / "weights.safetensors").read_bytes()


# Files from a stranger.


class Poison:
    """Unpickling it creates the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return (os.system, (f"touch '{self.canary}'",))


def everything(run: Path, data: Path) -> None:
    """All that ever reads a run folder."""
    Run.load(run)
    predict(run, data)
    write_report(run)
    fit(data, output=run, settings=TINY.replace(epochs=3), resume=True, progress=False, **ROLES)


@pytest.mark.parametrize("name", [*COPIED, "checkpoints/last.ckpt"])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_poisoned_file_never_runs(home, copy, name, kind):
    canary = copy.parent / f"canary {name.replace('/', ' ')}"
    if kind == "pickle":
        (copy / name).write_bytes(pickle.dumps(Poison(canary)))
    else:
        torch.save({"state_dict": Poison(canary)}, copy / name)
    if name in ("metrics.csv", "monitor.json", "predictions.csv", "attention.json"):  # only the report reads them
        with pytest.raises(ExcoraError):
            write_report(copy)
        with pytest.raises(ExcoraError):
            _ = Run.load(copy).predictions if name == "predictions.csv" else write_report(copy)
    else:
        with pytest.raises(ExcoraError, match=name.rpartition("/")[2]):
            everything(copy, home / "data.csv")
    assert not canary.exists()


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


@pytest.mark.parametrize("name", ["config.json", "preparation.json", "weights.safetensors", "results.json"])
@pytest.mark.parametrize("how", ["missing", "half", "empty", "list", "deep"])
def test_a_file_that_is_missing_or_cut_is_named(copy, name, how):
    path = copy / name
    whole = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        deep = b"[" * 100_000
        path.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "list": b"[1]", "deep": deep}[how])
    with pytest.raises(InputError, match=name):
        Run.load(copy)


def test_weights_of_another_model_are_refused(home, copy):
    from safetensors.torch import load_file, save_file

    good = load_file(copy / "weights.safetensors")
    spoilt = {
        "more": good | {"extra": torch.zeros(1)},
        "fewer": {name: t for name, t in good.items() if name != "head.bias"},
        "shape": good | {"head.bias": torch.zeros(3)},
        "type": good | {"head.bias": torch.zeros(2, dtype=torch.float64)},
    }
    for tensors in spoilt.values():
        save_file(tensors, copy / "weights.safetensors")
        with pytest.raises(InputError, match=r"weights are of another model, they differ in (extra|head\.bias)"):
            Run.load(copy)


@pytest.mark.parametrize(
    "change", [{"dim": 1_000_000}, {"layers": 10**7}, {"head": 10**7}, {"dim": "x"}, {"pool": []}, {"new": 1}]
)
def test_settings_of_a_stranger_are_checked_before_memory_is_taken(copy, change):
    config = content(copy, "config.json")
    config["settings"]["options"] |= change
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError):
        Run.load(copy)


@given(place=st.integers(0, 10_000), value=st.sampled_from([None, -1, 1e400, "x", [], {}, [[]], True]))
def test_any_wrong_value_in_the_preparation_is_an_error_or_harmless(home, place, value):
    """Every leaf of the JSON in turn is replaced by something else: ExcoraError, or predictions still come out."""
    run = Run.load(home / "run")
    prepared = json.loads(json.dumps(run.preparation.to_dict()))
    leaves = list(_leaves(prepared))
    owner, key = leaves[place % len(leaves)]
    owner[key] = value
    try:
        preparation = Preparation.from_dict(prepared)
        if preparation.spec == run.preparation.spec:
            found = predict(dataclasses.replace(run, preparation=preparation), home / "data.csv")
            assert len(found.frame) == 90
    except ExcoraError:
        pass


@given(place=st.integers(0, 10_000), value=st.sampled_from([None, -1, 1e400, "x", [], {}, [[]], True]))
def test_any_wrong_value_in_the_results_is_an_error_or_harmless(home, place, value):
    run = Run.load(home / "run")
    results = json.loads(json.dumps(run.results))
    leaves = list(_leaves(results))
    owner, key = leaves[place % len(leaves)]
    owner[key] = value
    text = io.StringIO()
    try:
        Console(file=text, width=200).print(dataclasses.replace(run, results=results))
    except InputError:
        return
    assert "report.html" in text.getvalue()


def _leaves(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from _leaves(item)
