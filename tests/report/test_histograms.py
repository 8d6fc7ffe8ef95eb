"""Histograms: every value in a bin, and ticks that differ."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from excora.report.histograms import bin_edges, histogram


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50) | st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=50)
)
def test_bins_hold_every_value(values):
    edges = bin_edges(values)
    assert all(a < b for a, b in pairwise(edges))
    assert np.histogram(values, edges)[0].sum() == len(values)
    assert len(edges) <= 100


@given(st.floats(-1e3, 1e3), st.floats(1e-9, 10))
def test_the_ticks_of_values_that_lie_close_together_differ(middle, spread):
    values = np.linspace(middle - spread, middle + spread, 40).tolist()
    plot = histogram("x", "X", values, "")
    axis = plot.views[""].layout["xaxis"]
    ticks = axis["ticktext"]
    assert len(set(ticks)) == len(ticks)
    assert all(math.isfinite(float(tick)) for tick in ticks)
    assert len({row[0] for row in plot.table.rows}) == len(plot.table.rows)
