"""Fits, their intervals, the affine gain, and what simple models are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.diagnosis.evidence import Fit, Simple, in_words, simple_models
from excora.errors import InputError
from excora.stats.intervals import Interval, fisher


@given(st.floats(-0.99, 0.99), st.integers(4, 5000))
def test_the_interval_is_fishers(pcc, rows) -> None:
    fit = Fit.of({"pcc": pcc, "bags": rows}, "validation")
    assert (fit.low, fit.high) == pytest.approx(fisher(pcc, rows), abs=1e-9)
    assert fit.above_zero.met == (fit.low > 0)
    assert fit.affine_gain is None


def test_a_part_that_chose_the_epoch_must_be_further_from_zero() -> None:
    record = {"pcc": 0.25, "bags": 103}  # 2.55 standard errors
    assert Fit.of(record, "validation").above_zero.met
    assert not Fit.of(record, "validation", chosen=True).above_zero.met
    wide = Fit.of({"pcc": 0.5, "bags": 500}, "validation", interval=Interval(0.5, 0.2, 0.8, "groups"))
    assert wide.error > 1 / math.sqrt(497)
    for nothing in ({"pcc": None, "bags": 9}, {"pcc": math.nan, "bags": 9}, {"pcc": 0.5, "bags": 3}, {"pcc": 0.5}):
        assert Fit.of(nothing, "validation") is None


@given(st.floats(0.1, 3), st.floats(-2, 2), st.integers(0, 30))
def test_the_affine_gain_is_that_of_leaving_one_out(slope, shift, seed) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=200)
    y = slope * x + shift + generator.normal(size=200)
    line = np.stack([x, np.ones(200)], 1)
    hat = np.einsum("ij,ij->i", line @ np.linalg.inv(line.T @ line), line)
    residual = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    left_out, now = ((residual / (1 - hat)) ** 2).mean(), ((x - y) ** 2).mean()
    record = {"pcc": np.corrcoef(x, y)[0, 1], "bags": 200, "mse": now, "mse_affine": (residual**2).mean()}
    assert Fit.of(record, "predictions").affine_gain == pytest.approx(1 - left_out / now, abs=0.01)


def test_simple_models_come_best_first_and_must_be_whole() -> None:
    known = [{"name": name, "validation": {"pcc": pcc}} for name, pcc in (("a", 0.1), ("b", 0.9), ("c", math.nan))]
    assert simple_models(known) == (Simple("b", 0.9), Simple("a", 0.1))
    assert in_words(simple_models(known)) == "b reaches 0.900, a 0.100"
    for wrong in ({"name": "a"}, {"validation": {"pcc": 1}}, "ridge"):
        with pytest.raises(InputError, match="a peer is"):
            simple_models([wrong])
