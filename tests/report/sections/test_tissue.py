"""Expression on the tissue."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.sections.tissue import places, tissue

PICTURE = "data:image/jpeg;base64,AAAA"
IDS = [f"s{slide}/{k}" for slide in (1, 2) for k in range(3)]


def record(genes: int = 1, picture: str = PICTURE, **change) -> RunRecord:
    """Two slides of three spots, in the test part; a validation spot has the id of a test spot."""
    columns: dict = {"id": [*IDS, "s1/0"], "part": ["test"] * 6 + ["validation"]}
    for k in range(genes):
        columns[f"target:g{k}"] = [0.0, 1.0, 2.0, 5.0, 5.0, 7.0, 9.0]
        columns[f"prediction:g{k}"] = [0.0, 1.0, 2.0, 2.0, 2.0 - k, 2.0, 9.0]
    slides = [{"name": f"s{k}", "pitch": 10.0, "picture": picture, "width": 100.0, "height": 50.0} for k in (1, 2)]
    under = {"slides": slides, "ids": IDS, "slide": [0, 0, 0, 1, 1, 1], "x": [0, 10, 20] * 2, "y": [5, 5, 15] * 2}
    return RunRecord.of(predictions=columns, tissue=under | change)


def test_measured_and_predicted_stand_side_by_side_on_the_picture():
    (plot,) = tissue(record()).plots
    assert list(plot.views) == ["g0 · s1", "g0 · s2"]
    (measured, predicted), layout = plot.views["g0 · s2"]
    assert measured["marker"]["color"] == [5, 5, 7]
    assert predicted["marker"]["color"] == [2, 2, 2]
    assert (measured["x"], measured["y"]) == ([0, 10, 20], [5, 5, 15])
    assert [image["xref"] for image in layout["images"]] == ["x", "x2"]
    assert layout["images"][0]["sizex"] == 100
    assert layout["yaxis"]["range"] == [35, -15], "down, as in an image"
    assert plot.table.rows[0][:4] == ["g0", "s1", 3, pytest.approx(1.0)]


def test_of_many_genes_some_are_drawn_from_the_best_to_the_worst():
    (plot,) = tissue(record(genes=9)).plots
    genes = list(dict.fromkeys(label.partition(" ")[0] for label in plot.views))
    assert (genes[0], genes[-1], len(genes)) == ("g0", "g8", 6)


def test_what_is_no_picture_is_not_drawn():
    (plot,) = tissue(record(picture="https://example.org/x.jpg")).plots
    assert plot.views["g0 · s1"].layout["images"] == []


def test_there_is_nothing_to_say_of_other_samples():
    assert tissue(RunRecord()) is None
    assert tissue(record(ids=[], slide=[], x=[], y=[])) is None


def test_spots_are_found_by_name_and_part():
    found = record()
    assert {k: rows.tolist() for k, rows in places(found.predictions, found.tissue).items()} == {
        0: [0, 1, 2],
        1: [3, 4, 5],
    }
    strange = record(slide=[0, 0, 7, -1, 1, 1])
    assert {k: len(v) for k, v in places(strange.predictions, strange.tissue).items()} == {0: 2, 1: 2}
