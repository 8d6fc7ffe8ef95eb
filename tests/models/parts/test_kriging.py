"""The kriging solve against the textbook's system, its gradient, and the metric that is learned with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.kriging import gls_mean, kriging
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from excora.models.parts import kriging as module
from excora.models.parts.kriging import (
    Asked,
    Keys,
    Labelled,
    Part,
    choose,
    distance,
    learn,
    predict,
    search,
    typical,
)
from excora.models.parts.neighbours import Excluded
from excora.pooling.kriging import krige


def covariances(seed: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(k + 1, 2)))
    found = distance(x, x).neg().exp()
    return found[:k, :k], found[k, :k]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 9), nugget=st.floats(1e-3, 3.0))
def test_weights_and_variance_are_those_of_the_textbook(seed, k, nugget):
    between, toward = covariances(seed, k)
    found = krige(between, toward, torch.tensor(nugget, dtype=torch.float64))
    weights, variance = kriging(between.numpy(), toward.numpy(), np.array(nugget))
    np.testing.assert_allclose(found.weights, weights, atol=1e-9)
    assert float(found.variance) == pytest.approx(variance, abs=1e-9)
    assert float(found.weights.sum()) == pytest.approx(1.0, abs=1e-9)


def test_it_is_a_gaussian_process_about_its_own_mean():
    rng = np.random.default_rng(0)
    x, query, label = rng.normal(size=(12, 3)), rng.normal(size=(1, 3)), rng.normal(size=12)
    between, toward = (torch.exp(-distance(torch.from_numpy(a), torch.from_numpy(x))) for a in (x, query))
    found = krige(between, toward[0], torch.tensor(0.2, dtype=torch.float64))
    mean = gls_mean(between.numpy(), np.array(0.2), label)
    peer = GaussianProcessRegressor(Matern(1.0, nu=0.5), alpha=0.2, optimizer=None).fit(x, label - mean)
    # Equal rows are at a distance of 1e-5, so that its gradient is finite.
    assert float(found.weights @ torch.from_numpy(label)) == pytest.approx(mean + peer.predict(query)[0], abs=1e-4)


def test_neighbours_that_are_not_there_change_nothing():
    between, toward = covariances(3, 6)
    nugget = torch.full((6,), 0.1, dtype=torch.float64)
    real = torch.tensor([True, False, True, True, False, False])
    masked = krige(between, toward, nugget, real)
    fewer = krige(between[real][:, real], toward[real], nugget[real])
    torch.testing.assert_close(masked.weights[real], fewer.weights)
    torch.testing.assert_close(masked.variance, fewer.variance)
    assert not masked.weights[~real].any()
    nobody = krige(between, toward, nugget, torch.zeros(6, dtype=torch.bool))
    assert not nobody.weights.any()
    assert float(nobody.variance) == 1.0


@pytest.mark.parametrize("known", [1.0, 0.6])
def test_the_gradient_of_a_prediction_is_the_true_one(known):
    generator = torch.Generator().manual_seed(0)
    around = torch.rand(3, 5, 2, generator=generator, dtype=torch.float64)
    label = torch.randn(3, 5, 2, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 5, 2, generator=generator) < known
    near = Labelled(around, torch.where(mask, label, 0.0), mask, torch.ones(3, 5, dtype=torch.float64))
    allowed = torch.ones(3, 5, dtype=torch.bool)
    own = torch.rand(3, 1, 2, generator=generator, dtype=torch.float64)

    def guess(scale: torch.Tensor) -> torch.Tensor:
        keys = around * scale
        return predict(distance(own * scale, keys)[:, 0], distance(keys, keys), near, allowed, 1.3, 0.1)[0]

    scale = torch.tensor([0.7, 1.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(guess, (scale,), atol=1e-4, rtol=1e-3)


@pytest.fixture(scope="module")
def wave() -> Labelled:
    """160 rows of 5 channels, one of which matters."""
    x = torch.randn(160, 5, generator=torch.Generator().manual_seed(0))
    return Labelled(x, torch.sin(3 * x[:, :1]), torch.ones(160, 1, dtype=torch.bool), torch.ones(160))


def test_the_metric_finds_the_channel_that_matters(wave):
    generator = torch.Generator().manual_seed(0)
    part = Part.of(wave, torch.arange(120), torch.arange(120, 160), Excluded(torch.arange(160)[:, None]))
    keys = learn(part, torch.zeros(5), generator, steps=40)
    start = Keys(torch.zeros(5), torch.zeros(5, 4))
    assert int(keys.scale.argmax()) == 0
    errors = [(choose(part, k, generator, 30).guess - part.held.label).square().mean() for k in (keys, start)]
    assert errors[0] < 0.5 * errors[1]
    assert typical(torch.zeros(3, 2), generator) == 1.0


@pytest.mark.parametrize("kind", ["nobody", "one", "pairs"])
def test_a_search_in_pieces_finds_the_same(monkeypatch, kind):
    generator = torch.Generator().manual_seed(0)
    query, candidate = torch.randn(7, 3, generator=generator), torch.randn(30, 3, generator=generator)
    banned = {"nobody": None, "one": torch.arange(7), "pairs": torch.rand(7, 30, generator=generator) < 0.9}[kind]
    found, allowed = search(query, candidate, 5, banned)
    distances = torch.cdist(query.double(), candidate.double())
    if kind == "one":
        assert not (found == torch.arange(7).unsqueeze(1)).any()
    elif banned is not None:
        assert torch.equal(allowed, ~banned.gather(1, found))
        distances.masked_fill_(banned, torch.inf)
    assert kind == "one" or torch.equal(distances.gather(1, found)[allowed], distances.sort(1).values[:, :5][allowed])
    monkeypatch.setattr("excora.models.parts.kriging.PAIRS", 60)
    again = search(query, candidate, 5, banned)
    assert torch.equal(again[0], found)
    assert torch.equal(again[1], allowed)


@pytest.mark.parametrize("targets", [1, 2])
def test_distances_of_all_rows_give_the_error_and_slope_of_those_that_were_gathered(monkeypatch, targets):
    torch.manual_seed(0)
    x, y = torch.randn(60, 9).double(), torch.randn(60, targets).double()
    rows = Labelled(x, y, torch.ones(60, targets).bool(), torch.ones(60).double())
    part = Part.of(rows, torch.arange(45), torch.arange(45, 60), Excluded(torch.arange(60).unsqueeze(1)))
    query, found = torch.arange(20), []
    for wide in (1, 10):
        monkeypatch.setattr(module, "WIDE", wide)
        keys = Keys(*(torch.full(size, -1.0).double().requires_grad_() for size in ((9,), (9, 2))))
        error = module.step_error(part, keys, query, 0.1)
        asked = Asked.of(part, keys, 12)
        found.append((error.detach(), *torch.autograd.grad(error, keys), asked.toward, asked.between))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)
