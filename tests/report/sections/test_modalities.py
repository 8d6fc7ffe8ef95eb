"""Which modality clips hang on."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.report import RunRecord
from excora.report.sections.modalities import modalities
from report.sections.records import results, score

FOUND = {
    "clips": 40,
    "pcc": 0.75,
    "uses": [{"modality": "text", "moved": 0.5, "pcc": 0.25}, {"modality": "audio", "moved": 0.0, "pcc": None}],
    "by_clip": [{"id": "a$_$1", "moved": {"text": 0.5, "audio": 0.0}}],
    "brought": [{"layer": "guided 1", "receiver": "hyper", "giver": "audio", "share": 0.25, "by_head": [0.125, 0.375]}],
}


def record(**given):
    return results(validation={"y": score(0.8, 1.5)}, modalities=FOUND | given)


def words(table):
    return [[text for text, _ in row] for row in table.ready()]


def test_a_row_a_modality_a_clip_and_a_layer():
    made = modalities(record())
    uses, clips, brought = made.tables
    assert words(uses) == [["text", "0.5000", "0.250", "+0.500"], ["audio", "0", "–", "–"]]
    assert words(clips) == [["a$_$1", "0.5000", "0"]]
    assert words(brought) == [["guided 1", "hyper", "audio", "0.2500", "0.1250", "0.3750"]]
    assert "move most with text, by 0.50 deviations" in made.lead
    assert "40 clips" in made.lead


def test_what_is_not_known_is_left_out():
    assert [table.caption for table in modalities(record(by_clip=[], brought=[])).tables] == [
        "How much each modality is used (PCC as it is: 0.750)"
    ]
    assert modalities(RunRecord()) is None
    assert modalities(results(validation={"y": score(0.8, 1.5)})) is None
    assert modalities(record(uses=[])) is None


def test_a_broken_file_is_named():
    with pytest.raises(InputError, match=r"modalities\.clips must be a whole number"):
        record(clips="many")
