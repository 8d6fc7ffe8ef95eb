"""From a layout to clips: lengths by mask and alignment, ids and videos, columns, what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from data.modalities.made import content, write
from excora.data.modalities.clips import assemble, clips_in
from excora.data.modalities.layout import joined
from excora.errors import InputError


def made(path, held):
    return assemble(joined(path, held))


def test_unaligned_clips_have_the_lengths_of_the_file_and_of_the_mask(tmp_path):
    clips = clips_in(write(tmp_path / "a.pkl"))
    frames = clips.content.frames
    assert frames["text"].bags.lengths[:8].tolist() == [1, 2, 3, 4, 5, 1, 2, 3]
    assert frames["audio"].bags.lengths[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 1]
    assert (frames["audio"].longest, frames["vision"].longest) == (7, 9)
    assert clips.notes == ()
    assert clips.columns["video"][:3].tolist() == ["train0", "train0", "train1"]
    assert clips.columns["regression_labels"].dtype == np.float64
    assert clips.columns["annotations"][0] == "Neutral"
    assert "checksum" in clips.content.facts["file"]


def test_aligned_clips_have_the_lengths_of_their_words_even_where_frames_are_zero(tmp_path):
    held = content(aligned=True)
    held["train"]["vision"][4, 3:] = 0  # no face in the last frames, which are real all the same
    clips = made(tmp_path, held)
    assert clips.content.frames["vision"].bags.lengths[:8].tolist() == [1, 2, 3, 4, 5, 1, 2, 3]


def test_without_any_length_the_last_step_that_is_not_zero_ends_a_clip(tmp_path):
    held = {"text": np.zeros((2, 3, 1)), "vision": np.zeros((2, 4, 1))}
    held["text"][:, 0], held["vision"][0, :3], held["vision"][1, :2] = 1, 1, 1
    assert made(tmp_path, held).content.frames["vision"].bags.lengths.tolist() == [3, 2]


def test_ids_of_several_columns_and_ids_that_repeat(tmp_path):
    held = {"text": np.ones((3, 1, 1)), "id": np.array([[b"v", b"0", b"1"], [b"v", b"0", b"1"], [b"w", b"1", b"2"]])}
    clips = made(tmp_path, held)
    assert clips.ids.tolist() == ["v$_$0$_$1", "v$_$0$_$1 (2)", "w$_$1$_$2"]
    assert clips.columns["video"].tolist() == ["v", "v", "w"]
    assert clips.notes == ("1 ids come more than once: the later ones have a number behind them",)
    assert made(tmp_path, {"text": np.ones((2, 1, 1))}).ids.tolist() == ["0", "1"]


def test_labels_of_any_shape_with_an_entry_a_clip(tmp_path):
    held = {"text": np.ones((2, 1, 1)), "labels": np.array([[[1.5]], [[2.0]]]), "odd": np.array([None, 2.0], object)}
    columns = made(tmp_path, held).columns
    assert columns["labels"].tolist() == [1.5, 2.0]
    assert np.isnan(columns["odd"][0])


def test_modalities_are_left_out_by_name(tmp_path):
    path = write(tmp_path / "a.pkl")
    clips = clips_in(path, ("audio", "text"))
    assert list(clips.content.frames) == ["vision"]
    assert clips.content.words is None
    with pytest.raises(InputError, match="nothing is left of the clips"):
        clips_in(path, ("text", "audio", "vision"))


def test_repairs_are_counted(tmp_path):
    held = content()
    held["train"]["audio"][0, 0, 0] = -np.inf
    held["test"]["vision_lengths"][0] = 99
    notes = clips_in(write(tmp_path / "a.pkl", held)).notes
    assert notes == (
        "audio: 1 -inf read as 0, as the published loaders do with -inf",
        "vision: 1 clip of a length beyond the 9 steps of the file: cut to 9",
    )
