"""Folders of bags: labels, everything wrong at once, unlabelled bags."""

from __future__ import annotations

import h5py
import numpy as np
import pandas as pd
import pytest

from data.bags.made import BAGS, IDS, TARGET, WIDTH, labelled, same, save
from excora.data.reading import read
from excora.data.validation import validate
from excora.errors import DataError


def test_a_folder_of_files(folder):
    data = labelled(folder, group="case")
    assert data.ids.tolist() == IDS[::-1]
    assert data.group.tolist()[:3] == ["c3", "c3", "c3"]
    np.testing.assert_array_equal(data.target[:, 0], TARGET[::-1])
    same(data, BAGS[::-1])
    unlabelled = read(folder, target="y", labelled=False)
    assert unlabelled.ids.tolist() == IDS
    assert unlabelled.target is None
    same(unlabelled)
    some = folder.parent / "some.csv"
    some.write_text("slide\n003\n001\n")
    data = read(folder, target="y", labels=some, labelled=False)
    assert data.ids.tolist() == ["003", "001"]


def problems(path, **roles) -> list[str]:
    with pytest.raises(DataError) as caught:
        validate(path, **roles)
    return caught.value.problems


def test_everything_wrong_in_a_folder_is_reported_at_once(folder):
    save(folder / "000.h5", np.zeros((4, WIDTH + 1), np.float32))
    save(folder / "spare.npz", BAGS[0])
    (folder / "002.safetensors").write_bytes(b"\x10")
    np.savez(folder / "001.npz", features=np.array([[1, None]], object))
    with h5py.File(folder / "003.hdf5", "w") as file:
        file["features"] = np.zeros((0, WIDTH))
    labels = folder.parent / "labels.csv"
    labels.write_text(labels.read_text() + "1,c9,absent\nx,c9,005\n")
    found = problems(folder, labels=labels, target="y", id="slide", group="case")
    text = "\n".join(found)
    for wanted in (
        "the id 'slide' must be different in every row, got '005' in 8 and 15",
        "the target 'y' must be a finite number, or empty where it is unknown, got 'x' in row 15",
    ):
        assert wanted in text
    labels.write_text(labels.read_text().replace("x,c9,005\n", ""))
    found = problems(folder, labels=labels, target="y", group="case")
    expected = [
        (folder / "002.safetensors", "not readable as safetensors"),
        (folder / "001.npz", "holds Python objects, which are never loaded"),
        (folder / "003.hdf5", "the bag is empty (0 elements"),
        (folder / "000.h5", "its elements have 4 features, those of most files 3"),
    ]
    assert len(found) == len(expected)
    for got, (path, message) in zip(found, expected, strict=True):
        assert got.startswith(f"{path}: ")
        assert message in got


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"target": "y"}, "needs labels="),
        ({"target": "y", "labels": "empty.csv"}, "a header but no row"),
        ({"target": "y", "labels": "empty.csv", "id": "slide", "labelled": False}, "a header but no row"),
        ({"target": "y", "labels": "other.csv"}, "no column has the name of a file .* such as '000'"),
        ({"target": "y", "labels": "labels.csv", "id": "case"}, "the id 'case' must be different in every row"),
        ({"target": "y", "labels": "labels.csv", "id": "Slide"}, "no column 'Slide' for the id; did you mean 'slide'"),
        ({"target": "y", "labels": "absent.csv"}, "absent.csv: there is no such file"),
        ({"target": "y", "labels": "labels.csv", "id": "y"}, "no row of the column 'y' has a file of features"),
        ({"target": "y", "labels": "labels.csv", "bag": "case"}, "'y' must be the same in every row of a bag"),
        ({"bag": "case", "labelled": False}, "needs labels="),
    ],
)
def test_labels_that_do_not_fit(folder, roles, message):
    (folder.parent / "empty.csv").write_text("slide,y\n")
    (folder.parent / "other.csv").write_text("slide,y\n0,1\n1,2\n")
    roles = roles | ({"labels": folder.parent / roles["labels"]} if "labels" in roles else {})
    with pytest.raises(DataError, match=message):
        read(folder, **roles)


def test_folders_without_bags_and_with_two_files_a_bag(folder, tmp_path):
    (tmp_path / "clam" / "h5_files").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no file of features .* did you mean .*h5_files\?"):
        read(tmp_path / "clam", labelled=False)
    save(folder / "000.npz", BAGS[0])
    with pytest.raises(DataError, match=r"000\.npz: there is 000\.h5 as well"):
        labelled(folder)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["p"], file["q"], file["r"] = np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(3)
    with pytest.raises(DataError, match=r"expected an array 'features' .* got p \(2, 2\), q \(2, 3\), r \(3,\)"):
        read(tmp_path / "clam", labelled=False)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["features"] = np.zeros((2, 2, 3))
    with pytest.raises(DataError, match=r"must have shape \(elements, width\), got \(2, 2, 3\)"):
        read(tmp_path / "clam", labelled=False)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["features"] = np.array([[b"x"]])
    with pytest.raises(DataError, match="must hold numbers"):
        read(tmp_path / "clam", labelled=False)


def test_bags_without_a_label_are_left_out(folder):
    labels = folder.parent / "labels.csv"
    lines = labels.read_text().splitlines()
    lines[1] = "," + lines[1].split(",", 1)[1]
    labels.write_text("\n".join(lines))
    data = labelled(folder, group="case")
    assert data.notes == ("1 of 12 bags has no label and is left out",)
    assert data.ids.tolist() == IDS[-2::-1]
    same(data, BAGS[-2::-1])


def test_rows_without_a_file_and_files_without_a_row_are_left_out_and_counted(folder):
    labels = folder.parent / "labels.csv"
    lines = [line for line in labels.read_text().splitlines() if not line.endswith(("010", "009"))]
    labels.write_text("\n".join([*lines, "3,c9,absent", "4,c9,gone", "oops,c9,lost"]))
    data = labelled(folder)
    assert data.ids.tolist() == [name for name in IDS[::-1] if name not in ("009", "010")]
    assert data.notes == (
        "labels.csv: 3 rows are left out for want of a file in bags, such as 'absent'",
        "bags: 2 files are left out for want of a row in labels.csv, such as '009'",
    )
    few = read(folder, labels=labels, target="y", labelled=False)
    assert few.notes == data.notes[:1], "a list of what to predict may be short"
    labels.write_text(labels.read_text().replace(",000", ",000.svs"))
    assert "000" in labelled(folder).ids.tolist(), "named by the slide that the features were made of"


def test_several_files_make_one_bag_by_a_column_of_the_labels(folder):
    frame = pd.DataFrame({"slide": IDS, "case": [f"c{k // 3}" for k in range(12)], "y": np.arange(12) // 3})
    frame.iloc[::-1].to_csv(folder.parent / "labels.csv", index=False)
    data = labelled(folder, bag="case")
    assert (data.ids.tolist(), data.target[:, 0].tolist()) == (["c3", "c2", "c1", "c0"], [3, 2, 1, 0])
    assert data.content.bags.lengths.tolist() == [sum(map(len, BAGS[k : k + 3])) for k in (9, 6, 3, 0)]
    np.testing.assert_array_equal(data.content.bags.read(3), np.concatenate(BAGS[2::-1]))
    assert data.take(np.array([3])).content.bags.positions(0) is None, "three slides have no common place"
    assert labelled(folder, bag="slide").content.bags.positions(0).shape == (len(BAGS[-1]), 2)
