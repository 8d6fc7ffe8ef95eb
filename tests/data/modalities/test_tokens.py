"""Text as ids: the file's own, and those of a tokenizer on disk."""

from __future__ import annotations

import numpy as np
import pytest

from excora.data.modalities import ModalitySet
from excora.data.modalities.tokens import MOST, encode, from_bert, packed, pieces
from excora.errors import InputError


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
    found = encode(content, folder)
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
        encode(ModalitySet({}, tokens=np.zeros((1, 1), np.int64)), folder)
    with pytest.raises(InputError, match="no text_bert"):
        encode(ModalitySet({}, np.array(["a"], object)), "")
    with pytest.raises(InputError, match=r"a folder with a tokenizer\.json"):
        encode(ModalitySet({}, np.array(["a"], object)), str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="this is no tokenizer"):
        encode(ModalitySet({}, np.array(["a"], object)), str(tmp_path))
    for wrong in (np.zeros((2, 2, 4)), np.full((1, 3, 2), 0.5), -np.ones((1, 3, 2))):
        with pytest.raises(InputError, match="text_bert"):
            from_bert(wrong)
    assert packed([[]], 5).tolist() == [[0]]
