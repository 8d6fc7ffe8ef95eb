"""Tables: what a file may hold, what is refused, and what the message says."""

from __future__ import annotations

import datetime
import decimal
import io
import lzma

import numpy as np
import pandas as pd
import pytest

from excora.data.cells import kind_of, moments, numbers, texts
from excora.data.frames import first_row, read_frame
from excora.data.reading import read
from excora.data.validation import validate
from excora.errors import DataError, InputError

FRAME = pd.DataFrame({"id": ["007", "008", "NA"], "x": [1.5, None, 3.0], "c": ["a", "b", None], "y": [1, 2, 4]})


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.xz", "a.parquet", "A.CSV"])
def test_every_format_gives_the_same_samples(tmp_path, name):
    path = tmp_path / name
    if name == "a.parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    data = read(path, target="y", id="id")
    assert data.ids.tolist() == ["007", "008", "NA"]
    assert data.target.tolist() == [[1.0], [2.0], [4.0]]
    assert list(data.content.frame) == ["x", "c"]
    assert numbers(data.content.frame["x"]).tolist()[::2] == [1.5, 3.0]
    assert texts(data.content.frame["c"]).tolist() == ["a", "b", None]
    assert read(path, target="y", drop="id").ids.tolist() == [str(first_row(path) + k) for k in range(3)]


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
        ("a.csv", b"x,y\n1,2,3\n4,5,6\n", "not readable as delimited text"),
        ("a.csv", b"x,y\n1,2\n3,4,5\n", "not readable as delimited text.*line 3"),
        ("a.csv", b'x,y\n"1,2\n', "not readable as delimited text"),
        ("a.csv", b"x,y\n\xff\xfe,2\n", "not readable as delimited text"),
        ("a.csv", b"x;y\n1;2\n", "semicolons"),
        ("a.csv.gz", b"x,y\n1,2\n", "not readable as delimited text"),
        ("a.csv.xz", lzma.compress(b"x,y\n1,2\n")[:-20], "not readable as delimited text"),
        ("a.parquet", b"PAR1nonsensePAR1", "not readable as Parquet"),
        ("a.xlsx", b"", "expected a name ending in .csv"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_another_kind_of_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_frame(tmp_path / "a.csv")
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "a.csv", target="y")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=r"expected a table .* got 'a.txt'"):
        read(tmp_path / "a.txt", target="y")


DAY = datetime.date(2024, 1, 31)
KINDS = [
    ([1, 2, None], "number"), ([0, 1, 1], "number"), ([decimal.Decimal("1.5"), None], "number"),
    (["a", None, "b"], "category"), ([True, None, False], "category"), ([1, "a"], "category"), (["1", "2"], "category"),
    (["2024-01-31", None, "2024-02-01 10:00"], "date"), (["2024-01-31T10:00:00.5+01:00"], "date"),
    ([DAY, None], "date"), (["2024-13-45"], "category"), (["31/01/2024"], "category"),
    ([None, np.nan], "empty"), ([], "empty"),
    ([[1], [2]], "other"), ([b"a"], "other"), ([{"a": 1}], "other"), ([datetime.time(1)], "other"), ([1j], "other"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "kind"), KINDS, ids=lambda value: str(value)[:30])
def test_kinds_of_columns(cells, kind):
    column = pd.Series(cells, dtype=object)
    assert kind_of(column) == kind
    assert numbers(column).shape == (len(cells),)
    assert kind_of(pd.Series(cells)) == ("other" if cells == [1j] else kind)


