"""Text as ids: the file's own, and those of a tokenizer on disk."""

from __future__ import annotations

import json
import pickle
import shutil
import sys

import numpy as np
import pytest

from excora.data.dataset import Dataset
from excora.data.modalities import ModalitySet
from excora.data.modalities.tokens import MOST, _tokenizer, encode, from_bert, packed, piece, pieces, read_tokenizer
from excora.data.preparation import Preparation
from excora.errors import InputError, MissingExtraError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: k for k, word in enumerate(["[UNK]", "[CLS]", "[SEP]", "good", "bad", "film"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.enable_padding(length=20)
    where = tmp_path_factory.mktemp("checkpoint")
    made.save(str(where / "tokenizer.json"))
    return str(where)


def test_transcripts_through_a_tokenizer(folder):
    content = ModalitySet({}, np.array(["GOOD film", "bad", "film " * 100], object))
    found = encode(content, read_tokenizer(folder))
    assert found.shape == (3, MOST)
    assert found[:2, :5].tolist() == [[1, 3, 5, 2, -1], [1, 4, 2, -1, -1]]
    assert (found[2] >= 0).all()
    assert found[2, -1] == 2
    assert pieces(content.words[:1], folder).tolist() == ["[CLS] good film [SEP]"]


def test_ids_of_the_file():
    bert = np.zeros((2, 3, 4))
    bert[0, 0, :2], bert[0, 1, :2] = [101, 102], 1
    found = from_bert(bert)
    assert found.tolist() == [[101, 102], [0, -1]]  # a clip without a word has one id
    content = ModalitySet({}, tokens=found)
    assert encode(content, "") is found


def test_what_cannot_be_read(folder, tmp_path):
    with pytest.raises(InputError, match="no raw_text"):
        encode(ModalitySet({}, tokens=np.zeros((1, 1), np.int64)), read_tokenizer(folder))
    with pytest.raises(InputError, match="no text_bert"):
        encode(ModalitySet({}, np.array(["a"], object)), "")
    with pytest.raises(InputError, match=r"a folder with a tokenizer\.json"):
        read_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="this is no tokenizer"):
        read_tokenizer(str(tmp_path))
    for wrong in (np.zeros((2, 2, 4)), np.full((1, 3, 2), 0.5), -np.ones((1, 3, 2))):
        with pytest.raises(InputError, match="text_bert"):
            from_bert(wrong)
    assert packed([[]], 5).tolist() == [[0]]


def test_a_run_keeps_its_tokenizer(folder, tmp_path):
    content = ModalitySet({}, np.array(["good", "bad film", "film", "good good"], object))
    ids = np.array(list("abcd"), object)
    data = Dataset(ids, ("y",), np.arange(4.0)[:, None], content)
    elsewhere = tmp_path / "checkpoint"
    shutil.copytree(folder, elsewhere)
    prepared = Preparation.fit(data, np.arange(3), text="ids", tokenizer=str(elsewhere))
    shutil.rmtree(elsewhere)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again.features(data).read(np.array([1]))["text_ids"][0, :5].tolist() == [1, 4, 5, 2, 0]
    assert again.spec["text"].length == MOST


def test_without_tokenizers_the_extra_is_named(folder, monkeypatch):
    _tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'excora\[sentiment\]'"):
        read_tokenizer(folder)


def test_the_steps_of_ids_are_called_after_their_pieces(folder):
    content = ModalitySet({}, np.array(["GOOD odd film", "bad"], object))
    data = Dataset(np.array(["a", "b"], object), ("y",), np.array([[0.0], [1.0]]), content)
    features = Preparation.fit(data, np.arange(2), text="ids", tokenizer=folder).features(data)
    named = [features.element_name("text", 0, k) for k in range(6)]
    assert named == ["[CLS]", "good", "[UNK]", "film", "[SEP]", "step 5"]
    assert features.element_name("audio", 0, 3) == "frame 3"
    assert pickle.loads(pickle.dumps(features)).element_name("text", 1, 1) == "bad", "for processes that read data"


def test_the_files_own_ids_are_called_after_words_only_where_they_are_words():
    ids = np.array([[101, 7, 8, 102], [101, 7, 8, 102]])
    content = ModalitySet({}, np.array(["not bad", "unbelievable"], object), tokens=ids)
    assert [piece(content, "", 1, k) for k in (0, 1)] == ["step 0", "step 1"]
    assert piece(ModalitySet({}, tokens=ids), "", 0, 2) == "step 2"
