"""The retrieval model and its settings in fit, predict, compare and the regressor: one way for all models."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from excora.data.columns import learn, normal_scores
from excora.data.features import TableFeatures
from excora.models.building import Samples, build_on, carried, restore
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import load_file, save_file
from sklearn.preprocessing import QuantileTransformer

from excora.comparison import compare, core, runs
from excora.data.dataset import Dataset, Inputs
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.errors import InputError
from excora.estimators import BagRegressor, TabularRegressor, base
from excora.models.retrieval import RetrievalNetwork
from excora.settings import MODEL_OF, MODELS, TABLE_MODEL, Settings
from excora.training import Run, fit, predict
from excora.training.evaluation import answers

SMALL = Settings(model="retrieval", dim=8, neighbours=5, metric="plain", epochs=2, batch_size=32, learning_rate=0.01)
OPTIONS = {"model": "retrieval", "dim": 8, "neighbours": 5, "metric": "plain", "epochs": 2, "batch_size": 32}


def frame(rows=90, seed=0):
    rng = np.random.default_rng(seed)
    x, colour = rng.normal(size=(rows, 3)), rng.choice(["red", "blue"], rows)
    found = pd.DataFrame(x, columns=list("abc")).assign(colour=colour, always=1.0)
    found.loc[::8, "b"] = np.nan
    y = x[:, 0] + np.sin(x[:, 1]) + (colour == "red")
    return found, np.stack([y, 10 * y + x[:, 2]], 1)


def dataset(rows=90, **roles):
    x, y = frame(rows)
    return Dataset(np.array([f"r{k}" for k in range(rows)], object), ("y", "z"), y, frame=x, **roles)


# Settings.


@pytest.mark.parametrize("model", MODELS[1:])
def test_settings_are_complete_once_there_is_a_model(model):
    assert Settings().settled(model) == Settings(model=model)
    settings = Settings().settled(model, rows=500)
    assert settings == Settings(model=model).settled("pool", rows=500)
    assert None not in settings.to_dict().values()
    assert settings.settled("pool", rows=9000) is settings
    given = dataclasses.replace(Settings(dim=12, dropout=0.0), seed=3).settled(model)
    assert (given.dim, given.dropout, given.seed, given.model) == (12, 0.0, 3, model)


@given(
    rows=st.integers(1, 10**7), case=st.sampled_from([("retrieval", 32, 800, 60), ("ft-transformer", 64, 2000, 100)])
)
def test_batches_and_epochs_follow_the_number_of_training_rows(rows, case):
    model, least, wanted, most = case
    settings = Settings().settled(model, rows)
    assert settings.batch_size in (32, 64, 128, 256)
    assert settings.batch_size >= least
    if 32 * least <= rows <= 32 * 256:
        assert 2**-0.5 <= settings.batch_size / (rows / 32) <= 2**0.5
    steps = -(-rows // settings.batch_size)
    assert 15 <= settings.epochs <= most
    assert settings.epochs * steps >= wanted or settings.epochs == most
    assert (settings.epochs - 1) * steps < wanted or settings.epochs == 15
    given = Settings(epochs=3, batch_size=7).settled(model, rows)
    assert (given.epochs, given.batch_size) == (3, 7)
    other = Settings().settled("pool", rows)
    assert (other.epochs, other.batch_size) == (100, 64)


def test_runs_comparisons_and_regressors_have_the_numbers_for_their_rows(tmp_path):
    x, y = frame(90)
    settings = dataclasses.replace(SMALL, epochs=None, batch_size=None, patience=1)
    run = fit(dataset(90), output=tmp_path / "run", settings=settings, progress=False)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["settings"]["epochs"], config["settings"]["batch_size"]) == (60, 32)
    assert "--epochs" not in config["rerun"]
    assert "--batch-size" not in config["rerun"]
    assert run.settings.epochs == 60
    options = {name: value for name, value in OPTIONS.items() if name not in ("epochs", "batch_size")}
    model = TabularRegressor(**options, epochs=2).fit(x, y)
    assert (model.settings_.epochs, model.settings_.batch_size) == (2, 32)
    found = compare(dataset(60), models=("mean",), folds=2, seeds=1, settings=settings, progress=False)
    assert found.setup["settings"]["epochs"] == 60


def test_settings_without_a_model_keep_what_is_open_also_through_json():
    settings = Settings(epochs=7)
    assert settings.dim is None
    assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert MODEL_OF == {"bags": "pool", "table": TABLE_MODEL}
    with pytest.raises(InputError, match="heads must be a whole number, got None"):
        Settings(heads=None)
    with pytest.raises(InputError, match="metric must be one of full, diagonal, plain"):
        Settings(metric="deep")


# Scaling by ranks.


def test_quantile_scaling_is_that_of_scikit_learn_between_the_ends():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=900), np.exp(rng.normal(size=400)), rng.normal(size=7)):
        number = learn("x", pd.Series(values), np.arange(len(values)), "quantile").numbers[0]
        peer = QuantileTransformer(
            n_quantiles=len(number.quantiles), output_distribution="normal", subsample=None
        ) if len(values) >= 10 else None  # fmt: skip
        new = np.concatenate([values[::3], [values.min() - 1, values.max() + 1, values.mean()]])
        found = number.scale(new)
        assert (np.diff(found[np.argsort(new)]) >= 0).all()
        assert found[-3:-1] == pytest.approx([-5.199, 5.199], abs=1e-3)
        if peer is not None:
            wanted = peer.fit(values[:, None]).transform(new[:, None])[:, 0]
            assert found == pytest.approx(wanted, abs=1e-6)


def test_equal_values_get_the_middle_of_their_ranks():
    number = learn("x", pd.Series([0.0, 0.0, 0.0, 1.0] * 25), np.arange(100), "quantile").numbers[0]
    low, high = number.scale(np.array([0.0, 1.0]))
    assert low == pytest.approx(-0.43, abs=0.01)  # and not 5 from the middle, like the ends of a continuous column
    assert high == pytest.approx(1.22, abs=0.01)
    assert np.isnan(normal_scores(np.array([np.nan]), np.array([0.0, 1.0]))).all()


def test_quantiles_are_learned_from_training_rows_and_survive_json():
    data = dataset(rows=400)
    train = np.arange(300)
    found = Preparation.fit(data, train, scaling="quantile")
    again = Preparation.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    rows = again.features(data).read(np.arange(400))
    assert torch.equal(rows.numeric, found.features(data).read(np.arange(400)).numeric)
    assert rows.numeric[:300, 0].std() == pytest.approx(1.0, abs=0.1)
    assert (rows.numeric[rows.missing] == 0).all()
    other = dataclasses.replace(data, frame=data.frame.assign(a=np.where(np.arange(400) < 300, data.frame["a"], 1e9)))
    assert Preparation.fit(other, train, scaling="quantile") == found
    spoilt = found.to_dict()
    spoilt["columns"][0]["numbers"][0]["quantiles"] = (1.0, 0.0)
    with pytest.raises(InputError, match="do not rise"):
        Preparation.from_dict(spoilt)
    with pytest.raises(InputError, match="scaling must be standard"):
        Preparation.fit(data, train, scaling="rank")


# One way to a network.


def toy(rows=60, columns=3):
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    return TableFeatures(x, np.zeros(x.shape, bool), np.zeros((rows, 0), np.int64)), x[:, :1] - x[:, 1:2]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "pool"}, {"model": "ft-transformer"}, {"model": "ft-transformer", "embeddings": "piecewise"},
        {"model": "ft-transformer", "embeddings": "periodic"}, {"model": "retrieval", "metric": "plain"}, {},
    ],
    ids=lambda change: "-".join(change.values()) or "auto",
)  # fmt: skip
def test_every_model_is_built_and_restored_the_same_way(change):
    features, target = toy()
    inputs, settings = Inputs(targets=1, numeric=3), Settings(dim=8, neighbours=4, **change).settled(TABLE_MODEL)
    state = torch.get_rng_state()
    network, seen = build_on(inputs, Samples(features, target, np.arange(40)), settings)
    assert torch.equal(torch.get_rng_state(), state)
    learned = json.loads(json.dumps(network.learned))
    again = restore(inputs, settings, learned, network.state_dict())
    index = np.arange(40, 60)
    found = again(again.look_up(features).read(index)).prediction
    assert torch.equal(found, network.eval()(seen.read(index)).prediction)
    assert again.learned == learned
    assert bool(carried(network)) == isinstance(network, RetrievalNetwork)
    with pytest.raises(InputError, match=r"what a .* network learned must be"):
        restore(inputs, settings, {"surplus": 1}, network.state_dict())


def test_bags_have_one_model():
    bags = [np.ones((2, 3)) * k for k in range(20)]
    assert BagRegressor(dim=4, epochs=1, random_state=0).fit(bags, np.arange(20.0)).settings_.model == "pool"
    for model in ("retrieval", "ft-transformer"):
        with pytest.raises(InputError, match=f"model '{model}' reads tables, and these are bags"):
            build_on(Inputs(targets=1, width=3), Samples(None, None, np.arange(2)), Settings(model=model))


def test_a_gap_needs_a_time_and_rows_of_no_weight_are_not_looked_at():
    features, target = toy()
    inputs, settings = Inputs(targets=1, numeric=3), dataclasses.replace(SMALL, gap=2.0)
    with pytest.raises(InputError, match="there is no column of times"):
        build_on(inputs, Samples(features, target, np.arange(40)), settings)
    weight = np.ones(60)
    weight[:10] = 0.0
    time = np.arange(60.0)
    network, found = build_on(inputs, Samples(features, target, np.arange(40), time=time, weight=weight), settings)
    assert network.learned["context"] == 30
    seen = 10 + found.neighbours[10:40]
    assert ((seen - torch.arange(10, 40)[:, None]).abs() > 2)[found.allowed[10:40]].all()


def damage(learned, tensors, data):
    """One thing in them that is not as it was."""
    what = data.draw(st.sampled_from(["context", "gaps", "whole", "codes", "numeric", "metric"]))
    junk = st.sampled_from([None, -1, 0, 10**12, 10**30, 0.5, True, "x", [], {}, [-1], [7], ["a"], [1, 1], [2**40]])
    if what == "whole":
        return data.draw(junk), tensors
    if what in learned:
        value = data.draw(junk.filter(lambda value: value != learned[what]))
        return {**learned, what: value}, tensors
    broken = {name: t.clone() for name, t in tensors.items()}
    if what == "codes":
        broken["context_codes"][3, 0] = data.draw(st.sampled_from([-1, 3, 2**40]))
    else:
        name = "context_numeric" if what == "numeric" else "metric_weight"
        broken[name].view(-1)[0] = data.draw(st.sampled_from([np.nan, np.inf]))
    return learned, broken


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with data.csv, the run that was fitted on it, and the run."""
    folder = tmp_path_factory.mktemp("retrieval")
    x, y = frame()
    x.assign(y=y[:, 0], z=y[:, 1], slide=[f"s{k % 15}" for k in range(90)]).to_csv(folder / "data.csv", index=False)
    settings = dataclasses.replace(SMALL, scaling="quantile")
    run = fit(folder / "data.csv", target=["y", "z"], group="slide", output=folder / "run", settings=settings)
    return folder, run


