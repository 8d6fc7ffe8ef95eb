"""Tables on disk: what a file may hold, what is refused, and what the message says."""

from __future__ import annotations

import lzma

import numpy as np
import pandas as pd
import pytest

from excora.data.cells import kind_of
from excora.data.frames import open_frame, read_frame
from excora.data.reading import read
from excora.errors import InputError


def test_text_files_of_all_sorts(tmp_path):
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfx, y\r\n1,2\r\n3,4\r\n")
    assert list(read_frame(tmp_path / "bom.csv")) == ["x", "y"]
    (tmp_path / "quoted.csv").write_text('x,"y, or z"\n"a\nb",2\n')
    assert read_frame(tmp_path / "quoted.csv").to_dict("list") == {"x": ["a\nb"], "y, or z": [2]}
    (tmp_path / "short.csv").write_text("x,y\n1\n2,3\n")
    assert np.isnan(read_frame(tmp_path / "short.csv")["y"][0])
    (tmp_path / "indexed.csv").write_text(",x,y,\n0,1,2,\n1,3,4,\n")
    data = read(tmp_path / "indexed.csv", target="y")
    assert list(data.content.frame) == ["x"]
    assert [note for note in data.notes if "without a name" in note] == list(data.notes)
    assert len(data.notes) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"\n\n\n", "the file is empty"),
        ("a.csv", b"x,y,x\n1,2,3\n", "2 columns called 'x'"),
        ("a.csv", b"x,y\n1,2,3\n4,5,6\n", "more cells than the first line"),
        ("a.csv", b"x,y\n1,2\n3,4,5\n", "not readable as delimited text.*line 3"),
        ("a.csv", b'x,y\n"1,2\n', "not readable as delimited text"),
        ("a.csv", b"x,y\n\xff\x00,2\n", "not readable as delimited text"),
        ("a.csv", b"x,y\n\xff\x81,2\n", "not readable as delimited text"),
        ("a.csv.gz", b"x,y\n1,2\n", "not readable as delimited text"),
        ("a.csv.xz", lzma.compress(b"x,y\n1,2\n")[:-20], "not readable as delimited text"),
        ("a.parquet", b"PAR1nonsensePAR1", "not readable as Parquet"),
        ("a.xlsx", b"PK nonsense", "not readable as an Excel workbook"),
        ("a.feather", b"nonsense", "not readable as Feather"),
        ("a.xls", b"", "expected a name ending in .csv"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_frame(tmp_path / "a.csv")


def test_feather_and_excel_are_tables(tmp_path):
    frame = pd.DataFrame({"x": [1, 2.5], "when": pd.to_datetime(["2024-01-31", "2024-02-01"]), "c": ["a", None]})
    frame.to_feather(tmp_path / "a.feather")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        frame.to_excel(book, sheet_name="Data", index=False)
        frame.to_excel(book, sheet_name="More", index=False)
    for name, notes in (("a.feather", ()), ("a.xlsx", ("a.xlsx: of 2 sheets the first is read, 'Data'",))):
        found = open_frame(tmp_path / name)
        assert found.notes == notes
        assert found.frame["x"].tolist() == [1, 2.5]
        assert [kind_of(found.frame[column]) for column in found.frame] == ["number", "date", "category"]
    pd.DataFrame([["x", "x"], [1, 2]]).to_excel(tmp_path / "b.xlsx", header=False, index=False)
    with pytest.raises(InputError, match="2 columns called 'x'"):
        read_frame(tmp_path / "b.xlsx")
    pd.DataFrame().to_excel(tmp_path / "c.xlsx", index=False)
    with pytest.raises(InputError, match="the file is empty"):
        read_frame(tmp_path / "c.xlsx")


def test_a_row_has_one_name_in_every_format(tmp_path):
    frame = pd.DataFrame({"x": range(9), "y": range(9)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_feather(tmp_path / "a.feather")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    found = [read(path, target="y") for path in sorted(tmp_path.iterdir())]
    assert [data.ids.tolist() for data in found] == [[str(k) for k in range(2, 11)]] * 4
    assert len({data.fingerprint() for data in found}) == 1


def test_a_line_above_the_header_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# made on Monday\na,y\n1,2\n3,4\n")
    with pytest.raises(InputError, match="title or a comment above it"):
        open_frame(path)
