"""The heaviest elements."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.page import page_of_run
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


def test_what_was_said_stands_above_its_words():
    top = [{"label": "fine", "weight": 0.6, "effective": 0.7}]
    bag = {"id": "x", "elements": 3, "top": top, "prediction": 1.0, "target": None, "said": "a fine <b>film</b>"}
    pool = {"gamma": [], "temperature": [], "effective_elements": [], "elements": [], "bags": [bag]}
    record = RunRecord.of(attention={"text": pool})
    (made,) = elements(record)
    assert made.values["cards"][0].said == "a fine <b>film</b>"
    assert "a fine &lt;b&gt;film&lt;/b&gt;" in page_of_run(record)
