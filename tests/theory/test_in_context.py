"""The closed forms against the values that a least-squares fit of simulated prompts gives."""

from __future__ import annotations

import numpy as np
import pytest

from excora.errors import InputError
from excora.theory.in_context import best_preconditioner, decay_weights, drift, in_context_risk, retrieved_risk

SPECTRUM = np.diag([4, 2, 1, 0.5, 0.25, 0.1, 0.05, 0.02])


def _mean_and_error(loss):
    return loss.mean(), loss.std() / np.sqrt(len(loss))


def _prompts(rng, draws, n, root, task_root, noise):
    """Queries, sum_i y_i x_i and labels of random prompts."""
    d = len(root)
    x, xs = rng.normal(size=(draws, d)) @ root, rng.normal(size=(draws, n, d)) @ root
    beta = rng.normal(size=(draws, d)) @ task_root
    y = np.einsum("bnd,bd->bn", xs, beta) + np.sqrt(noise) * rng.normal(size=(draws, n))
    return x, np.einsum("bnd,bn->bd", xs, y), (x * beta).sum(1) + np.sqrt(noise) * rng.normal(size=draws)


@pytest.mark.parametrize(
    ("dim", "examples", "noise", "value"), [(10, 10, 0.25, 5.5441), (20, 40, 0.0, 6.8852), (20, 40, 1.0, 8.0968)]
)
def test_in_context_risk_fixed_values(dim, examples, noise, value):
    assert in_context_risk(np.eye(dim), np.eye(dim), examples, noise) == pytest.approx(value, abs=1e-4)
    expected = np.eye(dim) / (examples + dim + 1 + noise)
    np.testing.assert_allclose(best_preconditioner(np.eye(dim), np.eye(dim), examples, noise), expected, atol=1e-12)


def test_in_context_risk_by_rank():
    full, two = (in_context_risk(SPECTRUM, np.eye(8), 20, 0.09, rank) for rank in (None, 2))
    assert (full, two) == (pytest.approx(1.85238, abs=1e-5), pytest.approx(2.93244, abs=1e-5))
    assert in_context_risk(np.eye(8), SPECTRUM, 20, 0.09) == pytest.approx(full)


def test_best_preconditioner_reaches_the_risk_and_no_other_does():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4)) / 2
    sx, sb, n, noise = mix @ mix.T + 0.2 * np.eye(4), np.diag([1.0, 2.0, 0.3, 0.7]), 12, 0.2
    x, v, y = _prompts(rng, 60_000, n, np.linalg.cholesky(sx).T, np.sqrt(sb), noise)
    best = best_preconditioner(sx, sb, n, noise)
    mean, error = _mean_and_error((y - np.einsum("bi,ij,bj->b", x, best, v)) ** 2)
    assert abs(mean - in_context_risk(sx, sb, n, noise)) < 4 * error
    other = best + 0.01 * rng.normal(size=(4, 4))
    assert ((y - np.einsum("bi,ij,bj->b", x, other, v)) ** 2).mean() > mean


def test_drift_weights_are_the_best_and_reach_the_risk():
    n, d, noise = 12, 3, 0.1
    lag = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1)))
    joint = 0.8**lag
    found = drift(joint[:n, :n], joint[:n, n], dim=d, noise=noise)
    rng, draws = np.random.default_rng(1), 60_000
    beta = np.einsum("ij,bjd->bid", np.linalg.cholesky(joint), rng.normal(size=(draws, n + 1, d)))
    xs = rng.normal(size=(draws, n + 1, d))
    y = (xs * beta).sum(2) + np.sqrt(noise) * rng.normal(size=(draws, n + 1))
    each = np.einsum("bd,bnd,bn->bn", xs[:, n], xs[:, :n], y[:, :n])
    mean, error = _mean_and_error((y[:, n] - each @ found.weights) ** 2)
    assert abs(mean - found.weighted) < 4 * error
    total = each.sum(1)
    mean, error = _mean_and_error((y[:, n] - total * (total @ y[:, n]) / (total @ total)) ** 2)
    assert abs(mean - found.plain) < 4 * error
    assert found.weighted < found.plain


def test_drift_ratio_of_the_paper_s_setting():
    lag = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    found = drift(0.9**lag, 0.9 ** np.arange(40, 0, -1), dim=10, noise=0.01)
    assert found.weighted / found.plain == pytest.approx(0.845, abs=1e-3)


def test_without_drift_order_is_worth_nothing():
    found = drift(np.ones((5, 5)), np.ones(5), dim=4, noise=0.3)
    assert found.weighted == pytest.approx(found.plain)
    assert found.plain == pytest.approx(in_context_risk(np.eye(4), np.eye(4), 5, 0.3))


@pytest.mark.parametrize(("alignment", "dim", "examples", "noise"), [(0.5, 6, 8, 0.3), (0.9, 5, 3, 0.1)])
def test_retrieved_risk_is_what_a_simulation_gives(alignment, dim, examples, noise):
    rng, draws = np.random.default_rng(2), 60_000
    x = rng.normal(size=(draws, dim))
    xs = alignment * x[:, None] + np.sqrt(1 - alignment**2) * rng.normal(size=(draws, examples, dim))
    beta = rng.normal(size=(draws, dim))
    y = np.einsum("bnd,bd->bn", xs, beta) + np.sqrt(noise) * rng.normal(size=(draws, examples))
    guess = np.einsum("bd,bnd,bn->b", x, xs, y)
    label = (x * beta).sum(1) + np.sqrt(noise) * rng.normal(size=draws)
    risk, step = retrieved_risk(alignment, examples, dim, noise)
    mean, error = _mean_and_error((label - step * guess) ** 2)
    assert abs(mean - risk) < 4 * error
    assert step == pytest.approx((guess @ label) / (guess @ guess), rel=0.03)


def test_retrieval_of_nothing_alike_is_no_retrieval():
    assert retrieved_risk(0.0, 7, 5, 0.2)[0] == pytest.approx(in_context_risk(np.eye(5), np.eye(5), 7, 0.2))
    assert retrieved_risk(0.5, 0, 5, 0.2) == (5.2, 0.0)


def test_decay_weights_forget():
    weights = decay_weights([0.0, 1.0, 5.0, 50.0], memory=2.0, dim=3, noise=0.1)
    assert (np.diff(weights) < 0).all()
    np.testing.assert_allclose(decay_weights([0.0, 1.0], memory=1e9, dim=3, noise=0.1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: in_context_risk(np.eye(2), np.eye(3), 5, 0.1),
        lambda: in_context_risk([[1.0, 0.4], [0.1, 1.0]], np.eye(2), 5, 0.1),
        lambda: in_context_risk(-np.eye(2), np.eye(2), 5, 0.1),
        lambda: in_context_risk(np.eye(2), np.eye(2), -1, 0.1),
        lambda: drift(np.eye(2), [1.0], dim=3, noise=0.1),
        lambda: decay_weights([1.0, np.nan], memory=1.0, dim=2, noise=0.1),
        lambda: retrieved_risk(1.5, 3, 3, 0.1),
    ],
)
def test_bad_input_is_named(call):
    with pytest.raises(InputError):
        call()
