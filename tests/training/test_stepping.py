"""Schedule, clipping and averaged weights: the parts, and runs against a plain loop."""

from __future__ import annotations

import contextlib
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector
from oracles.rows import plain_rows

from excora.data.splits import Split
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.losses import DispersionNormalizedPearsonLoss, JointLoss
from excora.models import Samples, models
from excora.pooling import parameter_groups
from excora.settings import Recipe, Settings
from excora.training import Training, train
from excora.training.stepping import Average, clip, learning_rate
from training.samples import PARTS, TINY, Data, far, prepared, run

ALL = PARTS._replace(train=np.arange(60), validation=np.arange(0))
PLAIN = TINY.replace(epochs=4, learning_rate=0.02)
#: About every second gradient of this run is longer than the bound.
FULL = PLAIN.replace(schedule="cosine", average=0.6, clip=1.0)


@pytest.fixture(scope="module")
def data() -> Data:
    return prepared()


@pytest.fixture(scope="module")
def full(data: Data) -> Training:
    """The run that others are compared with; nothing changes it."""
    return run(data, FULL)


def plain_loop(data, settings: Settings, index: np.ndarray):
    """The recipe written out: the averaged weights, the rate at the end of each epoch, and which steps were clipped."""
    features, target, _ = data
    setup = settings.settled(data.spec.kind, len(index))
    network, recipe = data.network(setup).train(), setup.recipe
    loss = JointLoss(DispersionNormalizedPearsonLoss(), weight=recipe.correlation_weight)
    optimizer = torch.optim.AdamW(parameter_groups(network, recipe.weight_decay), lr=123.0)
    total = recipe.epochs * math.ceil(len(index) / recipe.batch_size)
    average, rates, clipped, t = {}, [], [], 0
    for epoch in range(recipe.epochs):
        order = np.random.default_rng([recipe.seed, epoch]).permutation(index)
        for start in range(0, len(order), recipe.batch_size):
            batch = order[start : start + recipe.batch_size]
            rate = recipe.learning_rate
            if recipe.schedule == "cosine":
                warm = math.ceil(total / 20)
                rate *= (t + 1) / warm if t < warm else 0.5 + 0.5 * math.cos(math.pi * (t - warm) / (total - warm))
            optimizer.zero_grad()
            output = network(features.read(batch))
            loss(output.prediction, torch.from_numpy(target[batch]), penalty=output.penalties).backward()
            grads = [p.grad for p in network.parameters() if p.grad is not None]
            norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads))
            clipped.append(0 < recipe.clip < norm)
            if clipped[-1]:
                for g in grads:
                    g.mul_(recipe.clip / norm)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            decay = min(recipe.average, t / (9 + t)) if recipe.average else 0.0
            for name, value in network.state_dict().items():
                average[name] = decay * average.get(name, 0.0) + (1 - decay) * value.double()
            t += 1
        rates.append(rate)
    return average, rates, clipped


@given(st.integers(1, 400), st.floats(1e-5, 1.0))
def test_a_cosine_rises_in_a_twentieth_of_the_steps_and_falls_to_nothing(steps, peak):
    constant, cosine = (Recipe(learning_rate=peak, schedule=schedule) for schedule in ("constant", "cosine"))
    rates = [learning_rate(cosine, t, steps) for t in range(steps)]
    warm = -(-steps // 20)
    assert all(0 < rate <= peak for rate in rates)
    assert rates[:warm] == pytest.approx([peak * (t + 1) / warm for t in range(warm)])
    assert rates[warm - 1] == peak
    assert all(a >= b for a, b in zip(rates[warm - 1 :], rates[warm:], strict=False))
    after = [peak * math.cos(math.pi / 2 * (t - warm) / (steps - warm)) ** 2 for t in range(warm, steps)]
    assert rates[warm:] == pytest.approx(after, rel=1e-6, abs=1e-9 * peak)
    assert {learning_rate(constant, t, steps) for t in range(steps)} == {peak}


def test_gradients_within_the_bound_stay_to_the_bit():
    layer = torch.nn.Linear(3, 1)
    layer(torch.randn(4, 3)).sum().backward()
    before = [p.grad.clone() for p in layer.parameters()]
    for bound in (0.0, 1e9):
        clip(layer, bound)
        assert all(torch.equal(p.grad, g) for p, g in zip(layer.parameters(), before, strict=True))
    clip(layer, 1e-3)
    assert float(torch.stack([p.grad.norm() for p in layer.parameters()]).norm()) == pytest.approx(1e-3, rel=1e-3)


def test_the_average_leaves_buffers_and_frozen_weights_and_has_every_name():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    network[2].weight = network[0].weight
    network[0].bias.requires_grad_(False)
    average = Average(network, 0.9)
    average.add(0)
    first = network[0].weight.detach().clone()
    with torch.no_grad():
        network[0].weight.add_(1.0)
        network[1].running_mean.add_(1.0)
    average.add(1)
    state = average.state()
    assert [*state] == [*network.state_dict()]
    assert torch.allclose(state["0.weight"], first + 0.9)
    assert state["2.weight"] is not network[2].weight
    assert torch.equal(state["2.weight"], state["0.weight"])
    for name in ("0.bias", "1.running_mean"):
        assert state[name].data_ptr() == network.state_dict()[name].data_ptr()
    x = torch.randn(5, 2)
    expected = x @ state["0.weight"].T + network[0].bias
    expected = network[1].eval()(expected) @ state["0.weight"].T + network[2].bias
    assert torch.allclose(average(x), expected, atol=1e-6)
    assert torch.equal(network[0].weight, first + 1), "the network's own weights are back"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (PLAIN.replace(schedule="cosine"), PARTS),
        (PLAIN.replace(average=0.6), PARTS),
        (PLAIN.replace(clip=1.0), PARTS),
        (FULL, PARTS),
        (PLAIN, ALL),
        (FULL, ALL),
    ],
    ids=["schedule", "average", "clip", "all", "no validation", "no validation, all"],
)
def test_a_run_equals_a_plain_loop(data, settings, parts):
    training = run(data, settings, parts)
    weights, rates, clipped = plain_loop(data, settings, parts.train)
    recipe = settings.settled(data.spec.kind, len(parts.train)).recipe
    assert training.best_epoch == 3, "the oracle has the weights of the last epoch"
    assert far(training, {name: value.float() for name, value in weights.items()}) < 1e-6
    assert [row["learning_rate"] for row in training.rows] == pytest.approx(rates, rel=1e-12)
    assert not recipe.clip or 3 < sum(clipped) < len(clipped) - 3


