"""How to run it again."""

from __future__ import annotations

import re

from excora.report import RunRecord
from report.samples import CLOSING, HOSTILE, shown


def test_settings_in_groups_are_lists_of_their_own(content, tmp_path):
    content["config"]["settings"] = {"model": "kriging", HOSTILE: CLOSING, "recipe": {"epochs": 7, "seed": 3}}
    page = shown(RunRecord.of(**content), tmp_path)
    for words in ("Recipe", "kriging", HOSTILE, CLOSING, "Seed"):
        assert words in page.sections["rerun"]
    assert re.search(r"Seed\s*3", page.sections["rerun"])
