"""Delimited text: separators, decimal commas and encodings are guessed, said, and may be told."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest

from excora.data.delimited import GUESSED, Writing, read_delimited
from excora.data.frames import open_frame
from excora.errors import InputError

SEMICOLONS, TABS, BARS = (f"cells are separated by {name} (--sep)" for name in ("semicolons", "tabs", "vertical bars"))
COMMA, WINDOWS = (
    "numbers have a decimal comma (--decimal)",
    "the text is no UTF-8 and is read as Windows-1252 (--encoding)",
)


@pytest.mark.parametrize(
    ("name", "content", "x", "notes"),
    [
        ("a.csv", b"x,y\n1.5,2\n", [1.5], []),
        ("a.csv", b"x;y\n1,5;2\n-2,25e1;3\n", [1.5, -22.5], [SEMICOLONS, COMMA]),
        ("a.csv", b"x;y\n1.5;2\n", [1.5], [SEMICOLONS]),
        ("a.csv", b"x\ty\n1\t2,5\n", [1], [TABS, COMMA]),
        ("a.csv", b"x|y\n1|2\n", [1], [BARS]),
        ("a.tsv", b"x,y\n1,2\n", [1], ["cells are separated by commas (--sep)"]),
        ("a.tsv", b"x\ty\n1,5\t2\n", [1.5], [COMMA]),
        ("a.csv", b"x;y,z\n1;2,3\n", None, []),
        ("a.csv", b'x,y\n"a;b",2\n"c;d",3\n', ["a;b", "c;d"], []),
        ("a.csv", b"x\n1\n2\n", [1, 2], []),
        ("a.csv", "x,größe\n1,2\n".encode("cp1252"), [1], [WINDOWS]),
        ("a.csv", "x,größe\n1,2\n".encode("utf-16"), [1], []),
        ("a.csv", "x,größe\n1,2\n".encode("utf-8-sig"), [1], []),
        ("a.csv", b"x;y\n1,5;2\nred;3\n", ["1,5", "red"], [SEMICOLONS]),
    ],
)
def test_guesses(tmp_path, name, content, x, notes):
    path = tmp_path / name
    path.write_bytes(content)
    frame, found = read_delimited(path, (), GUESSED)
    assert found == notes
    assert (frame["x"].tolist() if "x" in frame else None) == x
    assert list(frame.columns)[-1] in ("y", "größe", "x", "z")


def test_what_is_said_is_not_guessed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("x;größe\n1,5;2\n".encode("latin-1"))
    frame, notes = read_delimited(path, (), Writing(";", ",", "latin-1"))
    assert (frame.to_dict("list"), notes) == ({"x": [1.5], "größe": [2]}, [])
    path.write_text("x\ty\n1\t2\n")
    assert list(read_delimited(path, (), Writing("\\t"))[0]) == ["x", "y"], "as a shell hands it over"
    path.write_text('x,y\n"1,5",2\n')
    assert read_delimited(path, (), Writing(decimal=","))[0]["x"].tolist() == [1.5]
    for wrong, message in ((Writing("::"), "separated by one character"), (Writing(encoding="klingon"), "no encoding")):
        with pytest.raises(InputError, match=message):
            read_delimited(path, (), wrong)


def test_a_column_of_names_keeps_its_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id;x\n1,5;2,5\n")
    found = open_frame(path, text=["id"])
    assert found.frame.to_dict("list") == {"id": ["1,5"], "x": [2.5]}
    assert found.notes == (f"a.csv: {SEMICOLONS}", f"a.csv: {COMMA}")


@pytest.mark.parametrize("pack", [gzip.open, lzma.open])
def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr("excora.data.delimited.BOMB", 1 << 20)
    path = tmp_path / f"a.csv.{'gz' if pack is gzip.open else 'xz'}"
    with pack(path, "wb") as file:
        file.write(b"x,y\n" + b"0" * (1 << 24))
    with pytest.raises(InputError, match=r"MB of text, .*unpack it first"):
        read_delimited(path, (), GUESSED)
    numbers = np.random.default_rng(0).normal(size=(200_000, 1))
    rows = "\n".join(f"{x:.8f},1" for x in numbers[:, 0])
    with pack(path, "wb") as file:
        file.write(f"x,y\n{rows}\n".encode())
    assert len(read_delimited(path, (), GUESSED)[0]) == 200_000
