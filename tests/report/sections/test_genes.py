"""Correlation gene by gene."""

from __future__ import annotations

import numpy as np
import pytest

from excora.report import RunRecord
from excora.report.sections.genes import Summary, genes


def record(slides: int = 2, constant: bool = False) -> RunRecord:
    """Three genes: one right in every slide, one right pooled but wrong within slides, one that may be constant."""
    ids = [f"s{slide}/{k}" for slide in range(slides) for k in range(3)]
    base, level = np.tile([0.0, 1.0, 2.0], slides), np.repeat(np.arange(slides) * 100.0, 3)
    columns = {"id": ids, "part": ["test"] * len(ids), "target:a": base, "prediction:a": base}
    columns |= {"target:b": level + base, "prediction:b": level - base}
    columns |= {"target:c": 0 * base if constant else base, "prediction:c": -base}
    where = {"x": list(range(len(ids))), "y": [0] * len(ids), "slide": np.repeat(range(slides), 3).tolist()}
    under = {"slides": [{"name": f"s{k}", "pitch": 1.0} for k in range(slides)], "ids": ids, **where}
    return RunRecord.of(predictions={k: list(v) for k, v in columns.items()}, tissue=under)


def test_pooled_and_within_slides_stand_side_by_side():
    found = genes(record())
    summary, ends = found.tables
    assert [row[0] for row in summary.rows] == [
        "within slides, mean over slides",
        "pooled over slides",
        "slide s0",
        "slide s1",
    ]
    within, pooled = summary.rows[:2]
    assert within[3] == pytest.approx((1 - 1 - 1) / 3)
    assert pooled[3] == pytest.approx((1 + 0.9993 - 1) / 3, abs=1e-3)
    assert [row[1] for row in ends.rows] == ["a", "b", "c"]
    assert "Pooled over 2 slides the mean is 0.333" in found.lead
    assert len(found.plots) == 1


def test_undefined_genes_are_counted_and_what_was_done_with_them_is_said():
    found = genes(record(constant=True))
    assert found.tables[0].rows[0][4] == 1
    assert "1 gene without a correlation" in found.lead
    assert "counted as 0 the mean were 0.000, as −1, which EGN does, −0.333" in found.lead
    assert found.tables[1].rows[-1][1:3] == ["c", None]


def test_one_slide_has_nothing_to_pool():
    found = genes(record(slides=1))
    assert [row[0] for row in found.tables[0].rows] == ["slide s0"]
    assert "Pooled" not in found.lead


def test_there_is_nothing_to_say_of_other_samples():
    assert genes(RunRecord()) is None


def test_summary_of_nothing():
    assert Summary.of(np.array([np.nan])) == Summary(None, None, None, 1)