@given(data=st.data())
def test_damaged_descriptions_and_rows_are_refused(trained, data):
    _, run = trained
    learned, tensors = damage(run.network.learned, run.network.state_dict(), data)
    with pytest.raises(InputError):
        restore(run.preparation.inputs, run.settings, learned, tensors)


# The run folder.


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
    text = io.StringIO()
    Console(file=text, width=300).print(Run.load(folder / "run"))
    assert "model retrieval with pool eca" in text.getvalue()
    assert "carries its 54 training rows and their labels" in text.getvalue()
    report = (folder / "run" / "report.html").read_text()
    assert "the model retrieval" in report
    assert run.settings.epochs == 2


def test_the_report_names_the_training_rows_behind_a_prediction(trained):
    folder, run = trained
    attention = json.loads((folder / "run" / "attention.json").read_text())
    data = read(folder / "data.csv", target=["y", "z"], group="slide")
    wanted = pd.read_csv(folder / "run" / "predictions.csv")
    train = set(map(str, data.ids)) - set(wanted["id"].astype(str))
    features = run.network.look_up(run.preparation.features(data))
    place = {str(name): k for k, name in enumerate(data.ids)}
    context = run.network.context_labels.numpy()
    scaled = run.preparation.scale(data.target)
    for bag in attention["bags"]:
        names = [top["label"].removeprefix("row ") for top in bag["top"]]
        assert set(names) <= train
        nearest = context[features.neighbours[place[bag["id"]]].numpy()]
        assert sorted(scaled[[place[name] for name in names]][:, 0]) == pytest.approx(sorted(nearest[:, 0]))


