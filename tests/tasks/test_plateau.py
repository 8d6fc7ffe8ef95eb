"""The synthetic task: its distribution, its ceilings, and the degenerate literal form."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from excora.errors import InputError
from excora.functional import dispersion
from excora.tasks.plateau import LEVELS, PlateauTask
from excora.theory import achievable_ceiling, prediction_range, rms_over_bags

DOUBLE = torch.float64
GRID = [(0.2, 0.25), (0.6, 0.55), (1.1, 0.85), (2.0, 1.4)]


def least_squares_pcc(features: Tensor, y: Tensor) -> float:
    """PCC of y with its best linear prediction from the features, in sample."""
    return multiple_correlation(torch.cat([features, y.unsqueeze(1)], 1).t().cov())


def multiple_correlation(covariance: Tensor) -> float:
    """The same from the covariance of the features and, last, y: sqrt(c' C^-1 c / var(y))."""
    c = covariance[:-1, -1]
    return (c @ torch.linalg.solve(covariance[:-1, :-1], c) / covariance[-1, -1]).sqrt().item()


@pytest.mark.parametrize("form", ["strength", "literal"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_solver_hits_the_wanted_dispersion(form: str, level: float) -> None:
    task = PlateauTask(form=form, eta=1.0, nu=0.8).with_dispersion(level)
    assert task.dispersion == pytest.approx(level, rel=1e-12)
    assert task.eta / task.nu == pytest.approx(1.0 / 0.8)
    for bags, seed in ((2000, 0), (20_000, 1)):
        h, _ = task.sample(bags, seed=seed)
        assert rms_over_bags(dispersion(h)).item() == pytest.approx(level, rel=0.02)


def test_a_dispersion_out_of_reach_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be reached"):
        PlateauTask().with_dispersion(0.03)
    with pytest.raises(InputError, match="cannot be reached"):
        PlateauTask(eta=0.0, nu=0.0).with_dispersion(0.3)
    with pytest.raises(InputError, match="form"):
        PlateauTask(form="constant")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 2"):
        PlateauTask(elements=1)
    with pytest.raises(InputError, match="negative"):
        PlateauTask(label_std=-1.0)
    with pytest.raises(InputError, match="gain"):
        PlateauTask().attention_pcc(-1.0)


def test_samples_follow_the_generator() -> None:
    task = PlateauTask(eta=1.5, nu=0.7, kappa=2.0, floor_std=0.0, label_std=0.0)
    along, across = task.directions()
    torch.testing.assert_close(
        torch.stack([along, across]) @ torch.stack([along, across]).t(), torch.eye(2, dtype=DOUBLE)
    )
    h, y = task.sample(500, seed=3, dtype=DOUBLE)
    centre, moved = h[:, 0], h[:, -1] - h[:, 0]
    strength = moved @ along / 1.5
    torch.testing.assert_close(moved, 1.5 * strength.unsqueeze(1) * along + 0.7 * across)
    torch.testing.assert_close(y, centre @ along + 2.0 * strength)
    assert (h[:, :-1] - h[:, :1]).abs().max() == 0
    assert abs(strength.std() - 1) < 0.1
    literal, y = dataclasses.replace(task, form="literal").sample(500, seed=3, dtype=DOUBLE)
    torch.testing.assert_close(literal[:, -1] - literal[:, 0], (1.5 * along + 0.7 * across).expand(500, 16))
    torch.testing.assert_close(y, literal[:, 0] @ along + 2.0)


def test_samples_depend_on_the_seed_alone() -> None:
    task = PlateauTask()
    (h, y), (again, _), (other, _) = (task.sample(50, seed=s) for s in (1, 1, 2))
    double, _ = task.sample(50, seed=1, dtype=DOUBLE)
    assert h.dtype == y.dtype == torch.float32
    assert torch.equal(h, again)
    assert torch.equal(h, double.float())
    assert not torch.equal(h, other)
    assert (task.directions()[0] - PlateauTask(direction_seed=1).directions()[0]).norm() > 0.1


def test_the_literal_form_is_degenerate() -> None:
    for eta, nu in GRID:
        task = PlateauTask(form="literal", eta=eta, nu=nu, kappa=2 * eta)
        h, y = task.sample(2000, seed=0, dtype=DOUBLE)
        assert least_squares_pcc(h.mean(1), y) >= 0.999
        assert task.mean_pcc >= 0.999
        assert task.bayes_pcc - task.mean_pcc < 1e-9  # nothing is left to gain


@pytest.mark.parametrize(("eta", "nu"), GRID)
@pytest.mark.parametrize("kappa", [0.5, 2.0])
def test_the_closed_forms_are_what_a_large_sample_shows(eta: float, nu: float, kappa: float) -> None:
    task = PlateauTask(dim=4, eta=eta, nu=nu, kappa=kappa, floor_std=0.1, label_std=0.3)
    h, y = task.sample(100_000, seed=0, dtype=DOUBLE)
    assert least_squares_pcc(h.mean(1), y) == pytest.approx(task.mean_pcc, abs=0.005)
    covariance = torch.cat([h[:, :-1].mean(1), h[:, -1], y.unsqueeze(1)], 1).t().cov()
    assert multiple_correlation(covariance) == pytest.approx(task.bayes_pcc, abs=0.005)

    def pooled_pcc(a: float) -> float:
        """For the pool (1-a) * mean background + a * key, as a linear map of both."""
        pool = torch.block_diag(torch.cat([(1 - a) * torch.eye(4), a * torch.eye(4)]), torch.ones(1, 1)).to(DOUBLE)
        return multiple_correlation(pool.t() @ covariance @ pool)

    for gain in (1.0, 2.0, 4.0):
        best = max(pooled_pcc(a) for a in np.linspace((1 - gain) / 10, (1 + gain * 9) / 10, 41))
        assert best == pytest.approx(task.attention_pcc(gain), abs=0.005)


def test_the_softmax_ceiling_is_the_formula() -> None:
    task = PlateauTask(eta=0.6, kappa=2.0, floor_std=0.0, label_std=0.3)
    expected = (1 + 2.0 * 0.6) / math.sqrt((1 + 2.0**2 + 0.3**2) * (1 + 0.6**2))
    assert task.best_softmax_pcc == pytest.approx(expected, rel=1e-12)
    noise_only = math.sqrt((1 + 2.0**2) / (1 + 2.0**2 + 0.3**2))
    enough = (10 * 2.0 / 0.6 - 1) / 9  # the gain at which the key's weight can be kappa / eta
    assert task.attention_pcc(enough) == pytest.approx(noise_only, rel=1e-12)
    assert task.attention_pcc(0.9 * enough) < noise_only - 1e-4
    assert task.bayes_pcc == pytest.approx(noise_only, rel=1e-12)


@given(
    st.floats(0, 3),
    st.floats(0, 3),
    st.floats(-4, 4),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["strength", "literal"]),
)
def test_ceilings_are_ordered(eta: float, nu: float, kappa: float, floor: float, label: float, form: str) -> None:
    task = PlateauTask(form=form, eta=eta, nu=nu, kappa=kappa, floor_std=floor, label_std=label)
    values = [task.attention_pcc(gain) for gain in (0.0, 0.5, 1.0, 2.0, 5.0, 50.0)]
    assert all(low <= high + 1e-12 for low, high in zip(values, [*values[1:], task.bayes_pcc + 1e-9], strict=True))
    convex = task.best_convex_pcc(bags=2000)
    assert task.best_softmax_pcc - 1e-9 <= convex <= task.bayes_pcc + 1e-9


@pytest.mark.parametrize(("eta", "nu"), GRID)
def test_no_linear_scorer_or_head_beats_the_softmax_ceiling(eta: float, nu: float) -> None:
    """Quadrature over the strength s; a(s) is the key's weight, the head is w* + lean w_perp; no noise."""
    s, q = np.polynomial.hermite_e.hermegauss(81)
    q = q / q.sum()
    rng = np.random.default_rng(0)

    def pcc(parameters: np.ndarray, kappa: float) -> float:
        logit, slope, lean = parameters
        a = 1 / (1 + 9 * np.exp(-np.clip(logit + slope * s, -50, 50)))
        moved = a * (eta * s + lean * nu)
        variance = 1 + lean**2 + q @ moved**2 - (q @ moved) ** 2
        return (1 + kappa * (q @ (s * moved))) / np.sqrt(variance * (1 + kappa**2))

    for kappa in (-1.0, 0.5, 1.0, 2.0, 4.0):
        ceiling = PlateauTask(eta=eta, nu=nu, kappa=kappa, floor_std=0.0, label_std=0.0).best_softmax_pcc
        starts = rng.normal(size=(4, 3)) * [4, 4, 0.5]
        ends = [minimize(lambda p, k=kappa: -pcc(p, k), start, method="Nelder-Mead") for start in starts]
        best = max(-end.fun for end in ends)
        assert best <= ceiling + 1e-9
        assert best >= ceiling - 1e-3


@pytest.mark.parametrize("kappa", [0.5, 2.0, 4.0])
@pytest.mark.parametrize(("eta", "nu"), GRID)
def test_the_convex_ceiling_is_that_of_real_bags(eta: float, nu: float, kappa: float) -> None:
    task = PlateauTask(eta=eta, nu=nu, kappa=kappa)
    ceiling = task.best_convex_pcc()
    assert ceiling == pytest.approx(task.best_convex_pcc(seed=1), abs=1e-3)
    assert task.best_softmax_pcc - 1e-9 <= ceiling <= task.best_softmax_pcc + 0.012
    h, y = task.sample(20_000, seed=5, dtype=DOUBLE)
    along, across = task.directions()
    for lean in (0.0, 0.1, 0.3, 1.0):  # a head that leans on the marker does not reach further at these settings
        best = achievable_ceiling(*prediction_range(h, along + lean * across), y).value.item()
        assert best <= ceiling + 0.01
        assert lean or best == pytest.approx(ceiling, abs=0.01)
