"""Specs, clips and batches: fixed shapes, zeros behind the end, names of steps."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import samples_data
import torch

from excora.data.bags import ArrayBags
from excora.data.modalities import Frames, Modality, ModalitySet, ModalitySpec
from excora.data.preparation import Preparation
from excora.errors import InputError


@pytest.fixture(scope="module")
def data():
    return samples_data.modalities()


@pytest.fixture(scope="module")
def prepared(data):
    return Preparation.fit(data, np.arange(40))


def test_a_spec_says_what_there_is(prepared):
    spec = prepared.spec
    assert spec.names == ("text", "audio", "vision")
    assert spec["vision"] == Modality("vision", 4, 9)
    assert "audio" in spec
    assert not spec.aligned
    assert ModalitySpec(targets=1, modalities=(Modality("text", 0, 5), Modality("audio", 2, 5))).aligned
    with pytest.raises(InputError, match="these data have no smell, only text, audio, vision"):
        spec["smell"]
    with pytest.raises(InputError, match="model 'almt' needs smell, and these data have text, audio, vision"):
        spec.need("almt", "text", "smell")


def test_batches_are_padded_to_the_spec_with_zeros_behind_the_end(data, prepared):
    inputs = prepared.features(data).read(np.array([3, 50]))
    assert list(inputs) == ["text", "text_length", "audio", "audio_length", "vision", "vision_length"]
    for one in prepared.spec.modalities:
        values, lengths = inputs[one.name], inputs[f"{one.name}_length"]
        assert values.shape == (2, one.length, one.width)
        assert lengths.dtype == torch.int64
        frames = data.content.frames[one.name].bags
        statistics = prepared.content.statistics[one.name]
        for row, length, place in zip(values, lengths, (3, 50), strict=True):
            assert length == frames.lengths[place]
            wanted = (frames.read(place) - statistics.mean) / statistics.std
            np.testing.assert_allclose(row[:length], wanted, rtol=1e-5, atol=1e-6)
            assert not row[length:].any()


def test_longer_sequences_than_there_is_room_for_are_cut(data, prepared):
    values = np.ones((20, 6), np.float32)
    frames = {**data.content.frames, "text": Frames(ArrayBags(values, [20]), 20)}
    frames = {name: one if name == "text" else one.take(np.array([0])) for name, one in frames.items()}
    new = samples_data.modalities(1)
    new = type(new)(new.ids, new.targets, None, ModalitySet(frames))
    inputs = prepared.features(new).read(np.array([0]))
    assert inputs["text"].shape == (1, 5, 6)
    assert inputs["text_length"].tolist() == [5]
    assert prepared.examine(new).notes == ("text: 1 longer than the 5 steps of training are cut there",)


def test_the_summary_is_the_mean_of_the_real_steps(data, prepared):
    found = prepared.spec.summarise(prepared.features(data).read(np.arange(70)))
    assert found.shape == (70, prepared.spec.summary)
    np.testing.assert_allclose(found, prepared.matrix(data), rtol=1e-4, atol=1e-5)


def test_the_names_of_steps():
    frames = {
        "text": Frames(ArrayBags(np.zeros((7, 1)), [3, 4]), 4),
        "audio": Frames(ArrayBags(np.zeros((2, 1)), [1, 1]), 1),
    }
    words = np.array(["a fine film", "not bad"], object)
    content = ModalitySet(frames, words)
    assert [content.step_name("text", 0, k) for k in range(3)] == ["a", "fine", "film"]
    assert [content.step_name("text", 1, k) for k in range(4)] == ["[CLS]", "not", "bad", "[SEP]"]
    assert content.step_name("audio", 0, 0) == "frame 0"
    pieces = ModalitySet(frames, words, np.array(["x y ##z", "?"], object))
    assert [pieces.step_name("text", 0, 2), pieces.step_name("text", 1, 1)] == ["##z", "step 1"]
    assert pieces.take(np.array([1, 0])).step_name("text", 1, 2) == "##z"


def test_marks_tell_clips_apart(data):
    def mark(content):
        found = hashlib.sha256()
        content.mark(found)
        return found.hexdigest()

    other = samples_data.modalities(seed=1).content
    assert mark(data.content) == mark(samples_data.modalities().content)
    assert len({mark(data.content), mark(other), mark(ModalitySet(data.content.frames))}) == 3
    assert len(ModalitySet({}, np.array(["a", "b"], object))) == 2
