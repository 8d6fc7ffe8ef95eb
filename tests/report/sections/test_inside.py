"""A look inside the network on the page."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.report import RunRecord
from excora.report.sections.inside import inside

POOL = {"pool": "pool", "places": 8, "gain": 2.5, "even_gain": 2.0, "best_gain": 2.75, "alignment": 0.5}
SPECTRUM = {
    "of": "pool", "kind": "elements", "directions": 1.5, "most": 4.0, "shares": [0.8, 0.15, 0.05],
    "mean_cosine": 0.4, "reading": "of low rank",
}  # fmt: skip
LAYER = {"layer": "encoder.0", "kind": "Linear", "points": 400, "optimality": 0.25, "matching": 0.0, "monge_gap": 3.0}


def test_pools_and_layers_have_a_table_each_and_reasons_are_said():
    broken = {"pool": "other", "reason": "too few"}
    made = inside(RunRecord.of(inside={"samples": 100, "pools": [POOL, broken], "layers": [LAYER]}))
    pools, layers = made.tables
    assert pools.rows == [["pool", 8, 2.5, 2.0, 2.75, None, None, 0.5]]
    assert layers.rows == [["encoder.0", "Linear", 400, 0.25, 0.0, 3.0]]
    assert "Pool other: too few." in made.lead
    assert "100 samples" in made.lead


def test_without_a_request_there_is_nothing_and_a_foreign_file_is_refused():
    assert inside(RunRecord.of()) is None
    with pytest.raises(InputError, match="layers"):
        RunRecord.of(inside={"samples": 1, "pools": [], "layers": [{"layer": 3}]})


def test_singular_values_have_a_plot_a_table_and_a_reading():
    other = SPECTRUM | {"of": "attention <1>", "kind": "attention", "shares": [1.0], "mean_cosine": None}
    made = inside(RunRecord.of(inside={"samples": 9, "pools": [], "spectra": [SPECTRUM, other]}))
    (table,), (plot,) = made.tables, made.plots
    assert table.rows[0] == ["pool", "elements", 1.5, 4.0, 0.4, "of low rank"]
    assert "pool, elements: of low rank." in plot.sentence
    assert plot.table.rows == [[1, 0.8, 1.0], [2, 0.15, None], [3, 0.05, None]]
    first, second = plot.views[""].traces
    assert first["y"] == [0.8, 0.15, 0.05]
    assert second["name"] == "attention &lt;1&gt;, attention"


def test_a_file_of_a_version_without_spectra_is_read():
    assert inside(RunRecord.of(inside={"samples": 9, "pools": [POOL]})).plots == []
