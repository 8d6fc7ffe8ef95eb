"""The heaviest elements."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.sections.elements import elements
from excora.report.words import NEGATIVE, SHARES, SIGNED


@pytest.mark.parametrize(
    ("gamma", "share", "words"), [(1.2, -0.1, NEGATIVE), (None, -0.1, SIGNED), (None, 0.1, SHARES)]
)
def test_shares_below_0_are_explained(gamma, share, words):
    top = [{"label": "a", "weight": 0.1, "effective": share}]
    bag = {"id": "x", "elements": 3, "top": top, "prediction": 1.0, "target": None, "gamma": gamma}
    pool = {"gamma": [], "temperature": [], "effective_elements": [], "elements": [], "bags": [bag]}
    (made,) = elements(RunRecord.of(attention={"pool": pool}))
    assert made.lead == words