def test_a_resumed_run_is_the_same_run(trained, tmp_path):
    folder, run = trained
    shutil.copytree(folder / "run", tmp_path / "run")
    arguments = {"target": ["y", "z"], "group": "slide", "output": tmp_path / "run", "resume": True}
    same = fit(folder / "data.csv", settings=dataclasses.replace(run.settings, epochs=2), **arguments)
    assert all(torch.equal(a, b) for a, b in zip(same.network.parameters(), run.network.parameters(), strict=True))
    with pytest.raises(InputError, match="neighbours was 5 and is 6"):
        fit(folder / "data.csv", settings=dataclasses.replace(run.settings, neighbours=6), **arguments)


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


def test_effective_weights_divide_by_the_neighbours_that_are_there(trained):
    _, run = trained
    features = run.network.look_up(run.preparation.features(dataset()))
    features.allowed[0, 3:] = False
    features.allowed[1] = False
    three, none, all_five = (one.attention for one in answers(run.network, features, np.arange(3), run.settings))
    assert [len(one.weight) for one in (three, none, all_five)] == [3, 0, 5]
    for one in (three, all_five):
        assert one.effective.sum() == pytest.approx(1.0, abs=1e-5)
        n = len(one.weight)
        assert one.effective == pytest.approx((1 - one.gamma) / n + one.gamma * one.weight, abs=1e-6)


