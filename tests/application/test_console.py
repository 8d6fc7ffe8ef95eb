"""A run and its predictions on a console."""

from __future__ import annotations

import dataclasses
import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from application.samples import leaves_of
from excora.application import Run, predict
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
