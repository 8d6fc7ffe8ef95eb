"""Scores and the criterion, with labels that are unknown and weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from excora.errors import InputError
from excora.stats.scores import criterion, score, squared_error

PREDICTION = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
TARGET = np.array([[2.0, 1.0], [4.0, 2.0], [8.0, 4.0]])


def test_scores():
    assert score(PREDICTION, TARGET).pcc == pytest.approx(1.0)  # of the target that has one
    assert math.isnan(score(PREDICTION[:, 1:], TARGET[:, 1:]).pcc)
    assert score(PREDICTION, TARGET).mse == pytest.approx((21 / 3 + 26 / 3) / 2)
    assert score(PREDICTION, TARGET).mae == pytest.approx((7 / 3 + 8 / 3) / 2)


def test_unknown_labels_count_for_nothing():
    target = np.array([[2.0, np.nan], [np.nan, 2.0], [8.0, np.nan]])
    found = score(PREDICTION, target)
    assert found.mse == pytest.approx(((1 + 16) / 2 + 9) / 2)  # a target counts as any other
    assert found.mae == pytest.approx(((1 + 4) / 2 + 3) / 2)
    assert found.pcc == pytest.approx(1.0)
    assert score(PREDICTION, np.full((3, 2), np.nan)) == pytest.approx((math.nan,) * 3, nan_ok=True)
    assert squared_error(PREDICTION, np.array([[np.nan, 1.0]] * 3)) == pytest.approx(16.0)


def test_criterion():
    mse = (21 / 3 + 26 / 3) / 2
    for kind, expected in (("mse", mse), ("pcc", -0.5), ("joint", mse + 0.25)):
        assert criterion(kind, 0.5)(PREDICTION, TARGET, None) == pytest.approx(expected)
    weight = np.array([1.0, 0.0, 2.0])
    assert criterion("mse")(PREDICTION, TARGET, weight) == pytest.approx((33 / 3 + 18 / 3) / 2)
    unknown = np.where([[True, True], [False, True], [True, True]], TARGET, np.nan)
    assert criterion("mse")(PREDICTION, unknown, weight) == pytest.approx((33 / 3 + 18 / 3) / 2)
    with pytest.raises(InputError, match="mse, pcc or joint, got 'mae'"):
        criterion("mae")