# The regressor.


def test_the_regressor_with_every_kind_of_column_and_two_targets():
    x, y = frame(150)
    model = TabularRegressor(**OPTIONS | {"epochs": 8, "scaling": "quantile"}, random_state=0).fit(x[:120], y[:120])
    assert model.settings_.model == "retrieval"
    assert np.corrcoef(model.predict(x[120:])[:, 0], y[120:, 0])[0, 1] > 0.6
    assert "always" in " ".join(model.preparation_.notes)
    alone = np.concatenate([model.predict(x[k : k + 1]) for k in range(120, 124)])
    assert alone == pytest.approx(model.predict(x[120:])[:4], abs=1e-9)


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_a_handful_of_rows_works_and_no_row_meets_itself(rows, monkeypatch):
    seen = []
    monkeypatch.setattr(base, "build_on", lambda *a, **k: seen.append(build_on(*a, **k)) or seen[-1])
    x, y = np.arange(2.0 * rows).reshape(rows, 2) ** 2, np.arange(float(rows))
    model = TabularRegressor(**OPTIONS, random_state=0).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    features = seen[0][1]
    originals = torch.arange(rows)[:, None]
    for part in (slice(0, rows), slice(rows, 2 * rows)):
        assert features.allowed[part].sum() == rows * min(rows - 1, 5)
        assert not (features.allowed[part] & (features.neighbours[part] == originals)).any()


