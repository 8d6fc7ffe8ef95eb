"""The start from ridge: what a network begins as, when it does, and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import samples_data
import torch
from oracles.rows import randomised

from excora.data.bags import ArrayBags, BagSet, BagSpec
from excora.data.dataset import Dataset
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models import Samples
from excora.models.files import restore
from excora.models.parts.start import LinearStart, begin, summaries
from excora.ragged import Ragged
from excora.settings import Settings
from excora.training.building import build

TRAIN, VALIDATION = np.arange(45), np.arange(45, 60)


def setup(model: str, kind: str, start: str = "ridge"):
    return Settings(model, start=start, accelerator="cpu").settled(kind, len(TRAIN))


def built(model: str, data: Dataset, start: str = "ridge"):
    return build(data, TRAIN, setup(model, data.kind, start), validation=VALIDATION)


def noise(data: Dataset) -> Dataset:
    data.target[:] = np.random.default_rng(3).normal(size=data.target.shape)
    return data


MODELS = [("pool", "table"), ("pool", "bags"), ("ft-transformer", "table"), ("retrieval", "table")]


@pytest.mark.parametrize(("model", "kind"), MODELS)
def test_a_fresh_network_is_the_ridge(model, kind):
    data = samples_data.KINDS[kind](targets=2)
    found = built(model, data)
    spec, network = found.preparation.spec, found.network.eval()
    x, y = summaries(spec, found.features, TRAIN), found.target[TRAIN].astype(float)
    std = x.std(0)
    z = np.clip((x - x.mean(0)) / np.where(std > 1e-12, std, 1.0), -5, 5)
    z = z - z.mean(0)
    prediction = network(found.features.read(TRAIN)).prediction.detach().double().numpy()
    assert found.start.kind == "ridge"
    for t in range(2):
        # The least of the left-out errors of all penalties, each by the textbook formula.
        errors, fits = [], []
        for alpha in np.logspace(-2, 5, 22):
            hat = z @ np.linalg.solve(z.T @ z + alpha * np.eye(z.shape[1]), z.T) + 1 / len(z)
            fits.append(hat @ (y[:, t] - y[:, t].mean()) + y[:, t].mean())
            errors.append((((y[:, t] - fits[-1]) / (1 - hat.diagonal())) ** 2).sum())
        np.testing.assert_allclose(prediction[:, t], fits[int(np.argmin(errors))], atol=2e-5)


@pytest.mark.parametrize(("model", "kind"), MODELS)
def test_it_goes_through_a_file(model, kind):
    found = built(model, samples_data.KINDS[kind]())
    network = randomised(found.network).eval()
    chosen, spec = setup(model, kind), found.preparation.spec
    again = restore(model, spec, chosen.options, network.learned, network.state_dict())
    inputs = found.features.read(np.arange(60, 70))
    assert torch.equal(again(inputs).prediction, network(inputs).prediction)
    broken = network.state_dict() | {"linear_start.weight": torch.full_like(network.linear_start.weight, torch.nan)}
    with pytest.raises(InputError, match=r"damaged in .*weight"):
        restore(model, spec, chosen.options, network.learned, broken)
    short = {name: t[:-1] if name == "linear_start.weight" else t for name, t in network.state_dict().items()}
    with pytest.raises(InputError, match=r"linear_start\.weight"):
        restore(model, spec, chosen.options, network.learned, short)


def test_auto_starts_from_a_ridge_that_predicts_and_says_why():
    found = built("pool", samples_data.table(), "auto")
    assert found.start.kind == "ridge"
    assert found.start.low > 0
    assert f"{found.start.pcc:.3f}" in found.start.note


def test_auto_starts_from_nothing_where_labels_are_noise():
    found = built("pool", noise(samples_data.table()), "auto")
    plain = built("pool", noise(samples_data.table()), "none")
    assert found.start.kind == "none"
    assert "not above 0" in found.start.note
    assert found.network.linear_start is None
    mine, theirs = (one.network.state_dict() for one in (found, plain))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert plain.start.note == ""


def test_auto_asks_validation_as_well():
    data = samples_data.table()
    data.target[VALIDATION] *= -1  # what the ridge has learned is wrong there
    found = built("pool", data, "auto")
    assert found.start.kind == "none"
    assert "does not help on validation" in found.start.note


def test_auto_decides_target_by_target():
    data = samples_data.table(targets=2)
    data.target[:, 1] = np.random.default_rng(3).normal(size=len(data))
    found = built("pool", data, "auto")
    assert found.start.targets == 1
    assert "1 of 2 targets" in found.start.note
    weight = found.network.linear_start.weight
    assert weight[:, 0].any()
    assert not weight[:, 1].any()


def test_samples_of_weight_zero_do_not_count():
    data = samples_data.table()
    weight = np.ones(len(data))
    weight[:9] = 0.0
    some = Dataset(data.ids, data.targets, data.target, data.content, weight=weight)
    whole = build(some, TRAIN, setup("pool", "table"), validation=VALIDATION)
    prepared = whole.preparation
    fewer = build(data, TRAIN[9:], setup("pool", "table"), preparation=prepared)
    mine, theirs = (one.network.linear_start.weight for one in (whole, fewer))
    torch.testing.assert_close(mine, theirs)


def test_a_wild_cell_makes_no_wild_prediction():
    found = built("pool", samples_data.table())
    inputs = found.features.read(VALIDATION)
    wild = {**inputs, "numeric": inputs["numeric"] * 1e5}
    start, y = found.network.linear_start, found.target[TRAIN]
    reach = (y.max() - y.min()) / 2
    assert start(wild).max() <= y.max() + reach + 1e-6
    assert start(wild).min() >= y.min() - reach - 1e-6
    assert start(wild).std() > 0


def test_ridge_that_cannot_be_is_an_error_and_auto_goes_without():
    found = built("pool", samples_data.table(), "none")
    samples = Samples(found.features, found.target, TRAIN[:2])
    with pytest.raises(InputError, match="needs 3 training samples, there are 2"):
        begin(found.network, found.preparation.spec, samples, "ridge")
    assert begin(found.network, found.preparation.spec, samples, "auto").kind == "none"


def test_a_network_without_a_last_layer_is_left_alone():
    found = built("pool", samples_data.table(), "none")
    network = found.network
    network.head = torch.nn.Sequential(network.head, torch.nn.Sigmoid())  # never 0
    before = copy.deepcopy(network.state_dict())
    samples = Samples(found.features, found.target, TRAIN)
    assert "no last layer" in begin(network, found.preparation.spec, samples, "auto").note
    assert all(torch.equal(before[name], t) for name, t in network.state_dict().items())


def test_summaries_of_bags_are_those_of_numpy():
    generator = np.random.default_rng(0)
    bags = [generator.normal(size=(n, 2)).astype(np.float32) for n in (1, 4, 3)]
    rows = [np.concatenate([b.mean(0), b.std(0), b.sum(0), [np.log(len(b))]]) for b in bags]
    found = BagSpec(targets=1, width=2).summarise({"elements": Ragged.collate([torch.from_numpy(b) for b in bags])})
    np.testing.assert_allclose(found.numpy(), rows, atol=1e-6)
    box = BagSpec(targets=1, width=2).summarise({"elements": torch.from_numpy(bags[1])[None]})
    np.testing.assert_allclose(box.numpy()[0], rows[1], atol=1e-6)


def test_a_count_and_a_sum_are_there_for_bags():
    """Labels that only the number of elements explains, and only their sum."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 30, 70)
    values = generator.normal(size=(lengths.sum(), 2)).astype(np.float32)
    total = np.add.reduceat(values[:, 0], np.cumsum(lengths) - lengths)
    y = np.stack([np.log(lengths), total], 1).astype(float)
    data = Dataset(np.arange(70).astype(str).astype(object), ("n", "sum"), y, BagSet(ArrayBags(values, lengths)))
    found = built("pool", data, "auto")
    assert found.start.targets == 2
    assert found.start.low > 0.99


def test_empty_bags_and_no_rows_have_summaries():
    spec = BagSpec(targets=1, width=2)
    empty = Ragged(torch.ones(2, 2), torch.tensor([0, 2]))
    assert spec.summarise({"elements": empty})[0].tolist() == [0.0] * 7
    assert spec.summarise({"elements": Ragged(torch.ones(0, 2), torch.zeros(0, dtype=torch.long))}).shape == (0, 7)


def test_half_precision_is_read_in_full():
    start = LinearStart(TableSpec(targets=1, numeric=1))
    start.weight.fill_(1.0)
    start.high.fill_(9.0)
    inputs = {"numeric": torch.tensor([[0.1234567]]), "missing": torch.tensor([[False]])}
    inputs["codes"] = torch.zeros(1, 0, dtype=torch.long)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert float(start(inputs)) == pytest.approx(0.1234567, abs=1e-7)
