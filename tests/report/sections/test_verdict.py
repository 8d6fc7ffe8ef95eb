"""The verdict, or the sentence of a comparison."""

from __future__ import annotations

import json

from excora.report import RunRecord, write_report
from excora.report.sections.verdict import verdict
from excora.report.words import VERDICTS
from report.samples import Page, write_comparison
from report.sections.records import compared, results


def test_a_comparison_alone_begins_with_its_sentence(tmp_path):
    page = Page(write_report(write_comparison(tmp_path)))
    sentence = json.loads((tmp_path / "comparison.json").read_text())["sentence"]
    assert sentence in page.sections["verdict"]
    assert sentence not in page.sections["comparison"]
    assert list(page.sections) == ["verdict", "figures", "comparison", "notes", "rerun"]


def judged(name, **evidence):
    return results(verdict={"name": name, "sentence": "Its own. And more.", "advice": "Do this.", "evidence": evidence})


def test_a_known_verdict_is_said_in_plain_words_with_its_evidence():
    made = verdict(judged("healthy", last_pcc={"value": 0.97, "rule": "> 0.95", "met": True}))
    assert (made.title, made.look) == ("Verdict: healthy", "verdict good")
    assert made.values["sentence"] == VERDICTS["healthy"][1]
    assert made.values["evidence"].rows == [["last pcc", 0.97, "> 0.95", "yes"]]


def test_an_unknown_one_in_its_own_and_the_first_sentence_stands_out():
    made = verdict(judged("cannot tell"))
    assert (made.look, made.values["sentence"], made.values["more"]) == ("verdict open", "Its own.", ["And more."])
    assert made.values["evidence"] is None


def test_without_a_verdict_the_comparison_speaks_or_nobody():
    assert verdict(RunRecord(comparison=compared())).values["sentence"] == "B is better."
    assert verdict(RunRecord()).title == "No verdict yet"
