"""The closed-form risk against simulation, its gradient against differences, the descent against one of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from excora.errors import InputError
from excora.theory.single_location import ORACLE, SingleLocation, erf_square_mean

SETTING = SingleLocation(dim=400, length=10)


def _overlaps(k, v):
    return np.array([k[0], v[1], v[0], k[1], k @ v])


def _directions(dim, seed):
    k, v = np.random.default_rng(seed).normal(size=(2, dim))
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


@pytest.mark.parametrize(("t", "g"), [(0.0, 0.3), (0.7, 1.2), (-2.0, 0.5), (3.0, 2.0)])
def test_erf_square_mean_is_the_integral(t, g):
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    integral = (weights * erf(t + g * nodes) ** 2).sum() / weights.sum()
    assert erf_square_mean(t, g) == pytest.approx(integral, abs=1e-9)


@pytest.mark.parametrize(
    ("state", "sharpness", "value"),
    [
        (ORACLE, 0.1, 0.1134981),
        (ORACLE, 1.0, 4.1810315),
        (0 * ORACLE, 0.1, 0.6155035),
        ((0.3, 0.4, 0.1, -0.2, 0.05), 0.1, 1.04816),
    ],
)
def test_excess_risk_fixed_values(state, sharpness, value):
    assert SETTING.excess_risk(state, sharpness) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    ("dim", "length", "spread", "sharpness"), [(8, 3, 0.7, 0.4), (40, 10, 0.7, 0.1), (20, 4, 1.3, 1.0)]
)
def test_excess_risk_is_what_a_simulation_gives(dim, length, spread, sharpness):
    rng, draws = np.random.default_rng(dim), 20_000
    # directions that see the true ones well: random ones would leave most terms at zero
    k, v = (x / np.linalg.norm(x) for x in rng.normal(size=(2, dim)) + 2.0 * np.eye(dim)[:2])
    x = rng.normal(size=(draws, length, dim))
    x[:, 0] = spread * x[:, 0] + np.sqrt(dim / 2) * np.eye(dim)[0]
    loss = ((erf(sharpness * (x @ k)) * (x @ v)).sum(1) - x[:, 0, 1]) ** 2
    setting = SingleLocation(dim=dim, length=length, spread=spread)
    z = (loss.mean() - setting.excess_risk(_overlaps(k, v), sharpness)) / (loss.std() / np.sqrt(draws))
    assert abs(z) < 4


def test_gradient_is_that_of_the_risk():
    rng = np.random.default_rng(0)
    for _ in range(20):
        setting = SingleLocation(
            dim=int(rng.integers(4, 100)), length=int(rng.integers(2, 12)), spread=rng.uniform(0.3, 1.5)
        )
        state, sharpness = rng.uniform(-0.5, 0.5, 5), rng.uniform(0.05, 1.5)
        steps = 1e-5 * np.eye(5)
        numeric = setting.excess_risk(state + steps, sharpness) - setting.excess_risk(state - steps, sharpness)
        np.testing.assert_allclose(setting.gradient(state, sharpness), numeric / 2e-5, rtol=1e-6, atol=1e-6)


def test_descend_is_that_of_the_directions():
    setting, rate, sharpness = SingleLocation(dim=12, length=4), 0.05, 0.4
    k, v = _directions(12, 3)
    found = setting.descend(_overlaps(k, v)[None], steps=50, rate=rate, sharpness=sharpness)[0]
    first, second = np.eye(12)[:2]
    for _ in range(50):
        by = setting.gradient(_overlaps(k, v), sharpness)
        gk, gv = by[0] * first + by[3] * second + by[4] * v, by[1] * second + by[2] * first + by[4] * k
        k, v = k - rate * (gk - k * (k @ gk)), v - rate * (gv - v * (v @ gv))
        k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
    np.testing.assert_allclose(found, _overlaps(k, v), atol=1e-12)


def _sampled_by_vectors(state, rng, *, dim, length, spread, steps, rate, sharpness, batch, noise):
    """Overlaps after steps on drawn sequences, a run and a token at a time, with the vectors themselves."""
    ends = []
    for kappa, nu, theta, eta, rho in state:
        k, v = np.zeros((2, dim))
        k[:3] = kappa, eta, np.sqrt(1 - kappa**2 - eta**2)
        v[:3] = theta, nu, (rho - kappa * theta - eta * nu) / k[2]
        v[3] = np.sqrt(1 - v @ v)
        for _ in range(steps):
            gk, gv = np.zeros((2, dim))
            for _ in range(batch):
                x = rng.normal(size=(length, dim))
                x[0] = spread * x[0] + np.sqrt(dim / 2) * np.eye(dim)[0]
                error = erf(sharpness * x @ k) @ (x @ v) - x[0, 1] - noise * rng.normal()
                slope = 2 / np.sqrt(np.pi) * np.exp(-((sharpness * x @ k) ** 2))
                gk += 2 / batch * error * (sharpness * slope * (x @ v)) @ x
                gv += 2 / batch * error * erf(sharpness * x @ k) @ x
            k, v = k - rate * (gk - k * (k @ gk)), v - rate * (gv - v * (v @ gv))
            k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
        ends.append(_overlaps(k, v))
    return np.array(ends)


def test_descent_on_samples_has_the_law_of_one_of_vectors():
    """Means and covariances of the overlaps after two large steps, where the part across the four directions counts."""
    setting, how = (
        SingleLocation(dim=9, length=3),
        {"steps": 2, "rate": 0.05, "sharpness": 0.8, "batch": 2, "noise": 0.3},
    )
    state = np.tile(_overlaps(*_directions(9, 5)), (1500, 1))
    many = np.repeat(state[:1], 60_000, 0)
    found = setting.descend_on_samples(many, **how, rng=np.random.default_rng(0))
    wanted = _sampled_by_vectors(state, np.random.default_rng(1), dim=9, length=3, spread=setting.spread, **how)
    error = wanted.std(0) / np.sqrt(len(wanted))
    assert (np.abs(found.mean(0) - wanted.mean(0)) < 4 * error).all()
    np.testing.assert_allclose(found.std(0), wanted.std(0), rtol=0.1)
    np.testing.assert_allclose(np.corrcoef(found.T), np.corrcoef(wanted.T), atol=0.1)


def test_descent_on_samples_goes_toward_the_token_and_checks_its_arguments():
    setting, start = SingleLocation(dim=40), np.array([[0.5, 0.5, 0.0, 0.0, 0.0]] * 4)
    end = setting.descend_on_samples(start, steps=300, rate=0.01, sharpness=0.3, rng=np.random.default_rng(0))
    again = setting.descend_on_samples(start, steps=300, rate=0.01, sharpness=0.3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(end, again)
    assert (end[:, 1] > 0.6).all()
    assert (np.abs(end) <= 1).all()
    with pytest.raises(InputError, match="dim must be at least 6"):
        SingleLocation(dim=5).descend_on_samples(start, steps=1, rate=0.1, sharpness=0.1, rng=np.random.default_rng(0))


def test_descend_stays_on_the_manifold_and_finds_the_place():
    ends = SETTING.descend(SETTING.start(4, seed=0, manifold=True), steps=6000, rate=0.02, sharpness=0.1, every=3000)
    assert ends.shape == (3, 4, 5)
    assert np.abs(ends[..., 2:]).max() < 1e-12
    assert (ends[-1, :, 0] * ends[-1, :, 1] > 0.9).all()


def test_oracle_risk_vanishes_with_the_width():
    risks = [SingleLocation(dim=d).oracle_risk()[0] for d in (400, 4_000, 40_000, 400_000)]
    np.testing.assert_allclose(risks, [0.0671, 0.01186, 0.00174, 0.000233], rtol=4e-3)
    assert SETTING.linear_risk == pytest.approx(0.473684, abs=1e-6)


def test_linear_risk_is_that_of_a_fit():
    rng, draws, length = np.random.default_rng(0), 40_000, 4
    x = rng.normal(size=(draws, length, 3))
    place = rng.integers(length, size=draws)
    rows = np.arange(draws)
    x[rows, place] = np.sqrt(0.5) * x[rows, place] + np.sqrt(1.5) * np.eye(3)[0]
    y = x[rows, place, 1]
    total = x.sum(1)  # the places are alike: so are the best coefficients
    error = y - total @ np.linalg.lstsq(total, y, rcond=None)[0]
    assert error.var() == pytest.approx(SingleLocation(dim=3, length=length).linear_risk, rel=0.05)


@pytest.mark.parametrize("bad", [{"dim": 1}, {"length": 1}, {"spread": 0.0}, {"spread": float("nan")}])
def test_settings_are_checked(bad):
    with pytest.raises(InputError, match="at least 2"):
        SingleLocation(**bad)
