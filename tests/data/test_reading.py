"""From a path to samples: every format, roles, data to predict, samples without a label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from excora.data.cells import numbers, texts
from excora.data.reading import read
from excora.errors import DataError

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
    assert read(path, target="y", drop="id").ids.tolist() == ["2", "3", "4"], "a header is row 1"


def test_a_missing_file_and_another_kind_of_file(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "a.csv", target="y")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=r"expected .*a table .*; got 'a.txt'"):
        read(tmp_path / "a.txt", target="y")
    with pytest.raises(TypeError, match="there is no role 'tagret'; there are target, group"):
        read(tmp_path / "a.txt", tagret="y")


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
    path.write_text("x,y\n1,5\n2,?\n")
    np.testing.assert_array_equal(read(path, **roles).target, [[5], [np.nan]])
    for cells in ("1,\n2,\n", "1,5\n2,five\n"):
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


def test_samples_without_any_label_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,z,g,w\n1,1,,a,1\n2,,,b,2\n3,,5,c,3\n4,2,6,d,4\n5,,,e,5\n")
    data = read(path, target=["y", "z"], group="g", weight="w")
    assert data.ids.tolist() == ["2", "4", "5"]
    np.testing.assert_array_equal(data.target, [[1, np.nan], [np.nan, 5], [2, 6]])
    assert data.content.frame["x"].tolist() == [1, 3, 4]
    assert (data.group.tolist(), data.weight.tolist()) == (["a", "c", "d"], [1, 3, 4])
    assert data.notes == ("2 of 5 rows have no label and are left out",)
    assert len(read(path, target=["y", "z"], labelled=False)) == 5
    path.write_text("x,y,w\n1,1,0\n2,2,0\n3,,1\n")
    with pytest.raises(DataError, match="the weight is 0 in every row that has a label"):
        read(path, target="y", weight="w")
