"""What is learned of clips: scales, room for steps, text as ids; and what does not fit it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import samples_data

from data.modalities.made import write
from excora.data.dataset import Dataset
from excora.data.modalities import ModalitySet, PreparedModalities
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.errors import InputError

TRAIN = np.arange(8)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return read(write(tmp_path_factory.mktemp("clips") / "a.pkl"))


def test_features_as_they_are(data):
    raw = Preparation.fit(data, TRAIN, scaling="none").features(data).read(np.array([2]))
    found = data.content.frames["audio"].bags
    np.testing.assert_array_equal(raw["audio"][0, : found.lengths[2]], found.read(2))


def test_text_as_ids_of_the_file(data):
    prepared = Preparation.fit(data, TRAIN, text="ids")
    assert prepared.spec["text"].ids
    assert prepared.spec["text"].length == 5
    inputs = prepared.features(data).read(np.arange(4))
    assert "text" not in inputs
    assert inputs["text_ids"].tolist()[1] == [100, 101, 0, 0, 0]
    assert inputs["text_length"].tolist() == [1, 2, 3, 4]
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again == prepared
    assert prepared.matrix(data).shape == (16, 6 + 3 + 4 + 3)
    summary = prepared.spec.summarise(inputs)
    assert summary.shape == (4, prepared.spec.summary) == (4, 1 + 3 + 1 + 4 + 1)


def test_a_transcript_alone(data):
    words = Dataset(data.ids, data.targets, data.target, ModalitySet({}, tokens=data.content.tokens))
    with pytest.raises(InputError, match="a transcript and no features"):
        Preparation.fit(words, TRAIN)
    prepared = Preparation.fit(words, TRAIN, text="ids")
    assert prepared.matrix_names == ("log word pieces",)
    np.testing.assert_allclose(prepared.matrix(words)[:3, 0], np.log([1, 2, 3]))


def test_what_does_not_fit_is_refused(data):
    prepared = Preparation.fit(data, TRAIN)
    frames = dict(data.content.frames)
    without = Dataset(data.ids, data.targets, None, ModalitySet({"text": frames["text"]}))
    with pytest.raises(InputError, match="training had audio, and these clips have text"):
        prepared.features(without)
    wrong = ModalitySet({**frames, "audio": frames["vision"]})
    with pytest.raises(InputError, match="training had audio of 3 features, and these clips have 4"):
        prepared.features(Dataset(data.ids, data.targets, None, wrong))
    with pytest.raises(InputError, match="scaling must be one of standard, none"):
        Preparation.fit(data, TRAIN, scaling="quantile")
    with pytest.raises(InputError, match="training had clips"):
        prepared.features(samples_data.table())


def test_foreign_values_are_refused(data):
    good = Preparation.fit(data, TRAIN).content.to_dict()
    for change in (
        {"lengths": {}}, {"lengths": {"text": 0}}, {"scaling": "x"}, {"text": 3}, {"statistics": {}},
        {"lengths": {**good["lengths"], "smell": 3}}, {"lengths": {"text": 10**9}},
    ):  # fmt: skip
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            PreparedModalities.from_dict({**good, **change})


def test_a_modality_that_training_has_not_seen_is_ignored(data):
    held = ModalitySet({"text": data.content.frames["text"]})
    prepared = Preparation.fit(Dataset(data.ids, data.targets, data.target, held), TRAIN)
    assert prepared.examine(data).notes == (
        "audio is ignored: training has not seen it", "vision is ignored: training has not seen it",
    )  # fmt: skip