def test_scores_are_those_of_the_averaged_weights(data, full):
    (features, target, _), training = data, full
    with torch.no_grad():
        prediction = training.network(features.read(PARTS.validation)).prediction
    mse = (prediction - torch.from_numpy(target[PARTS.validation])).square().mean()
    assert training.rows[3]["validation_mse"] == pytest.approx(float(mse), rel=1e-6)
    running = run(data, FULL.replace(average=0.0))
    assert training.rows[3]["validation_mse"] != pytest.approx(running.rows[3]["validation_mse"], rel=1e-3)
    assert [row["train_loss"] for row in training.rows] == [row["train_loss"] for row in running.rows]


def test_pieces_give_the_weights_of_whole_batches(data, full):
    whole, pieces = full, run(data, FULL.replace(accumulate=3))
    assert far(whole, pieces) < 1e-5
    for a, b in zip(whole.rows, pieces.rows, strict=True):
        assert a == pytest.approx(b, rel=1e-4)


class Factor(MixedPrecision):
    """16-bit training without the 16 bits: a power of two on loss and gradients changes no digit of the weights."""

    def __init__(self):
        super().__init__("16-mixed", "cpu", torch.amp.GradScaler("cpu"))

    def autocast_context_manager(self):
        return contextlib.nullcontext()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_factor_of_16_bit_training_is_gone_before_the_gradient_is_bounded(data, monkeypatch, accumulate):
    settings = FULL.replace(accumulate=accumulate)
    without = run(data, settings)
    monkeypatch.setattr(_AcceleratorConnector, "_check_and_init_precision", lambda _: Factor())
    assert far(without, run(data, settings)) == 0


@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranks_give_the_weights_of_one_process(data, full, accumulate):
    ranks = {"accelerator": "cpu", "devices": 2, "strategy": "ddp_fork"}
    spread = run(data, FULL.replace(accumulate=accumulate, **ranks))
    assert far(full, spread) < 1e-5


@pytest.mark.parametrize(("parts", "accumulate"), [(PARTS, 1), (ALL, 2)], ids=["validation", "none, in pieces"])
def test_a_run_that_stops_after_any_epoch_resumes_to_the_last_byte(data, tmp_path, monkeypatch, parts, accumulate):
    monkeypatch.setattr("excora.training.callbacks.CHECKPOINT_SECONDS", 0.0)
    settings = FULL.replace(dropout=0.2, accumulate=accumulate)
    whole, step = run(data, settings, parts, folder=tmp_path / "whole"), torch.optim.AdamW.step
    for stop in (7, 13):  # steps; 5 or 6 make an epoch
        left = [stop]

        def failing(*arguments, left=left, **keywords):
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("power cut")
            return step(*arguments, **keywords)

        with monkeypatch.context() as patch:
            patch.setattr(torch.optim.AdamW, "step", failing)
            with pytest.raises(RuntimeError, match="power cut"):
                run(data, settings, parts, folder=tmp_path / "cut", resume=True)
    resumed = run(data, settings, parts, folder=tmp_path / "cut", resume=True)
    assert far(whole, resumed) == 0
    assert resumed.rows == whole.rows
    assert resumed.monitor.records == whole.monitor.records
    last, other = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True) for name in ("cut", "whole")
    )
    assert all(torch.equal(value, other["average"][name]) for name, value in last["average"].items())
    for name in ("metrics.csv", "monitor.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_checkpoint_with_and_one_without_an_average_are_told_apart(data, tmp_path):
    for name, before, after in (("with", FULL, PLAIN), ("without", PLAIN, FULL)):
        folder = tmp_path / name
        run(data, before.replace(epochs=1), folder=folder)
        with pytest.raises(InputError, match="another model, it differs in average of encoder"):
            run(data, after, folder=folder, resume=True)


def test_rows_that_a_network_remembers_are_not_averaged():
    x = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    index = np.arange(80)
    parts = Split(index[:60], index[60:], index[:0])
    model, samples = models["retrieval"], Samples(plain_rows(x), x[:, :1], parts.train)
    spec, options = TableSpec(targets=1, numeric=2), model.Options(neighbours=4)
    network, features = model.build(spec, samples, options, seed=0)
    recipe = FULL.settled("bags", 60).recipe
    training = train(network, features, x[:, :1], parts, dataclasses.replace(recipe, epochs=2), progress=False)
    assert training.rows[-1]["validation_pcc"] > 0.5
    state = training.network.state_dict()
    assert torch.equal(state["context_numeric"], torch.from_numpy(x[:60]))
    assert torch.equal(state["context_labels"], torch.from_numpy(x[:60, :1]))
