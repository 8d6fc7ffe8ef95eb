"""The plain model for clips: a pool of each modality beside the others, one head; texts in any order and company."""

from __future__ import annotations

import numpy as np
import pytest
import samples_data
import torch

from excora.data.dataset import Dataset
from excora.data.modalities import ModalitySet
from excora.data.preparation import Preparation
from excora.models.sentiment.parts import Sequence
from excora.models.sentiment.streams import OneStream, StreamsNetwork, StreamsOptions, by_length, real_steps
from excora.models.sentiment.text import TextEncoder
from excora.settings import Settings
from excora.training.building import build
from excora.training.stepping import slowed

SHAPE = {
    "model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 8, "max_position_embeddings": 16,
}  # fmt: skip


def made(*names, **settings):
    data = samples_data.modalities()
    content = ModalitySet({name: data.content.frames[name] for name in names})
    data = Dataset(data.ids, data.targets, data.target, content)
    setup = Settings(model="streams", start="none", accelerator="cpu", **settings).settled("modalities", 40)
    return build(data, np.arange(40), setup)


def test_the_prediction_is_the_head_of_the_pools_side_by_side():
    built = made("text", "audio", layers=0, pool="mean")
    assert type(built.network) is StreamsNetwork
    inputs = built.features.read(np.arange(5))
    output = built.network(inputs)
    means = [inputs[name].sum(1) / inputs[f"{name}_length"].unsqueeze(1) for name in ("text", "audio")]
    torch.testing.assert_close(output.prediction, built.network.head(torch.cat(means, 1)))
    assert list(output.pooled) == ["text", "audio"]


def test_of_one_modality_the_monitor_can_listen():
    built = made("vision", pool="eca")
    assert type(built.network) is OneStream
    assert built.network.monitored == ("pool", "head")
    assert list(built.network(built.features.read(np.arange(3))).pooled) == ["vision"]


def test_padding_does_not_count():
    built = made("text", "vision", pool="softmax")
    network, inputs = built.network.eval(), built.features.read(np.arange(6))
    wanted = network(inputs).prediction
    for name in ("text", "vision"):
        length = inputs[f"{name}_length"]
        behind = torch.arange(inputs[name].shape[1]) >= length.unsqueeze(1)
        inputs[name] = inputs[name].masked_fill(behind.unsqueeze(2), 7.0)
    torch.testing.assert_close(network(inputs).prediction, wanted)


def test_real_steps():
    values = torch.arange(6.0).view(2, 3, 1)
    found = real_steps(Sequence(values, torch.tensor([2, 1])))
    assert found.values.flatten().tolist() == [0.0, 1.0, 3.0]
    assert found.lengths.tolist() == [2, 1]


def test_texts_of_one_length_are_read_together_with_the_same_result():
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    encoder = TextEncoder.shaped(SHAPE, frozen=False).eval()
    length = torch.randint(1, 13, (21,))
    ids = torch.randint(1, 30, (21, 12))
    found, wanted = by_length(encoder, ids, length), encoder(ids, length)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    weight = torch.randn_like(found)
    grads = [
        torch.autograd.grad((x * weight).sum(), [*encoder.parameters()], allow_unused=True) for x in (found, wanted)
    ]
    for one, other in zip(*grads, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert by_length(encoder, ids[:0], length[:0]).shape == (0, 12, 8)


def test_what_follows_the_first_end_mark_is_read_as_context_and_not_pooled():
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    encoder = TextEncoder.shaped(SHAPE).eval()
    ids = torch.tensor([[1, 7, 9, 2, 8, 2], [1, 5, 2, 0, 0, 0]])
    inputs = {"text_ids": ids, "text_length": torch.tensor([6, 3])}
    found = {}
    for own in (False, True):
        network = StreamsNetwork({"text": (8, 6)}, StreamsOptions(pool="mean", layers=0, own_words=own))
        network.encoder = encoder
        found[own] = network(inputs).pooled["text"].value
    states = encoder(ids, inputs["text_length"])
    torch.testing.assert_close(found[True][0], states[0, :4].mean(0))
    torch.testing.assert_close(found[False][0], states[0].mean(0))
    torch.testing.assert_close(found[True][1], found[False][1], msg="a text without context")
    other = inputs | {"text_ids": ids.clone()}
    other["text_ids"][0, 4] = 11
    network.encoder = encoder
    assert (network(other).pooled["text"].value[0] - found[True][0]).abs().max() > 1e-4, "it is read"


def test_the_encoder_may_have_a_step_size_of_its_own():
    pytest.importorskip("transformers")
    network = made("text", layers=0).network
    network.encoder = TextEncoder.shaped(SHAPE, frozen=False)
    slow = {id(p) for p in network.pretrained()}
    assert slow == {id(p) for p in network.encoder.parameters()}
    groups = slowed([{"params": [*network.parameters()], "weight_decay": 0.1}], slow, 0.05)
    assert [(group["factor"], len(group["params"]) == len(slow)) for group in groups] == [(1.0, False), (0.05, True)]
    assert [*made("text").network.pretrained()] == []


def test_it_reads_any_modalities():
    data = samples_data.modalities()
    for names in (("audio",), ("text", "vision"), ("text", "audio", "vision")):
        content = ModalitySet({name: data.content.frames[name] for name in names})
        spec = Preparation.fit(Dataset(data.ids, data.targets, data.target, content), np.arange(20)).spec
        assert spec.names == names
        assert made(*names).network.names == names
