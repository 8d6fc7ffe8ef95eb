"""Once converted, the same clips: every array, word and note; and foreign files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from data.modalities.made import content, write
from excora.data.modalities import convert
from excora.data.modalities.conversion import MARK, is_converted, read_clips
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.errors import InputError


@pytest.fixture
def path(tmp_path):
    held = content()
    held["train"]["audio"][0, 0, 0] = np.nan
    return write(tmp_path / "a.pkl", held)


def test_the_clips_are_the_same(path):
    output = path.with_suffix(".safetensors")
    convert(path, output)
    one, other = read(path), read(output)
    assert one.fingerprint() == other.fingerprint()
    assert one.notes == other.notes != ()
    assert one.content.facts == other.content.facts
    assert one.part.tolist() == other.part.tolist()
    for text in ("features", "ids"):
        batches = [Preparation.fit(d, np.arange(8), text=text).features(d).read(np.arange(16)) for d in (one, other)]
        assert all((batches[0][name] == batches[1][name]).all() for name in batches[0])
    assert read(path.parent).fingerprint() == other.fingerprint()  # of the two in the folder the converted one is read


def test_the_output_has_its_suffix(path):
    with pytest.raises(InputError, match=r"must be a \.safetensors file"):
        convert(path, path.with_suffix(".npz"))


def test_foreign_files(path, tmp_path):
    output = path.with_suffix(".safetensors")
    convert(path, output)
    tensors = load_file(output)
    from safetensors import safe_open

    with safe_open(output, framework="np") as file:
        words = json.loads(file.metadata()[MARK])
    other = tmp_path / "b.safetensors"
    for change in (
        {"kind": "x"}, {"ids": words["ids"][1:]}, {"text": {"longest": 1, "padding": "none"}}, {"words": ["a"]},
        {"ids": 3},
    ):  # fmt: skip
        save_file(tensors, other, {MARK: json.dumps({**words, **change})})
        with pytest.raises(InputError):
            read_clips(other)
    save_file({**tensors, "text": tensors["text"][1:]}, other, {MARK: json.dumps(words)})
    with pytest.raises(InputError, match="lengths"):
        read_clips(other)
    save_file({"x": np.zeros(1)}, other)
    assert not is_converted(other)
    other.write_bytes(b"rubbish")
    assert not is_converted(other)
    save_file(tensors, other, {MARK: "[]"})
    assert not is_converted(other)
