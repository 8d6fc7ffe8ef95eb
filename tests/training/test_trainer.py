"""train: against a bare loop; batches, accumulation, model choice, stopping, checkpoints that cannot be written."""

from __future__ import annotations

import csv
import dataclasses
import errno
import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora import storage
from excora.data.bags import ArrayBags
from excora.data.dataset import Dataset, Inputs
from excora.data.features import TableFeatures
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.models.network import build
from excora.pooling import parameter_groups
from excora.settings import Settings
from excora.training import train
from excora.training.batches import Rows, Steps, cut, in_order, largest, shuffled

TINY = Settings(model="pool", dim=8, epochs=3, batch_size=10, learning_rate=0.01)
PARTS = Split(np.arange(43), np.arange(43, 60), np.arange(60, 70))


def dataset(seed: int = 0, targets: int = 1) -> Dataset:
    """70 bags of 1 to 8 elements whose labels are linear in the heaviest ones."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 9, 70)
    values = generator.normal(size=(lengths.sum(), 3)).astype(np.float32)
    ends = np.cumsum(lengths)
    label = np.array([values[end - n : end].max(0)[:targets] for n, end in zip(lengths, ends, strict=True)])
    names = tuple(f"y{k}" for k in range(targets))
    ids = np.array([f"bag {k}" for k in range(70)], object)
    return Dataset(ids, names, label.astype(np.float64), bags=ArrayBags(values, lengths))


@pytest.fixture
def data():
    """Features, standardised target and inputs of the bags above."""
    bags = dataset()
    preparation = Preparation.fit(bags, PARTS.train)
    return preparation.features(bags), preparation.scale(bags.target), preparation.inputs


def weights_of(training) -> dict[str, torch.Tensor]:
    return training.network.state_dict()


def far(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def run(data, settings=TINY, **options):
    features, target, inputs = data
    return train(build(inputs, settings), features, target, PARTS, settings, progress=False, **options)


def bare(data, settings: Settings, weight=None) -> dict[str, torch.Tensor]:
    """The same training without Lightning: the weights after the last epoch."""
    features, target, inputs = data
    kinds = {"dnpl": DispersionNormalizedPearsonLoss, "pearson": PearsonLoss, "concordance": ConcordanceLoss}
    kind = kinds.get(settings.correlation, PearsonLoss)
    network = build(inputs, settings).train()
    loss = JointLoss(kind(), weight=settings.correlation_weight if settings.correlation != "none" else 0.0)
    optimizer = torch.optim.AdamW(parameter_groups(network, settings.weight_decay), lr=settings.learning_rate)
    for epoch in range(settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(PARTS.train)
        for index in (order[:10], order[10:20], order[20:30], order[30:40], order[40:]):
            optimizer.zero_grad()
            output = network(features.read(index))
            w = None if weight is None else torch.from_numpy(weight[index])
            loss(output.prediction, torch.from_numpy(target[index]), weight=w, penalty=output.pooled.penalty).backward()
            optimizer.step()
    return network.state_dict()


# Batches.


@given(st.integers(2, 60), st.integers(2, 12), st.integers(1, 4), st.integers(0, 3))
def test_every_sample_is_in_one_slice_of_one_batch(n, size, world, epoch):
    index = np.arange(100, 100 + n)
    batches = shuffled(index, size, seed=7, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == index.tolist()
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert 2 <= len(batches[-1]) <= size + 1
    ranks = [list(Steps(lambda: batches, lambda part: [part], rank=rank, world=world)) for rank in range(world)]
    for slices, batch in zip(zip(*ranks, strict=True), batches, strict=True):
        assert np.concatenate([piece for (piece,) in slices]).tolist() == batch.tolist()


def test_batches_depend_on_seed_and_epoch_alone():
    index = np.arange(50)

    def order(seed, epoch):
        return np.concatenate(shuffled(index, 8, seed=seed, epoch=epoch)).tolist()

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 60), st.integers(1, 6))
def test_pieces_hold_every_sample_once_within_the_bounds(sizes, limit, pieces):
    sizes, index = np.array(sizes), np.arange(len(sizes))
    for found, most in (
        (in_order(index, sizes, max_elements=limit, most=5), 5),
        (cut(index, sizes, pieces=pieces, max_elements=limit), -(-len(sizes) // pieces)),
    ):
        assert sorted(np.concatenate(found).tolist()) == index.tolist()
        for piece in found:
            assert 1 <= len(piece) <= most
            assert len(piece) == 1 or sizes[piece].sum() <= limit
    assert largest(index, sizes, 3) == np.sort(sizes)[-4:].sum()


def test_cutting_groups_similar_sizes():
    pieces = cut(np.arange(6), np.array([9, 1, 8, 2, 9, 1]), pieces=2, max_elements=100)
    assert [piece.tolist() for piece in pieces] == [[1, 5, 3], [2, 0, 4]]


def test_an_empty_slice_reads_as_an_empty_batch(data):
    features, target, _ = data
    batch = Rows(features, target, None).read(np.empty(0, np.intp))
    assert len(batch) == 0
    assert batch.target.shape == (0, 1)


# Training.


@pytest.mark.parametrize("correlation", ["dnpl", "pearson", "concordance", "none"])
def test_a_run_equals_a_bare_loop(data, correlation):
    settings = dataclasses.replace(TINY, correlation=correlation, epochs=2)
    training = run(data, settings)
    assert training.best_epoch == 1, "the oracle has the weights of the last epoch"
    assert far(weights_of(training), bare(data, settings)) == 0


def test_weights_of_samples_reach_loss_and_score(data):
    weight = np.linspace(0, 2, 70).astype(np.float32)
    settings = dataclasses.replace(TINY, epochs=2)
    training = run(data, settings, weight=weight)
    assert training.best_epoch == 1
    assert far(weights_of(training), bare(data, settings, weight)) == 0
    features, target, _ = data
    with torch.no_grad():
        prediction = training.network(features.read(PARTS.validation)).prediction.double().numpy()[:, 0]
    truth, w = target[PARTS.validation, 0].astype(np.float64), weight[PARTS.validation].astype(np.float64)
    row = training.rows[-1]
    assert row["validation_mse"] == pytest.approx(np.average((prediction - truth) ** 2, weights=w), rel=1e-6)
    covariance = np.cov(prediction, truth, aweights=w)
    pcc = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert row["validation_pcc"] == pytest.approx(pcc, rel=1e-6)
    assert row["validation_criterion"] == pytest.approx(row["validation_mse"] + 0.5 * (1 - pcc), rel=1e-6)


@pytest.mark.parametrize("change", [{"accumulate": 3}, {"max_elements": 12}])
def test_pieces_give_the_weights_and_records_of_whole_batches(data, change):
    whole, pieces = run(data), run(data, dataclasses.replace(TINY, **change))
    assert far(weights_of(whole), weights_of(pieces)) < 1e-5
    for a, b in zip(whole.monitor.records, pieces.monitor.records, strict=True):
        for name in ("bags", "pcc", "mse", "effective_elements", "gamma_50", "dispersion"):
            assert a[name] == pytest.approx(b[name], rel=1e-3), name


@pytest.mark.parametrize("accumulate", [1, 2])
def test_mixed_precision_follows_the_full_one(data, accumulate):
    full, mixed = run(data), run(data, dataclasses.replace(TINY, precision="bf16-mixed", accumulate=accumulate))
    for a, b in zip(full.rows, mixed.rows, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=0.02)
        assert a["validation_pcc"] == pytest.approx(b["validation_pcc"], abs=0.02)
    assert all(t.dtype == torch.float32 for t in weights_of(mixed).values())


def test_several_targets_and_workers():
    bags = dataset(targets=2)
    preparation = Preparation.fit(bags, PARTS.train)
    data = preparation.features(bags), preparation.scale(bags.target), preparation.inputs
    settings = dataclasses.replace(TINY, epochs=2, dropout=0.2)
    plain, workers = run(data, settings), run(data, dataclasses.replace(settings, workers=1))
    assert far(weights_of(plain), weights_of(workers)) == 0
    assert plain.rows == workers.rows
    assert plain.network.head.out_features == 2


@pytest.mark.parametrize("criterion", ["joint", "pcc", "mse"])
def test_the_epoch_is_chosen_by_the_criterion(data, criterion):
    settings = dataclasses.replace(TINY, criterion=criterion, epochs=6, learning_rate=0.1)
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


def test_an_undefined_correlation_counts_as_none(data):
    features, target, _ = data
    constant = target.copy()
    constant[PARTS.validation] = 0.5
    training = run((features, constant, data[2]), dataclasses.replace(TINY, criterion="pcc", epochs=2))
    assert [row["validation_criterion"] for row in training.rows] == [0.0, 0.0]
    assert training.best_epoch == 0


def test_patience_ends_training_and_so_does_divergence(data):
    features, _, inputs = data
    noise = np.random.default_rng(0).normal(size=(70, 1)).astype(np.float32)
    training = run((features, noise, inputs), dataclasses.replace(TINY, epochs=40, patience=2, learning_rate=0.1))
    assert training.stopped == "patience"
    assert training.epochs == training.best_epoch + 3 < 40
    assert run(data).stopped == "epochs"
    with pytest.raises(ExcoraError, match=r"diverged in its first epoch.*lower the learning rate, now 1e\+30"):
        run(data, dataclasses.replace(TINY, learning_rate=1e30))


def test_the_test_part_is_never_read(data):
    features, target, inputs = data
    seen: set[int] = set()

    class Watched:
        sizes = features.sizes

        def read(self, index):
            seen.update(index.tolist())
            return features.read(index)

    run((Watched(), target, inputs))
    assert seen == set(PARTS.train) | set(PARTS.validation)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_wrong_with_the_data_is_said_without_a_traceback(data, workers):
    features, target, inputs = data

    class Broken:
        sizes = features.sizes

        def read(self, _):
            raise InputError("bag 7.h5: element 3 is NaN")

    with pytest.raises(InputError) as raised:
        run((Broken(), target, inputs), dataclasses.replace(TINY, workers=workers))
    assert str(raised.value) == "bag 7.h5: element 3 is NaN"


def test_training_is_silent_and_leaves_the_random_state(data, capfd):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run(data, dataclasses.replace(TINY, epochs=1, dropout=0.5))
    assert torch.equal(before, torch.get_rng_state())
    assert capfd.readouterr() == ("", "")


def test_dropout_is_the_same_every_time_and_seeds_differ(data):
    settings = dataclasses.replace(TINY, dropout=0.5, epochs=1)
    first = weights_of(run(data, settings))
    assert far(first, weights_of(run(data, settings))) == 0
    assert far(first, weights_of(run(data, dataclasses.replace(settings, seed=1)))) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.full((70, 1), np.nan, np.float32)}, "target must be finite numbers of shape .70, targets"),
        ({"weight": np.full(70, -1, np.float32)}, "weight must be 70 finite numbers of at least 0"),
        ({"weight": np.repeat([1, 0], [43, 27]).astype(np.float32)}, "validation part must hold some weight"),
        ({"split": Split(np.arange(5), np.arange(4, 9), np.arange(0))}, "must not share samples"),
        ({"split": Split(np.arange(5), np.arange(5, 6), np.arange(0))}, "validation part must hold at least 2"),
        ({"settings": dataclasses.replace(TINY, accelerator="nonsense")}, "accelerator 'nonsense'.*do not go together"),
    ],
)
def test_wrong_input_is_named(data, change, message):
    features, target, inputs = data
    arguments = {"target": target, "split": PARTS, "settings": TINY} | change
    with pytest.raises(InputError, match=message):
        train(build(inputs, TINY), features, progress=False, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim must be finite and at least 1, got 0"),
        ({"dim": "64"}, "dim must be a whole number, got '64'"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"learning_rate": float("inf")}, "learning_rate must be finite"),
        ({"pool": "median"}, "pool must be one of mean, softmax"),
        ({"strategy": "fsdp"}, "strategy must be auto or one of Lightning's ddp family"),
        ({"precision": "8"}, "precision must be one of 32-true"),
    ],
)
def test_settings_refuse_what_makes_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        Settings(**change)


def test_settings_survive_json_and_numpy():
    settings = Settings(dim=np.int64(8), dropout=np.float32(0.5), learning_rate=1)
    assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    for wrong in ({"colour": 1}, {"dim": [1]}, None):
        with pytest.raises(InputError):
            Settings.from_dict(wrong)


def test_heads_must_divide_the_width_of_a_table():
    with pytest.raises(InputError, match="heads must divide dim, got heads 4 and dim 6"):
        build(Inputs(targets=1, numeric=2), Settings(dim=6))


# Files.


def test_metrics_and_monitor_are_written_and_a_longer_run_goes_on(data, tmp_path):
    whole = run(data, dataclasses.replace(TINY, epochs=5, patience=9))
    run(data, dataclasses.replace(TINY, epochs=2, patience=1), folder=tmp_path)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    longer = run(data, dataclasses.replace(TINY, epochs=5, patience=9), folder=moved, resume=True)
    assert far(weights_of(whole), weights_of(longer)) == 0
    assert longer.rows == whole.rows
    with (moved / "metrics.csv").open() as file:
        rows = [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    assert rows == whole.rows
    assert json.loads((moved / "monitor.json").read_text())["records"] == whole.monitor.records
    again = run(data, dataclasses.replace(TINY, epochs=5, patience=9), folder=moved, resume=True)
    assert far(weights_of(whole), weights_of(again)) == 0
    assert again.epochs == 5


def test_a_full_disk_leaves_the_checkpoint_before_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.training.callbacks.CHECKPOINT_SECONDS", 0.0)
    last, written, sync = tmp_path / "checkpoints" / "last.ckpt", [], os.fsync

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").startswith(str(last.parent)) and last.exists():
            written.append(last.read_bytes())
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", full)
        with pytest.raises(ExcoraError, match=r"last.ckpt: the checkpoint \(.* MB\) could not be written: No space"):
            run(data, folder=tmp_path)
    assert [last.read_bytes()] == written
    assert os.listdir(last.parent) == ["last.ckpt"]
    assert far(weights_of(run(data, folder=tmp_path, resume=True)), weights_of(run(data))) == 0


@pytest.mark.parametrize("content", [b"", b"nonsense", "half", "foreign", "other"])
def test_a_broken_or_foreign_checkpoint_is_refused(data, tmp_path, content):
    last = tmp_path / "checkpoints" / "last.ckpt"
    run(data, dataclasses.replace(TINY, epochs=1), folder=tmp_path)
    if content == "half":
        content = last.read_bytes()[: last.stat().st_size // 2]
    if content == "foreign":
        torch.save({"state_dict": {}, "callbacks": [1]}, last)
    elif content != "other":
        last.write_bytes(content)
    settings = dataclasses.replace(TINY, dim=4) if content == "other" else TINY
    with pytest.raises(
        InputError, match=r"last.ckpt: this (is no checkpoint of Excora|checkpoint is of another model)"
    ):
        run(data, settings, folder=tmp_path, resume=True)


def test_a_logger_that_is_not_installed_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr("lightning.pytorch.loggers.tensorboard._TENSORBOARD_AVAILABLE", False)
    monkeypatch.setattr("lightning.fabric.loggers.tensorboard._TENSORBOARD_AVAILABLE", False)
    monkeypatch.setattr("lightning.fabric.loggers.tensorboard._TENSORBOARDX_AVAILABLE", False)
    with pytest.raises(MissingExtraError, match=r"excora\[tensorboard\]"):
        run(data, dataclasses.replace(TINY, logger="tensorboard"), folder=tmp_path)


def test_tensorboard_gets_its_files(data, tmp_path):
    run(data, dataclasses.replace(TINY, logger="tensorboard"), folder=tmp_path)
    (events,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    assert b"validation_pcc" in events.read_bytes()


def test_a_run_that_improves_in_training_alone_overfits() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 30)).astype(np.float32)
    y = rng.normal(size=(80, 1)).astype(np.float32)  # nothing to learn but by heart
    rows = TableFeatures(x, np.zeros(x.shape, bool), np.zeros((80, 0), np.int64))
    settings = Settings(model="pool", dim=16, epochs=60, patience=12, batch_size=16, accelerator="cpu", criterion="mse")
    parts = Split(np.arange(40), np.arange(40, 80), np.arange(0))
    network = build(Inputs(targets=1, numeric=30), settings)
    training = train(network, rows, y, parts, settings, progress=False)
    assert training.stopped == "patience"
    assert training.monitor.verdict().name == "still improving"
    found = training.verdict()
    assert found.name == "overfitting"
    assert found.evidence["epochs after the best"].value == training.epochs - 1 - training.best_epoch >= 12
