"""Tables to samples: columns without a role are features, strange ones are named."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest

from data.made import problems
from excora.data.cells import kind_of
from excora.data.reading import read
from excora.errors import DataError

DAY = datetime.date(2024, 1, 31)


def test_parquet_of_strange_columns(tmp_path):
    frame = pd.DataFrame({"l": [[1], [2]], "b": [b"a", b"b"], "d": [DAY, None], "x": [1, 2], "y": [1, 2]})
    frame["k"] = pd.Series(["p", "q"], dtype="category")
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    found = problems(tmp_path / "a.parquet", target="l", group="b", drop="y")
    assert "the target 'l' must be a finite number, or empty where it is unknown, got [1]" in found[0].replace(
        "array([1])", "[1]"
    )
    assert "the group 'b' must be text" in found[1]
    data = read(tmp_path / "a.parquet", target="y", drop=["l", "b"])
    assert {name: kind_of(data.content.frame[name]) for name in data.content.frame} == {
        "d": "date",
        "x": "number",
        "k": "category",
    }
    with pytest.raises(DataError, match="column 'l' holds neither"):
        read(tmp_path / "a.parquet", target="y")


def test_numbers_in_a_writing_that_is_not_read_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f'"1,{k:03d}",{k} %,"v{k % 3}",{k % 7}' for k in range(30)]
    path.write_text("price,share,kind,y\n" + "\n".join(rows))
    notes = read(path, target="y").notes
    assert [note for note in notes if "looks like numbers" in note] == [
        f"column {name!r} looks like numbers, such as {cell!r}, but is read as text: write them plainly, as 1234.5, "
        "if they are numbers"
        for name, cell in (("price", "1,000"), ("share", "0 %"))
    ]
