"""The worth of pooling weights, estimated from sequences of which it is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.diagnosis.pooling_gain import pooling_gain
from excora.errors import InputError
from excora.pooling import MeanPool, SoftmaxPool
from excora.pooling.fixed import PositionPool
from excora.tasks.pooled_mixture import PooledMixtureTask
from excora.theory.spectral import best_weights, gain_of, harmonic_weights

TASK = PooledMixtureTask(dim=40, vocabulary=1000, signal=1.5, length=8)


@pytest.fixture(scope="module")
def sequences():
    return TASK.sample(3000, seed=1)[0]


@pytest.mark.parametrize("which", ["mean", "harmonic", "best"])
def test_gain_and_alignment_are_those_of_the_generator(sequences, which):
    w = {"mean": np.ones(8) / 8, "harmonic": harmonic_weights(8), "best": best_weights(TASK.correlation)}[which]
    found = pooling_gain(PositionPool(40, w), sequences, vocabulary=1000)
    assert found.gain == pytest.approx(gain_of(w, TASK.correlation), rel=0.15)  # spread over tables 0.05
    assert found.signal == pytest.approx(1.5, rel=0.2)
    np.testing.assert_allclose(found.weights, w, atol=1e-6)
    assert np.abs(found.correlation - TASK.correlation).max() < 0.15
    values, vectors = np.linalg.eigh(np.cov(np.einsum("l,nld->dn", w, sequences.double().numpy())))
    mu = TASK.table()[1].numpy()
    assert found.recovery.separates
    assert found.recovery.alignment == pytest.approx((vectors[:, -1] @ mu) ** 2 / (mu @ mu), abs=0.05)
    assert found.recovery.outlier == pytest.approx(values[-1], rel=0.1)


def test_units_of_the_data_do_not_matter_and_the_pool_stays_as_it_was(sequences):
    pool = SoftmaxPool(40, dropout=0.2).train()
    with torch.no_grad():
        pool.scorer.weight.zero_()
    one, other = (pooling_gain(pool, x, vocabulary=1000) for x in (sequences, 10 * sequences + 3))
    assert pool.training
    assert other.gain == pytest.approx(one.gain, rel=1e-4)
    assert other.recovery.outlier == pytest.approx(100 * one.recovery.outlier, rel=1e-3)


def test_places_that_few_sequences_have_count_by_their_pairs(sequences):
    mask = torch.arange(8) < torch.randint(3, 9, (len(sequences), 1), generator=torch.Generator().manual_seed(0))
    found = pooling_gain(MeanPool(40), torch.where(mask.unsqueeze(-1), sequences, torch.nan), mask, vocabulary=1000)
    assert np.abs(found.correlation - TASK.correlation).max() < 0.3
    lengths = mask.sum(1).numpy()
    wanted = [gain_of(np.ones(n), TASK.correlation[:n, :n]) / n for n in lengths]
    assert found.gain == pytest.approx(np.mean(wanted) / np.mean(1 / lengths), rel=0.15)  # spread over tables 0.05


def test_what_cannot_be_measured_is_refused(sequences):
    for h, mask, message in (
        (sequences[:4], None, "at least 8 sequences"),
        (sequences[:20], torch.arange(8).flip(0).expand(20, 8) < 5, "come first"),
    ):
        with pytest.raises(InputError, match=message):
            pooling_gain(MeanPool(40), h, mask)
    h = torch.randn(200, 4, 5, generator=torch.Generator().manual_seed(0))
    h[..., 0] = 0.6 * h[:, :1, 0]  # what the places share is less than the noise of the other channels
    with pytest.raises(InputError, match="no direction stands out"):
        pooling_gain(MeanPool(5), h)
