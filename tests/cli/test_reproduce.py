"""The command ``reproduce``."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

from commands import call

from excora.cli import reproduce


class Toy:
    summary = "nothing at all, quickly"

    def run(self, output, **options):
        return {"summary": {"output": str(output), **options}, "table": [{"paper": 1}]}


toy = Toy()


ENTRY = EntryPoint("toy", f"{__name__}:toy", reproduce.GROUP)


def test_reproduce_finds_a_study_by_its_entry_point(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [ENTRY] if group == reproduce.GROUP else [])
    result = call("reproduce", "toy", "--preset", "quick", "--only", "a", "--json")
    found = json.loads(result.output)
    assert found["table"] == [{"paper": 1}]
    assert found["summary"] == {
        "output": "runs/toy", "data": None, "seeds": None, "preset": "quick", "only": ["a"], "console": None,
    }  # fmt: skip
    found = json.loads(call("reproduce", "toy", "--protocol", "published", "--json").output)
    assert found["summary"]["preset"] == "published"
    assert "toy: nothing at all, quickly" in call("reproduce", "--help").output
    wrong = call("reproduce", "nothing")
    assert str(wrong.exception) == "study must be one of toy, got 'nothing'"


def test_reproduce_without_studies_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert "pip install excora-studies" in call("reproduce", "--help").output
    assert "pip install excora-studies" in str(call("reproduce", "grid").exception)
