"""Training, of every registered model: it learns, exactly so in pieces, on ranks and after a break."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

from contracts.cases import CASES, ONCE, PARTS, TRAINED, Case
from excora.settings import Settings, Setup
from excora.training import Training, train
from excora.training.building import Built, build
from excora.training.module import Regression

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_trained = pytest.mark.parametrize("case", TRAINED, ids=str)


def run(case: Case, setup: Setup | None = None, **options) -> Training:
    """A training from the start."""
    setup = setup or case.setup()
    return go(case.built(setup.recipe.seed), setup, **options)


@functools.cache  # several tests compare another run to it; none changes it
def whole(case: Case) -> Training:
    """A training from the start, with nothing asked for."""
    return run(case)


def go(built: Built, setup: Setup, **options) -> Training:
    arguments = (built.network, built.features, built.target, PARTS, setup.recipe, setup.machine)
    return train(*arguments, progress=False, **options)


@pytest.fixture
def plain_steps(monkeypatch):
    """Steps as long as the gradient: Adam makes steps of full length of what is rounding in a small one."""

    def configure(module: Regression) -> torch.optim.Optimizer:
        learns = [p for p in module.parameters() if p.requires_grad]
        return torch.optim.SGD(learns, lr=module.recipe.learning_rate)

    monkeypatch.setattr(Regression, "configure_optimizers", configure)


def far(a: Training, b: Training) -> float:
    ours, others = (x.network.state_dict() for x in (a, b))
    return max(float((ours[name].double() - others[name].double()).abs().max()) for name in others)


@pytest.mark.parametrize("case", [case for case in ONCE if case.model.trained], ids=str)
def test_it_learns_by_its_own_recipe(case):
    asked = Settings(case.name, epochs=4, batch_size=10, accelerator="cpu")
    training = run(case, asked.settled(case.kind, len(PARTS.train)))
    losses = [row["train_loss"] for row in training.rows]
    assert all(map(math.isfinite, losses))
    assert min(losses[1:]) < losses[0]
    assert len(training.monitor.records) == 4
    prediction = training.network(case.built().features.read(PARTS.test)).prediction
    assert prediction.isfinite().all()


@every_trained
@pytest.mark.usefixtures("plain_steps")
def test_pieces_give_the_weights_of_whole_batches(case):
    at_once, pieces = (run(case, case.setup(learning_rate=0.05, accumulate=n)) for n in (1, 2))
    assert far(at_once, pieces) < 1e-5
    start = dict(case.built().network.named_parameters())
    moved = max(float((p - start[name]).abs().max().detach()) for name, p in at_once.network.named_parameters())
    assert moved > 5e-3, "a run that does nothing proves nothing"


@every_trained
@pytest.mark.usefixtures("plain_steps")
def test_two_ranks_give_the_weights_of_one_process(case):
    """42 samples in batches of 10: of the last, of 2, each rank has one."""
    plain, ranks = {"learning_rate": 0.02, "batch_size": 10, "epochs": 1}, {"devices": 2, "strategy": "ddp_fork"}
    alone, spread = (run(case, case.setup(**plain, **machine)) for machine in ({}, ranks))
    assert far(alone, spread) < 1e-5
    assert spread.rows[0] == pytest.approx(alone.rows[0], rel=1e-4)


@every_trained
def test_a_run_goes_on_to_the_last_bit(case, tmp_path):
    unbroken = run(case, case.setup(average=0.5, clip=1.0))
    run(case, case.setup(average=0.5, clip=1.0, epochs=1), folder=tmp_path)
    resumed = run(case, case.setup(average=0.5, clip=1.0), folder=tmp_path, resume=True)
    assert far(unbroken, resumed) == 0
    assert resumed.rows == unbroken.rows


@every_trained
@pytest.mark.usefixtures("plain_steps")
def test_a_start_from_ridge_is_exact_in_pieces_and_on_ranks(case):
    """Without validation, so that the last epoch is kept, whatever the ridge is worth.

    On ranks for the first model of each kind of samples: that every network is exact on ranks is asked above.
    """
    plain, found = {"learning_rate": 0.05, "epochs": 1, "start": "ridge"}, []
    first = next(other for other in TRAINED if other.kind == case.kind)
    ranks = {"devices": 2, "strategy": "ddp_fork"} if case == first else {}
    for other in ({}, {"accumulate": 2, **ranks}):
        setup = case.setup(**plain, **other)
        built = build(case.dataset(), PARTS.train, setup)
        parts = PARTS._replace(validation=PARTS.test[:0])
        arguments = (built.network, built.features, built.target, parts, setup.recipe, setup.machine)
        found.append(train(*arguments, progress=False))
    assert built.start.kind == "ridge"
    assert far(*found) < 1e-5
    assert found[0].network.linear_start.weight.any()


@every_case
def test_labels_may_be_unknown(case):
    dataset = case.dataset(targets=2)
    dataset.target[::3, 1] = np.nan
    setup = case.setup()
    found = []
    for built in (build(dataset, PARTS.train, setup), case.built(targets=2)):
        training = go(built, setup)
        assert all(math.isfinite(value) for row in training.rows for value in row.values())
        found.append(training.network(built.features.read(PARTS.validation)).prediction)
        assert found[-1].isfinite().all()
    assert not torch.allclose(*found), "labels that are known count"


@every_trained
def test_it_trains_in_mixed_precision(case):
    full, mixed = whole(case), run(case, case.setup(precision="bf16-mixed"))
    assert all(t.dtype == full.network.state_dict()[name].dtype for name, t in mixed.network.state_dict().items())
    assert mixed.rows[-1]["train_loss"] == pytest.approx(full.rows[-1]["train_loss"], rel=0.1)


@every_trained
def test_a_trained_network_goes_on_from_its_weights(case):
    setup = case.setup()
    first = whole(case).network
    before = {name: p.clone() for name, p in first.state_dict().items()}
    built = build(case.dataset(), PARTS.train, setup, start=first)
    assert built.network is not first
    with torch.no_grad():
        x = built.features.read(PARTS.validation)
        assert torch.equal(built.network.eval()(x).prediction, first(x).prediction)
    again = go(built, setup)
    assert far(again, whole(case)) > 0
    assert all(torch.equal(p, before[name]) for name, p in first.state_dict().items()), "the first is left as it was"


@pytest.mark.parametrize("case", [case for case in CASES if not case.model.trained], ids=str)
def test_a_network_that_is_fitted_when_it_is_built_is_scored_alone(case, tmp_path):
    built = case.built()
    before = {name: t.clone() for name, t in built.network.state_dict().items()}
    training = go(built, case.setup(), folder=tmp_path)
    assert f"Validation PCC is {training.rows[0]['validation_pcc']:.3f}" in training.verdict().sentence
    assert (training.stopped, training.epochs, training.best_epoch) == ("fitted", 1, 0)
    found = training.network(built.features.read(PARTS.validation)).prediction[:, 0].numpy()
    truth = built.target[PARTS.validation, 0]
    assert training.rows[0]["validation_pcc"] == pytest.approx(np.corrcoef(found, truth)[0, 1], abs=1e-5)
    assert training.rows[0]["validation_mse"] == pytest.approx(np.square(found - truth).mean(), rel=1e-4)
    assert all(torch.equal(t, before[name]) for name, t in training.network.state_dict().items())
    assert (tmp_path / "metrics.csv").read_text().startswith("epoch,")
