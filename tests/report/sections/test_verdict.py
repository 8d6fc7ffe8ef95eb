"""The verdict, or the sentence of a comparison."""

from __future__ import annotations

import json

from excora.report import write_report
from report.samples import Page, write_comparison


def test_a_comparison_alone_begins_with_its_sentence(tmp_path):
    page = Page(write_report(write_comparison(tmp_path)))
    sentence = json.loads((tmp_path / "comparison.json").read_text())["sentence"]
    assert sentence in page.sections["verdict"]
    assert sentence not in page.sections["comparison"]
    assert list(page.sections) == ["verdict", "figures", "comparison", "notes", "rerun"]
