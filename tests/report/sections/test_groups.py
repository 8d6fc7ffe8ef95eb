"""The scores of each group."""

from __future__ import annotations

from excora.report import write_report
from report.samples import Page, write_run


def test_one_group_needs_no_range(tmp_path):
    page = Page(write_report(write_run(tmp_path, groups=("one",), samples=60)))
    assert "1 group in the test part." in page.sections["groups"]
    assert "run from" not in page.sections["groups"]
    assert "All of one group." in page.sections["predictions"]
