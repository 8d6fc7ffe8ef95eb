"""train: model choice, stopping, what it reads and refuses, with and without a validation part."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import samples_data
import torch
from oracles.rows import plain_rows

from excora.data.splits import Split
from excora.data.table import TableSpec
from excora.errors import ExcoraError, InputError
from excora.settings import Settings
from excora.training import evaluation, train
from excora.training.building import build
from training.samples import PARTS, TINY, Data, far, prepared, run

ALL = PARTS._replace(train=np.arange(60), validation=np.arange(0))
PLAIN = TINY.replace(epochs=4, learning_rate=0.02)


@pytest.fixture
def data() -> Data:
    return prepared()


@pytest.mark.parametrize("criterion", ["joint", "pcc", "mse"])
def test_the_epoch_is_chosen_by_the_criterion(data, criterion):
    settings = TINY.replace(criterion=criterion, epochs=6, learning_rate=0.1)
    training = run(data, settings)
    values = [
        {
            "joint": row["validation_mse"] + 0.5 * (1 - row["validation_pcc"]),
            "pcc": -row["validation_pcc"],
            "mse": row["validation_mse"],
        }[criterion]
        for row in training.rows
    ]
    assert values == pytest.approx([row["validation_criterion"] for row in training.rows])
    assert training.best_epoch == int(np.argmin(values))
    features, target, _ = data
    with torch.no_grad():
        prediction = training.network(features.read(PARTS.validation)).prediction
    mse = (prediction - torch.from_numpy(target[PARTS.validation])).square().mean()
    assert training.rows[training.best_epoch]["validation_mse"] == pytest.approx(float(mse), rel=1e-5)


def test_patience_ends_training_and_so_does_divergence(data):
    noise = np.random.default_rng(0).normal(size=(70, 1)).astype(np.float32)
    training = run(data._replace(target=noise), TINY.replace(epochs=40, patience=2, learning_rate=0.1))
    assert training.stopped == "patience"
    assert training.epochs == training.best_epoch + 3 < 40
    assert run(data).stopped == "epochs"
    with pytest.raises(ExcoraError, match=r"diverged in its first epoch.*lower the learning rate, now 1e\+30"):
        run(data, TINY.replace(learning_rate=1e30))


def test_the_test_part_is_never_read(data):
    features = data.features
    seen: set[int] = set()

    class Watched:
        sizes = features.sizes

        def read(self, index):
            seen.update(index.tolist())
            return features.read(index)

    run(data._replace(features=Watched()))
    assert seen == set(PARTS.train) | set(PARTS.validation)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_wrong_with_the_data_is_said_without_a_traceback(data, workers):
    features = data.features

    class Broken:
        sizes = features.sizes

        def read(self, _):
            raise InputError("bag 7.h5: element 3 is NaN")

    with pytest.raises(InputError) as raised:
        run(data._replace(features=Broken()), TINY.replace(workers=workers))
    assert str(raised.value) == "bag 7.h5: element 3 is NaN"


def test_training_is_silent_and_leaves_the_random_state(data, capfd):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run(data, TINY.replace(epochs=1, dropout=0.5))
    assert torch.equal(before, torch.get_rng_state())
    assert capfd.readouterr() == ("", "")


def test_dropout_is_the_same_every_time_and_seeds_differ(data):
    settings = TINY.replace(dropout=0.5, epochs=1)
    first = run(data, settings)
    assert far(first, run(data, settings)) == 0
    assert far(first, run(data, settings.replace(seed=1))) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full((70, 1), np.inf, np.float32)}, "target must be numbers of shape .70, targets"),
        ({"target": np.zeros((69, 1), np.float32)}, "target must be numbers of shape .70, targets"),
        ({"target": np.full((70, 1), np.nan, np.float32)}, "train part must hold a known label"),
        ({"target": np.repeat([[1], [np.nan]], [43, 27], 0)}, "validation part must hold a known label"),
        ({"weight": np.full(70, -1, np.float32)}, "weight must be 70 finite numbers of at least 0"),
        ({"weight": np.repeat([1, 0], [43, 27]).astype(np.float32)}, "validation part must hold some weight"),
        ({"split": Split(np.arange(5), np.arange(4, 9), np.arange(0))}, "must not share samples"),
        ({"split": Split(np.arange(5), np.arange(5, 6), np.arange(0))}, "validation part must hold at least 2"),
    ],
)
def test_wrong_input_is_named(data, change, message):
    setup = TINY.settled(data.spec.kind, len(PARTS.train))
    arguments = {"target": data.target, "split": PARTS, "recipe": setup.recipe} | change
    with pytest.raises(InputError, match=message):
        train(data.network(setup), data.features, progress=False, **arguments)


def test_what_is_learned_by_heart_is_no_correlation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 30)).astype(np.float32)
    y = rng.normal(size=(80, 1)).astype(np.float32)  # nothing to learn but by heart
    data = Data(plain_rows(x), y, TableSpec(targets=1, numeric=30))
    settings = Settings(model="pool", dim=16, epochs=60, patience=12, batch_size=16, accelerator="cpu", criterion="mse")
    training = run(data, settings, Split(np.arange(40), np.arange(40, 80), np.arange(0)))
    assert training.stopped == "patience"
    assert training.monitor.verdict().name == "still improving"
    found = training.verdict()
    assert found.name == "cannot tell"
    assert "No correlation is established" in found.sentence


# Without a validation part.


def test_without_validation_the_last_epoch_is_kept(data, tmp_path):
    training = run(data, PLAIN.replace(patience=1), ALL, folder=tmp_path)
    assert (training.stopped, training.best_epoch, training.epochs) == ("epochs", 3, 4)
    assert [sorted(row) for row in training.rows] == [["epoch", "learning_rate", "train_loss"]] * 4
    assert [record["bags"] for record in training.monitor.records] == [60] * 4
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["validation_pcc"] for row in rows] == [""] * 4
    assert [float(row["train_loss"]) for row in rows] == [row["train_loss"] for row in training.rows]


def test_without_validation_a_run_that_diverges_says_so(data, monkeypatch):
    with pytest.raises(ExcoraError, match="diverged in its first epoch"):
        run(data, PLAIN.replace(learning_rate=1e30), ALL)
    step, left = torch.optim.AdamW.step, [12]  # the last step of the second of four epochs

    def breaking(self, closure=None):
        found, left[0] = step(self, closure), left[0] - 1
        if not left[0]:
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(torch.nan)
        return found

    monkeypatch.setattr(torch.optim.AdamW, "step", breaking)
    training = run(data, PLAIN, ALL)
    assert (training.stopped, training.best_epoch, training.epochs) == ("diverged", 0, 2)
    assert all(value.isfinite().all() for value in training.network.state_dict().values())


def test_one_sample_is_no_validation_part(data):
    with pytest.raises(InputError, match="validation part must hold at least 2"):
        run(data, PLAIN, PARTS._replace(validation=PARTS.validation[:1]))


def started(settings, start="ridge", **options):
    """A run that starts from a ridge, on a table."""
    dataset = samples_data.table()
    setup = settings.replace(start=start).settled("table", len(PARTS.train))
    built = build(dataset, PARTS.train, setup, validation=PARTS.validation)
    arguments = (built.network, built.features, built.target, PARTS, setup.recipe, setup.machine)
    return built, train(*arguments, progress=False, **options)


def test_a_harmful_training_keeps_the_ridge_it_started_from():
    built, training = started(TINY.replace(learning_rate=0.3))
    assert training.best_epoch == -1
    assert training.epochs == 3
    start = built.network.linear_start
    inputs = built.features.read(PARTS.validation)
    assert torch.equal(training.network(inputs).prediction, start(inputs))
    assert all(row["validation_criterion"] > training.start["validation_criterion"] for row in training.rows)


def test_an_epoch_that_improves_on_the_ridge_is_kept():
    built, training = started(TINY.replace(epochs=8))
    assert training.best_epoch >= 0
    best = training.rows[training.best_epoch]["validation_criterion"]
    assert best < training.start["validation_criterion"]
    prediction = built.network.linear_start(built.features.read(PARTS.validation)).double().numpy()
    error = np.square(prediction - built.target[PARTS.validation]).mean()
    assert training.start["validation_mse"] == pytest.approx(error)


@pytest.mark.parametrize("errors", [-1e9, 1e9])
def test_auto_keeps_the_ridge_unless_the_network_adds_to_it_for_sure(errors, monkeypatch):
    monkeypatch.setattr(evaluation, "SURELY", errors)
    built, training = started(TINY.replace(epochs=8), "auto")
    assert built.start.kind == "ridge"
    inputs = built.features.read(PARTS.validation)
    same = torch.equal(training.network(inputs).prediction, built.network.linear_start(inputs))
    assert (training.best_epoch == -1) == same == (errors > 0)
    assert training.held["mse"] == pytest.approx(
        training.start["validation_mse"] if same else training.rows[training.best_epoch]["validation_mse"], rel=1e-5
    )


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_a_run_from_a_ridge_goes_on_to_the_last_bit(tmp_path, rate):
    settings = TINY.replace(learning_rate=rate)
    _, whole = started(settings)
    started(settings.replace(epochs=1), folder=tmp_path)
    _, resumed = started(settings, folder=tmp_path, resume=True)
    assert far(whole, resumed) == 0
    assert (resumed.rows, resumed.start, resumed.best_epoch) == (whole.rows, whole.start, whole.best_epoch)


def test_patience_is_with_epochs_not_with_the_ridge():
    _, training = started(TINY.replace(learning_rate=0.3, epochs=9, patience=2))
    best = min(range(training.epochs), key=lambda k: training.rows[k]["validation_criterion"])
    assert training.stopped == "patience"
    assert training.epochs == best + 3


def test_a_run_from_a_ridge_that_diverges_at_once_is_the_ridge():
    _, training = started(TINY.replace(learning_rate=1e30))
    assert (training.stopped, training.best_epoch) == ("diverged", -1)
