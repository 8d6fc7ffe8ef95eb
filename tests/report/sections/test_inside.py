"""A look inside the network on the page."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.report import RunRecord
from excora.report.sections.inside import inside

POOL = {"pool": "pool", "places": 8, "gain": 2.5, "even_gain": 2.0, "best_gain": 2.75, "alignment": 0.5}
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
