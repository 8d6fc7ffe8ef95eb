"""The source: what it claims, labels and their range, roles, the file's own split, a run from one end to the other."""

from __future__ import annotations

import numpy as np
import pytest

from data.modalities.made import content, write
from excora.data.modalities import ModalitySource
from excora.data.reading import read
from excora.data.roles import Roles
from excora.data.splits import split
from excora.data.validation import validate
from excora.errors import DataError, InputError


def test_what_it_claims(tmp_path):
    source, path = ModalitySource(), write(tmp_path / "a.pkl")
    np.savez(tmp_path / "bags.npz", values=np.zeros((2, 2)), lengths=np.array([2]))
    (tmp_path / "sub").mkdir()
    claimed = [path, tmp_path, tmp_path / "bags.npz", tmp_path / "sub", tmp_path / "a.csv"]
    assert [source.claims(one, Roles()) for one in claimed] == [True, True, False, False, False]


def test_several_files_in_a_folder(tmp_path):
    write(tmp_path / "a.pkl"), write(tmp_path / "b.pkl")
    with pytest.raises(DataError, match=r"name one of a\.pkl, b\.pkl"):
        read(tmp_path)


def test_the_label_and_the_split_of_the_file(tmp_path):
    data = read(write(tmp_path / "a.pkl"))
    assert data.targets == ("regression_labels",)
    assert [len(part) for part in split(data)] == [8, 4, 4]
    assert data.group[0] == "train0"
    told = str(validate(tmp_path / "a.pkl"))
    assert "6 numbers a step, 1 to 5 of 5 steps, median 3, padded right" in told
    assert "train 8, validation 4, test 4" in told


def test_labels_outside_the_range_are_refused(tmp_path):
    held = content()
    held["test"]["regression_labels"][1] = 3.5
    path = write(tmp_path / "a.pkl", held)
    with pytest.raises(DataError, match=r"must lie in \[-3, 3\].*got 3.5 for 'test0\$_\$1' \(1 such clips\)"):
        read(path)
    assert len(read(path, labelled=False)) == 16
    held["test"]["regression_labels"][1] = np.nan
    found = read(write(tmp_path / "a.pkl", held))
    assert found.notes == ("1 of 16 clips has no label and is left out",)


def test_roles(tmp_path):
    path = write(tmp_path / "a.pkl")
    data = read(path, target=["regression_labels", "classification_labels"], group="annotations", drop="audio")
    assert data.target.shape == (16, 2)
    assert set(data.group) == {"Neutral"}
    assert list(data.content.frames) == ["text", "vision"]
    for wrong, match in (
        ({"target": "absent"}, "the target 'absent' must be numbers with an entry a clip; such are class"),
        ({"target": "annotations"}, "must be numbers"),
        ({"group": "absent"}, "there is no array 'absent' for the group"),
        ({"drop": "smell"}, "drop= takes text, audio, vision, got 'smell'"),
        ({"time": "x"}, "time= has no meaning here"),
    ):
        with pytest.raises(DataError, match=match):
            read(path, **wrong)


def test_text_only_files_need_an_encoder(tmp_path):
    held = {name: {key: part[key] for key in ("raw_text", "regression_labels")} for name, part in content().items()}
    data = read(write(tmp_path / "a.pkl", held))
    assert len(data) == 16
    assert data.content.words[1] == "w0 w1"
    with pytest.raises(InputError, match="nothing is left"):
        read(tmp_path / "a.pkl", drop="text")
