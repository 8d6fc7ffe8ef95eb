"""Rows as channels, and the ridge on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm, rankdata

from excora.data.table import TableSpec
from excora.models.parts.channels import (
    BENDS,
    REACH,
    Learned,
    bent,
    bent_start,
    channels,
    knots_of,
    mean_start,
    ridge_start,
    width_of,
)
from excora.stats.ridge import left_out_ridge

SPEC = TableSpec(targets=1, numeric=2, categories=(3,))


def rows(n: int = 50) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    missing = torch.zeros(n, 2, dtype=torch.bool)
    missing[::7, 1] = True
    numeric = (3 * torch.randn(n, 2, generator=generator)).masked_fill(missing, 0.0)
    return {"numeric": numeric, "missing": missing, "codes": torch.randint(0, 3, (n, 1), generator=generator)}


def test_channels_are_clipped_numbers_normal_scores_flags_and_categories():
    x = rows()
    knots = knots_of(x["numeric"], x["missing"])
    found = channels(x, knots, SPEC, [1])
    assert found.shape == (50, width_of(SPEC, [1])) == (50, 7)
    z, q = found[:, :2] * math.sqrt(2), found[:, 2:4] * math.sqrt(2)
    assert torch.allclose(z, x["numeric"].clamp(-REACH, REACH))
    first = x["numeric"][:, 0].numpy()
    truth = norm.ppf(np.clip((rankdata(first) - 1) / 49, 0.01, 0.99))
    np.testing.assert_allclose(q[:, 0], truth, atol=1e-3)
    gone = x["missing"][:, 1]
    assert not z[gone, 1].any()
    assert not q[gone, 1].any()
    assert torch.equal(found[:, 4], gone.float())
    assert torch.equal(found[:, 5:], torch.eye(3)[x["codes"][:, 0]][:, 1:])


def test_a_new_row_is_ranked_by_the_training_rows_alone():
    x = rows()
    knots = knots_of(x["numeric"], x["missing"])
    every = channels(x, knots, SPEC, [])
    one = channels({name: part[3:4] for name, part in x.items()}, knots, SPEC, [])
    assert torch.equal(one[0], every[3])


def test_the_ridge_does_not_read_ranks_and_leaves_what_left_out_fits_miss():
    x = channels(rows(), knots_of(rows()["numeric"], rows()["missing"]), SPEC, [])
    y = (x[:, :1] * 2 + 0.1 * torch.randn(50, 1, generator=torch.Generator().manual_seed(1))).numpy()
    start = ridge_start(x, 2, Learned(y))
    assert not start.coefficient[2:4].any()
    read = torch.cat([x[:, :2] * math.sqrt(2), x[:, 4:]], 1).double().numpy()
    peer = left_out_ridge(read, y.astype(float))
    np.testing.assert_allclose(start.residual, y - peer.left_out, atol=1e-5)
    np.testing.assert_allclose(x @ start.coefficient + start.intercept, peer.line.predict(read), atol=1e-5)
    assert torch.allclose(start.direction.abs(), start.coefficient[:, 0].abs(), atol=1e-6)


def test_bends_are_hinges_of_normal_scores():
    x = channels(rows(), knots_of(rows()["numeric"], rows()["missing"]), SPEC, [])
    found = bent(x, 2)
    assert found.shape == (50, x.shape[1] + 2 * BENDS)
    assert torch.equal(found[:, : x.shape[1]], x)
    places = norm.ppf(np.arange(1, BENDS + 1) / (BENDS + 1))
    q = x[:, 2:4].numpy() * math.sqrt(2)
    for j, place in enumerate(places):
        np.testing.assert_allclose(found[:, x.shape[1] + 2 * j :][:, :2], np.maximum(q - place, 0), atol=1e-6)
    assert torch.equal(bent(x, 2, 0), x)


@pytest.mark.parametrize("cells", [10**9, 40 * 60], ids=["every row", "some rows"])
def test_a_curve_a_column_is_fitted_where_rows_are_many(monkeypatch, cells):
    monkeypatch.setattr("excora.models.parts.channels.BENT_FROM", 100)
    monkeypatch.setattr("excora.models.parts.channels.MOST_CELLS", cells)
    generator = torch.Generator().manual_seed(0)
    numeric = torch.randn(400, 2, generator=generator)
    missing = torch.zeros(400, 2, dtype=torch.bool)
    spec = TableSpec(targets=1, numeric=2)
    given = {"numeric": numeric, "missing": missing, "codes": torch.zeros(400, 0).long()}
    x = channels(given, knots_of(numeric, missing), spec, [])
    y = (numeric[:, :1].abs() + 0.1 * torch.randn(400, 1, generator=generator)).numpy()
    straight, curves = ridge_start(x, 2, Learned(y)), bent_start(x, 2, Learned(y))
    assert curves is not None
    assert curves.residual.var() < 0.1 * straight.residual.var()
    line = torch.from_numpy(y) - bent(x, 2) @ curves.coefficient - curves.intercept
    seen = curves.residual.square() > line.square()  # left out, a row is missed by more
    assert seen.float().mean() > (0.99 if cells == 10**9 else 0.2)
    assert bent_start(x[:99], 2, Learned(y[:99])) is None


def test_rows_of_a_group_are_left_out_together(monkeypatch):
    monkeypatch.setattr("excora.models.parts.channels.BENT_FROM", 10)
    x = channels(rows(), knots_of(rows()["numeric"], rows()["missing"]), SPEC, [])
    y = torch.randn(50, 1, generator=torch.Generator().manual_seed(1)).numpy()
    group = np.arange(50) % 5
    read = torch.cat([x[:, :2] * math.sqrt(2), x[:, 4:]], 1).double().numpy()
    peer = left_out_ridge(read, y.astype(float), group=group)
    found = ridge_start(x, 2, Learned(y, None, group))
    np.testing.assert_allclose(found.residual, y - peer.left_out, atol=1e-5)
    assert not np.allclose(found.residual, ridge_start(x, 2, Learned(y)).residual, atol=1e-3)
    curves, alone = (bent_start(x, 2, Learned(y, None, g)) for g in (group, None))
    assert not np.allclose(curves.residual, alone.residual, atol=1e-3)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighed", [False, True])
def test_the_mean_leaves_a_row_what_the_mean_of_the_others_misses_it_by(grouped, weighed):
    rng = np.random.default_rng(0)
    y = rng.normal(5, 1, size=(12, 2)).astype(np.float32)
    y[3, 1] = np.nan
    group = np.repeat(np.arange(4), 3) if grouped else None
    weight = rng.uniform(0.5, 2, size=12) if weighed else None
    found = mean_start(torch.zeros(12, 3), Learned(y, weight, group))
    w = np.ones(12) if weight is None else weight
    for i in range(12):
        others = np.arange(12) != i if group is None else group != group[i]
        for t in range(2):
            some = others & np.isfinite(y[:, t])
            left = y[i, t] - np.average(y[some, t], weights=w[some])
            np.testing.assert_allclose(found.residual[i, t], left, atol=1e-5)
    some = np.isfinite(y[:, 1])
    assert float(found.intercept[1]) == pytest.approx(np.average(y[some, 1], weights=w[some]), abs=1e-5)
    assert not found.coefficient.any()
    one = mean_start(torch.zeros(2, 3), Learned(np.array([[2.0], [np.nan]], np.float32)))
    assert one.residual[:, 0].isnan().tolist() == [False, True], "nobody is left: it is told the mean"
