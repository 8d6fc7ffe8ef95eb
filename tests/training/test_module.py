"""The training step against a bare loop: losses, weights, unknown labels, pieces, precision; the score."""

from __future__ import annotations

import numpy as np
import pytest
import samples_data
import torch

from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.models.pool import PoolNetwork
from excora.pooling import parameter_groups
from excora.settings import Settings
from training.samples import PARTS, TINY, Data, far, prepared, run


@pytest.fixture
def data() -> Data:
    return prepared()


def bare(data, settings: Settings, weight=None) -> dict[str, torch.Tensor]:
    """The same training without Lightning: the weights after the last epoch."""
    features, target, _ = data
    setup = settings.settled(data.spec.kind, len(PARTS.train))
    recipe = setup.recipe
    kinds = {"dnpl": DispersionNormalizedPearsonLoss, "pearson": PearsonLoss, "concordance": ConcordanceLoss}
    kind = kinds.get(recipe.correlation, PearsonLoss)
    network = data.network(setup).train()
    weight_of = recipe.correlation_weight if recipe.correlation != "none" else 0.0
    loss = JointLoss(kind(), weight=weight_of, error=recipe.error)
    optimizer = torch.optim.AdamW(parameter_groups(network, recipe.weight_decay), lr=recipe.learning_rate)
    for epoch in range(recipe.epochs):
        order = np.random.default_rng([recipe.seed, epoch]).permutation(PARTS.train)
        for index in (order[:10], order[10:20], order[20:30], order[30:40], order[40:]):
            optimizer.zero_grad()
            output = network(features.read(index))
            w = None if weight is None else torch.from_numpy(weight[index])
            y = torch.from_numpy(target[index])
            few = len(index) < recipe.fewest
            loss.weight = 0.0 if few or recipe.correlation == "none" else recipe.correlation_weight
            loss(output.prediction, y, mask=~y.isnan(), weight=w, penalty=output.penalties).backward()
            optimizer.step()
    return network.state_dict()


@pytest.mark.parametrize(
    ("correlation", "error"),
    [("dnpl", "mse"), ("pearson", "mse"), ("concordance", "mse"), ("none", "mse"), ("none", "mae")],
)
def test_a_run_equals_a_bare_loop(data, correlation, error):
    settings = TINY.replace(correlation=correlation, error=error, epochs=2)
    training = run(data, settings)
    assert training.best_epoch == 1, "the oracle has the weights of the last epoch"
    assert far(training, bare(data, settings)) == 0


def test_the_rest_of_an_epoch_has_no_correlation_loss_where_it_is_small(data):
    few, plain = TINY.replace(correlation="pearson", epochs=2, fewest=8), TINY.replace(correlation="pearson", epochs=2)
    found = run(data, few)
    assert far(found, bare(data, few)) == 0
    assert far(found, bare(data, plain)) > 0


def test_weights_trained_elsewhere_may_have_smaller_steps(data, monkeypatch):
    monkeypatch.setattr(PoolNetwork, "pretrained", lambda self: self.encoder.parameters())
    settings = TINY.replace(epochs=1, pretrained_rate=0.0)
    before = data.network(settings.settled(data.spec.kind, len(PARTS.train))).state_dict()
    after = run(data, settings).network.state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved
    assert not any(name.startswith("encoder.") for name in moved)
    assert any(name.startswith("encoder.") for name in before)


def test_weights_of_samples_reach_loss_and_score(data):
    weight = np.linspace(0, 2, 70).astype(np.float32)
    settings = TINY.replace(epochs=2)
    training = run(data, settings, weight=weight)
    assert training.best_epoch == 1
    assert far(training, bare(data, settings, weight)) == 0
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


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_sample_whose_label_is_unknown_trains_on_those_it_has(accumulate):
    data = prepared(samples_data.bags(targets=2))
    holes = np.random.default_rng(1).random((70, 2)) < 0.3
    holes[:2] = [[True, True], [False, False]]
    data = data._replace(target=np.where(holes, np.float32(np.nan), data.target))
    settings = TINY.replace(epochs=2)
    training = run(data, settings.replace(accumulate=accumulate))
    assert training.best_epoch == 1
    assert far(training, bare(data, settings)) < (1e-5 if accumulate > 1 else 1e-12)
    with torch.no_grad():
        prediction = training.network(data.features.read(PARTS.validation)).prediction.double().numpy()
    truth = data.target[PARTS.validation].astype(np.float64)
    mse = np.nanmean(np.square(prediction - truth), 0).mean()
    assert training.rows[-1]["validation_mse"] == pytest.approx(mse, rel=1e-6)
    pairs = [(x[known], y[known]) for x, y in zip(prediction.T, truth.T, strict=True) for known in [~np.isnan(y)]]
    pcc = np.mean([np.corrcoef(x, y)[0, 1] for x, y in pairs])
    assert training.rows[-1]["validation_pcc"] == pytest.approx(pcc, rel=1e-6)


@pytest.mark.parametrize("change", [{"accumulate": 3}, {"max_elements": 12}])
def test_pieces_give_the_weights_and_records_of_whole_batches(data, change):
    whole, pieces = run(data), run(data, TINY.replace(**change))
    assert far(whole, pieces) < 1e-5
    for a, b in zip(whole.monitor.records, pieces.monitor.records, strict=True):
        for name in ("bags", "pcc", "mse", "effective_elements", "gamma_50", "dispersion"):
            assert a[name] == pytest.approx(b[name], rel=1e-3), name


@pytest.mark.parametrize("accumulate", [1, 2])
def test_mixed_precision_follows_the_full_one(data, accumulate):
    full, mixed = run(data), run(data, TINY.replace(precision="bf16-mixed", accumulate=accumulate))
    for a, b in zip(full.rows, mixed.rows, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=0.02)
        assert a["validation_pcc"] == pytest.approx(b["validation_pcc"], abs=0.02)
    assert all(t.dtype == torch.float32 for t in mixed.network.state_dict().values())


def test_several_targets_and_workers():
    data = prepared(samples_data.bags(targets=2))
    settings = TINY.replace(epochs=2, dropout=0.2)
    plain, workers = run(data, settings), run(data, settings.replace(workers=1))
    assert far(plain, workers) == 0
    assert plain.rows == workers.rows
    assert plain.network.head.out_features == 2


def test_an_undefined_correlation_counts_as_none(data):
    constant = data.target.copy()
    constant[PARTS.validation] = 0.5
    training = run(data._replace(target=constant), TINY.replace(criterion="pcc", epochs=2))
    assert [row["validation_criterion"] for row in training.rows] == [0.0, 0.0]
    assert training.best_epoch == 0
