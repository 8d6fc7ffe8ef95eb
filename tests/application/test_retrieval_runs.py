"""Runs of the retrieval model: its training rows in the folder, neighbours in predictions and report, resuming."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from excora.application import Run, compare, fit, predict
from excora.data.dataset import Dataset
from excora.data.reading import read
from excora.data.table import Table
from excora.errors import InputError
from excora.settings import Settings

SMALL = Settings(model="retrieval", dim=8, neighbours=5, metric="plain", epochs=2, batch_size=32, learning_rate=0.01)
ROLES = {"target": ["y", "z"], "group": "slide"}


def frame(rows: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, colour = rng.normal(size=(rows, 3)), rng.choice(["red", "blue"], rows)
    found = pd.DataFrame(x, columns=list("abc")).assign(colour=colour, always=1.0)
    found.loc[::8, "b"] = np.nan
    y = x[:, 0] + np.sin(x[:, 1]) + (colour == "red")
    return found, np.stack([y, 10 * y + x[:, 2]], 1)


def dataset(rows: int = 90) -> Dataset:
    x, y = frame(rows)
    return Dataset(np.array([f"r{k}" for k in range(rows)], object), ("y", "z"), y, Table(x))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with data.csv and the run that was fitted on it, and the run."""
    folder = tmp_path_factory.mktemp("retrieval")
    x, y = frame()
    x.assign(y=y[:, 0], z=y[:, 1], slide=[f"s{k % 15}" for k in range(90)]).to_csv(folder / "data.csv", index=False)
    settings = SMALL.replace(scaling="quantile")
    return folder, fit(folder / "data.csv", output=folder / "run", settings=settings, progress=False, **ROLES)


def test_a_run_is_read_again_and_predicts_the_same(trained):
    folder, run = trained
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["settings"]["model"] == "retrieval"
    assert config["network"] == {"context": 54, "gaps": [1]}
    assert "--model retrieval" in config["rerun"]
    assert "--weight-decay" not in config["rerun"]  # the model's own
    wanted = pd.read_csv(folder / "run" / "predictions.csv").set_index("id")
    found = predict(folder / "run", folder / "data.csv", attention=True)
    rows = found.frame.astype({"id": int}).set_index("id").loc[wanted.index]
    assert rows[["prediction:y", "prediction:z"]].to_numpy() == pytest.approx(
        wanted[["prediction:y", "prediction:z"]].to_numpy(), rel=1e-5, abs=1e-5
    )
    assert set(found.attention["element"]) == {f"neighbour {k}" for k in range(1, 6)}
    assert found.attention.groupby("id")["effective"].sum().to_numpy() == pytest.approx(np.ones(90), abs=1e-4)
    assert run.setup.recipe.epochs == 2


def test_a_run_says_what_it_carries(trained):
    folder, _ = trained
    text = io.StringIO()
    Console(file=text, width=300).print(Run.load(folder / "run"))
    assert "retrieval" in text.getvalue()
    assert "carries its 54 training rows and their labels" in text.getvalue()
    assert "retrieval" in (folder / "run" / "report.html").read_text()


def test_the_report_names_the_training_rows_behind_a_prediction(trained):
    folder, run = trained
    attention = json.loads((folder / "run" / "attention.json").read_text())["pools"]["neighbours"]
    data = read(folder / "data.csv", **ROLES)
    wanted = pd.read_csv(folder / "run" / "predictions.csv")
    train = set(map(str, data.ids)) - set(wanted["id"].astype(str))
    features = run.network.look_up(run.preparation.features(data))
    place = {str(name): k for k, name in enumerate(data.ids)}
    context, scaled = run.network.context_labels.numpy(), run.preparation.scale(data.target)
    assert attention["bags"]
    for bag in attention["bags"]:
        names = [top["label"].removeprefix("row ") for top in bag["top"]]
        assert set(names) <= train
        nearest = context[features.neighbours[place[bag["id"]]].numpy()]
        assert sorted(scaled[[place[name] for name in names]][:, 0]) == pytest.approx(sorted(nearest[:, 0]))


def test_a_resumed_run_is_the_same_run(trained, tmp_path):
    folder, run = trained
    shutil.copytree(folder / "run", tmp_path / "run")
    asked, arguments = Settings(**run.setup.flat()), {**ROLES, "output": tmp_path / "run", "resume": True}
    same = fit(folder / "data.csv", settings=asked, **arguments)
    assert all(torch.equal(a, b) for a, b in zip(same.network.parameters(), run.network.parameters(), strict=True))
    with pytest.raises(InputError, match="neighbours was 5 and is 6"):
        fit(folder / "data.csv", settings=asked.replace(neighbours=6), **arguments)


def test_a_run_folder_without_its_description_or_of_damaged_rows_is_refused(trained, tmp_path):
    folder, _ = trained
    shutil.copytree(folder / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints", "*.html"))
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"network": {"context": 10**12, "gaps": [1]}}))
    with pytest.raises(InputError, match=r"weights\.safetensors: (context must|these weights)"):
        Run.load(tmp_path / "run")
    path.write_text(json.dumps({name: value for name, value in config.items() if name != "network"}))
    with pytest.raises(InputError, match="learned must be"):
        Run.load(tmp_path / "run")
    path.write_text(json.dumps(config))
    weights = tmp_path / "run" / "weights.safetensors"
    tensors = load_file(weights)
    tensors["context_codes"] += 9
    save_file(tensors, weights)
    with pytest.raises(InputError, match="training rows are damaged in context_codes"):
        Run.load(tmp_path / "run")


def test_runs_have_the_numbers_for_their_rows(tmp_path):
    settings = SMALL.replace(epochs=None, batch_size=None, patience=1)
    run = fit(dataset(90), output=tmp_path / "run", settings=settings, progress=False)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    recipe = config["settings"]["recipe"]
    assert (recipe["epochs"], recipe["batch_size"]) == (60, 32)
    assert "--epochs" not in config["rerun"]
    assert "--batch-size" not in config["rerun"]
    assert run.setup.recipe.epochs == 60


def test_pools_are_compared_within_the_model(tmp_path):
    asked = {"models": ("mean", "eca", "ridge"), "folds": 2, "seeds": 1, "settings": SMALL, "output": tmp_path}
    found = compare(dataset(60), **asked, progress=False)
    assert {row.model for row in found.rows} == set(asked["models"])
    assert "pools are compared within the model retrieval" in found.notes
    assert all(run["details"]["epochs"] == 2 for run in found.row("eca").runs)
    again = compare(dataset(60), **asked, progress=False, resume=True)
    assert again.row("eca").runs == found.row("eca").runs