def test_rows_of_one_group_cannot_look_at_each_other():
    x, y = frame(30)
    with pytest.raises(InputError, match=r"may see another.*of one group"):
        TabularRegressor(**OPTIONS).fit(x, y, groups=np.zeros(30))
    other = TabularRegressor(model="pool", dim=4, epochs=1).fit(x, y, groups=np.zeros(30))
    assert np.isfinite(other.predict(x)).all()


def test_weights_count_and_a_row_of_weight_zero_is_absent():
    x, y = frame(80)
    weight = np.ones(80)
    weight[:20] = 0
    first = TabularRegressor(**OPTIONS, random_state=0).fit(x, y, sample_weight=weight)
    second = TabularRegressor(**OPTIONS, random_state=0).fit(x[20:], y[20:], sample_weight=weight[20:])
    assert np.array_equal(first.predict(x), second.predict(x))
    third = TabularRegressor(**OPTIONS, random_state=0).fit(x[20:], y[20:], sample_weight=1.0 + np.arange(60))
    assert not np.array_equal(third.predict(x), second.predict(x))


def test_wide_tables():
    x = np.random.default_rng(0).normal(size=(40, 520))
    model = TabularRegressor(**OPTIONS | {"metric": "full", "epochs": 1}, random_state=0).fit(x, x[:, 0])
    assert model.network_.metric_mix is None
    assert np.isfinite(model.predict(x)).all()


def test_a_warm_start_goes_on_with_the_rows_it_is_given():
    x, y = frame(80)
    model = TabularRegressor(**OPTIONS, random_state=0, warm_start=True).fit(x, y)
    before = model.predict(x)
    model.set_params(learning_rate=0.0).fit(x, y)
    assert np.array_equal(model.predict(x), before)
    metric = model.network_.metric_weight.clone()
    model.set_params(learning_rate=0.01).fit(x[:50], y[:50])
    assert model.network_.learned["context"] == 40
    assert torch.equal(model.network_.metric_weight, metric)
    with pytest.raises(InputError, match=r"neighbours is 7 .*has 5"):
        model.set_params(neighbours=7).fit(x, y)


def test_a_saved_regressor_carries_its_rows(tmp_path):
    x, y = frame(60)
    model = TabularRegressor(**OPTIONS, random_state=0).fit(x, y)
    model.save(tmp_path / "model.safetensors")
    again = TabularRegressor.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict(x), model.predict(x))
    assert again.get_params() == model.get_params()
    assert again.settings_ == model.settings_
    assert len(load_file(tmp_path / "model.safetensors")["context_labels"]) == 48


# Comparing.


def test_pools_are_compared_within_the_model(tmp_path):
    models = ("mean", "eca", "ridge")
    found = compare(dataset(60), models=models, folds=2, seeds=1, settings=SMALL, output=tmp_path, progress=False)
    assert [row.model for row in found.rows] == list(models)
    assert "pools are compared within the model retrieval" in found.notes
    assert found.setup["settings"]["model"] == "retrieval"
    assert all(run["details"]["epochs"] == 2 for run in found.row("eca").runs)
    again = compare(
        dataset(60), models=models, folds=2, seeds=1, settings=SMALL, output=tmp_path, progress=False, resume=True
    )
    assert again.row("eca").runs == found.row("eca").runs


def test_the_ft_transformer_leaves_out_what_is_no_attention():
    names, notes = core._names(runs.MODELS, "ft-transformer")
    assert not {"mean", "gated"} & set(names)
    assert "mean and gated are left out" in " ".join(notes)
    with pytest.raises(InputError, match="attends with softmax, eca-paper or eca, got pool 'mean'"):
        compare(dataset(40), models=("mean",), folds=2, seeds=1, settings=Settings(model="ft-transformer"))


def test_help_names_the_settings_of_the_models():
    import subprocess

    run = subprocess.run(
        [sys.executable, "-m", "excora.cli", "fit", "--help"], capture_output=True, text=True, check=True,
        env={"COLUMNS": "240", "PATH": ""},
    )  # fmt: skip
    for word in ("--neighbours", "--metric", "--gap", "--scaling", "--attention-dropout", "64, retrieval 96"):
        assert word in run.stdout