def test_kinds_of_pandas_types():
    days = pd.Series(pd.date_range("2024-01-31", periods=2))
    assert [kind_of(days.astype(f"datetime64[{unit}]")) for unit in ("s", "us", "ns")] == ["date"] * 3
    assert [moments(days.astype(f"datetime64[{unit}]")).tolist() for unit in ("s", "us", "ns")] == [[19753, 19754]] * 3
    assert moments(days.dt.tz_localize("Europe/Vienna")).tolist() == [19753 - 1 / 24, 19754 - 1 / 24]
    assert np.isnan(numbers(days)).all()
    never = [moments(pd.Series([day, None, "9999-12-31"]))[2] for day in ("2024-01-31", "2024-01-31T10:00Z")]
    assert never == [(datetime.date(9999, 12, 31) - datetime.date(1970, 1, 1)).days] * 2
    assert kind_of(pd.Series([datetime.date(9999, 12, 31), None])) == "date"
    assert kind_of(pd.Series(["9999-12-31", "9999-13-31"])) == "category"
    assert kind_of(pd.Series([1, None], dtype="Int64")) == "number"
    assert kind_of(pd.Series([True, None], dtype="boolean")) == "category"
    assert kind_of(pd.Series(["a", None], dtype="string")) == "category"
    assert kind_of(pd.Series([3, 4], dtype="category")) == "category"
    assert kind_of(pd.Series(pd.to_timedelta([1, 2]))) == "other"
    assert texts(pd.Series([1.0, 2.5, None])).tolist() == ["1", "2.5", None]


def problems(path, **roles) -> list[str]:
    with pytest.raises(DataError) as caught:
        validate(path, **roles)
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert all("\n" not in problem for problem in caught.value.problems)
    return [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]


def test_everything_wrong_is_reported_at_once(tmp_path):
    path = tmp_path / "a.csv"
    rows = "a,1,5,,x,-1,inf,1\na,,5,p,2024-01-31,1,2,?\nb,two,5,q,2024-02-01,1,3,3\n"
    path.write_text("id,y,z,g,t,w,x,n\n" + rows * 7)
    found = problems(path, target=["y", "z", "q"], group="g", time="t", weight="w", id="id", drop=["gone"])
    expected = [
        "there is no column 'gone' to drop",
        "the id 'id' must be different in every row, got 'a' in 2 and 3",
        "the target 'y' must be a finite number, or empty where it is unknown, got 'two' in row 4 (7 such rows)",
        "there is no column 'q' for the target",
        "the target 'z' is 5 in every row",
        "the group 'g' must be there in every row, got nothing in row 2 (7 such rows)",
        "the time 't' must be numbers or dates like 2024-01-31 17:05, got 'x' in row 2",
        "the weight 'w' must not be negative, got -1 in row 2 (7 such rows)",
        "column 'x' must hold finite numbers or empty cells, got 'inf' in row 2 (7 such rows)",
    ]
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got.startswith(wanted)


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
        (CSV.replace("0,0,0", "?,0,0"), {"target": "y"}, "column 'x' must hold finite numbers or empty cells, got '?'"),
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


def test_data_to_predict_need_no_roles(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,g\n1,a\n2,\n")
    roles = {"target": "y", "group": "g", "time": "t", "weight": "w", "id": "id", "drop": ["q"], "labelled": False}
    data = read(path, **roles)
    assert (data.target, data.group, data.time, data.weight, list(data.content.frame)) == (
        None,
        None,
        None,
        None,
        ["x"],
    )
    path.write_text("x,g,y,id\n1,a,5,p\n2,b,5,q\n")
    data = read(path, **roles)
    assert (data.target.tolist(), data.group.tolist(), data.ids.tolist()) == ([[5], [5]], ["a", "b"], ["p", "q"])
    path.write_text("x,y\n1,5\n2,\n")
    np.testing.assert_array_equal(read(path, **roles).target, [[5], [np.nan]])
    for cells in ("1,\n2,\n", "1,5\n2,?\n"):
        path.write_text("x,y\n" + cells)
        assert read(path, **roles).target is None


def test_roles_of_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,z,g,t,w,x\n1,2,01,2024-01-31 12:00,1,5\n2,4,1,2024-01-31T13:00Z,0,6\n")
    data = read(path, target=["y", "z"], group="g", time="t", weight="w")
    assert data.targets == ("y", "z")
    assert data.target.tolist() == [[1, 2], [2, 4]]
    assert data.group.tolist() == ["01", "1"]
    assert data.time.tolist() == pytest.approx([19753.5, 19753.5 + 1 / 24], abs=1e-9)
    assert data.weight.tolist() == [1, 0]
    assert list(data.content.frame) == ["x"]


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
