"""Validation: one message a fault, and the summary of what is sound."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from data.made import problems
from excora.data.validation import validate

CSV = "x,y,g\n" + "".join(f"{k % 5},{k},{k % 3}\n" for k in range(30))


@pytest.mark.parametrize(
    ("content", "roles", "message"),
    [
        ("x,y\n", {"target": "y"}, "a header but no row"),
        (CSV, {}, "name the column to predict with target="),
        (CSV, {"target": "Y"}, "no column 'Y' for the target; did you mean 'y'?"),
        (CSV, {"target": ["y", "y"]}, "a target is named twice"),
        (CSV, {"target": "y", "group": "y"}, "column 'y' is the target and cannot play another part"),
        (CSV, {"target": "y", "drop": ["x", "g"]}, "there is no column left to predict from"),
        (CSV, {"target": "y", "labels": "b.csv"}, "labels= describes a folder"),
        (CSV.replace("0,0,0", "0,0,"), {"target": "y", "group": "g"}, "the group 'g' must be there"),
        (CSV.replace("0,0,0", "0,inf,0"), {"target": "y"}, "got inf in row 2"),
        (CSV.replace("0,0,0", "0,1e200,0"), {"target": "y"}, "got 1e+200 in row 2"),
        (CSV.replace("0,0,0", "a,0,0"), {"target": "y"}, "column 'x' must hold finite numbers or empty cells, got 'a'"),
        ("x,y,w\n1,2,0\n2,3,0\n", {"target": "y", "weight": "w"}, "the weight 'w' is 0 in every row"),
        ("x,y,t\n1,2,2024-01-31\n2,3,\n", {"target": "y", "time": "t"}, "the time 't' must be there in every row"),
        ("x,y\n1,2\n2,3\n", {"target": "y"}, "at least 6 samples"),
        (CSV, {"target": "y", "group": "g", "validation": 0}, None),
        (CSV.replace(",2\n", ",1\n"), {"target": "y", "group": "g"}, "at least 3 groups and 6 samples, got 2 groups"),
        ("x,y\n" + "1,2\n2,3\n" * 9 + ",7\n", {"target": "y", "test": 1.5}, "test must be a share"),
        ("x,y\n" + "".join(f"1,{k}\n" for k in range(9)), {"target": "y"}, "there is no column left to predict from"),
    ],
)
def test_one_message_a_fault(tmp_path, content, roles, message):
    path = tmp_path / "a.csv"
    path.write_text(content)
    if message is None:
        assert validate(path, **roles).groups == 3
    else:
        assert message in problems(path, **roles)[0]


def test_the_summary_prints_and_survives_markup(tmp_path):
    rich = pytest.importorskip("rich.console")
    path = tmp_path / "a.csv"
    path.write_text(CSV.replace("x,y", "x,[red]y"))
    summary = validate(path, target="[red]y", group="g")
    assert summary.to_dict()["split"] == {"train": 10, "validation": 10, "test": 10}
    console = rich.Console(width=100, record=True, file=io.StringIO())
    console.print(summary)
    for text in (console.export_text(), str(summary)):
        assert "target [red]y" in text
        assert "1 numeric" in text
        assert "groups" in text


def test_unknown_labels_are_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,z\n" + "".join(f"{k},{k if k % 4 else ''},{k * k if k % 3 else ''}\n" for k in range(40)))
    summary = validate(path, target=["y", "z"])
    assert summary.samples == 36  # 0, 12, 24 and 36 have neither
    assert {name: (figures["known"], figures["unknown"]) for name, figures in summary.targets.items()} == {
        "y": (30, 6), "z": (26, 10),
    }  # fmt: skip
    assert summary.targets["y"]["mean"] == np.mean([k for k in range(40) if k % 4])
    assert "unknown in 6" in str(summary)
    assert "4 of 40 rows have no label and are left out" in str(summary)
    assert "unknown in" not in str(validate(path, target="x"))
    assert json.loads(json.dumps(summary.to_dict()))["features"] == {"numeric": 1, "categorical": 0, "dates": 0}


def test_a_training_part_that_knows_nothing_of_a_target(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,z,t\n" + "".join(f"{k},{k},{'' if k < 8 else k},{k}\n" for k in range(10)))
    assert "the target 'z' is unknown throughout the training part" in problems(path, target=["y", "z"], time="t")[0]
    path.write_text("x,y,z,t\n" + "".join(f"{k},{k},{'' if 1 < k < 8 else k // 2},{k}\n" for k in range(10)))
    assert "the target 'z' is 0 wherever the training part knows it" in problems(path, target=["y", "z"], time="t")[0]
