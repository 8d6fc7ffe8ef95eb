"""A run and its predictions on a console."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from application.samples import leaves_of
from excora.application import Run, predict
from excora.application.console import fewer
from excora.errors import InputError


def test_a_run_prints(home):
    text = io.StringIO()
    Console(file=text, width=200).print(Run.load(home / "run"), predict(home / "run", home / "data.csv"))
    for word in ("target", "PCC", "cannot tell", "report.html", "90 predictions"):
        assert word in text.getvalue()


@given(place=st.integers(0, 10_000), value=st.sampled_from([None, -1, 1e400, "x", [], {}, [[]], True]))
def test_any_wrong_value_in_the_results_is_an_error_or_harmless(home, place, value):
    run = Run.load(home / "run")
    results = json.loads(json.dumps(run.results))
    leaves = list(leaves_of(results))
    owner, key = leaves[place % len(leaves)]
    owner[key] = value
    text = io.StringIO()
    try:
        Console(file=text, width=200).print(dataclasses.replace(run, results=results))
    except InputError:
        return
    assert "report.html" in text.getvalue()


def test_many_targets_are_their_mean_and_the_ends():
    scores = {f"g{k}": {"pcc": None if k == 7 else k / 100, "mse": float(k), "mae": 1.0} for k in range(20)}
    found = fewer(scores)
    assert list(found) == ["mean of 20", "g19", "g18", "g17", "g2", "g1", "g0"]
    assert found["mean of 20"] == {"pcc": pytest.approx((190 - 7) / 19 / 100), "mse": 9.5, "mae": 1.0}
    assert fewer(dict(list(scores.items())[:12])) == dict(list(scores.items())[:12])
    undefined = {name: {"pcc": None, "mse": 1.0, "mae": 1.0} for name in scores}
    assert fewer(undefined) == {"mean of 20": {"pcc": None, "mse": 1.0, "mae": 1.0}}
