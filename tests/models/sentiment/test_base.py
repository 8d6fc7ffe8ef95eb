"""What the sentiment models have in common."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from excora.data.modalities import Modality, ModalitySpec
from excora.errors import InputError
from excora.models import models
from excora.models.base import Samples
from excora.models.files import restore
from excora.models.sentiment.lf_dnn import LFDNN, LFDNNOptions
from excora.models.sentiment.text import TextEncoder
from models.sentiment.cases import STREAMS, batch
from models.sentiment.test_text import TINY

NAMES = [name for name in models if "modalities" in models[name].reads and hasattr(models[name], "Network")]
WORDS = ModalitySpec(targets=1, modalities=(Modality("text", 0, 9), Modality("audio", 3, 7), Modality("vision", 4, 8)))


class Clips:
    """Prepared features: words as ids, audio and vision."""

    def __init__(self, n: int = 12) -> None:
        generator = torch.Generator().manual_seed(0)
        self.sizes = np.ones(n, np.intp)
        self.inputs = {name: x.float() if x.is_floating_point() else x for name, x in batch(n=n).items()}
        self.inputs |= {"audio": self.inputs["audio"][:, :7], "vision": self.inputs["vision"][:, :8]}
        self.inputs |= {f"{name}_length": self.inputs[f"{name}_length"].clamp_max(7) for name in ("audio", "vision")}
        del self.inputs["text"]
        self.inputs["text_ids"] = torch.randint(1, 20, (n, 9), generator=generator)

    def read(self, index):
        """Some of them."""
        return {name: x[index] for name, x in self.inputs.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny checkpoint."""
    torch.manual_seed(0)
    where = tmp_path_factory.mktemp("checkpoint")
    TextEncoder.shaped(TINY).body.save_pretrained(where)
    return where


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tuned", [False, True])
def test_words_are_read_by_an_encoder(name, tuned, folder):
    model, clips = models[name], Clips()
    options = model.Options(text_encoder=str(folder), tune_text=tuned, **model.small)
    assert model.prepares(options) == {"text": "ids", "tokenizer": str(folder)}
    model.check(WORDS, options)
    samples = Samples(clips, np.random.default_rng(0).normal(size=(12, 1)).astype(np.float32), np.arange(8))
    network, features = model.build(WORDS, samples, options, seed=0)
    assert features is clips
    output = network(clips.read(np.arange(12)))
    assert output.prediction.shape == (12, 1)
    output.prediction.square().sum().backward()
    learned = {n for n, p in network.encoder.named_parameters() if p.grad is not None and p.grad.any()}
    assert learned == ({n for n, _ in network.encoder.named_parameters()} if tuned else set())
    # a run folder holds the encoder: the checkpoint may be gone
    tensors, described = load(save(network.state_dict())), json.loads(json.dumps(network.learned))
    again = restore(name, WORDS, options, described, tensors)
    with torch.no_grad():
        other = again(clips.read(np.arange(4))).prediction
        assert torch.equal(network.eval()(clips.read(np.arange(4))).prediction, other)
    for wrong in ({}, {"encoder": None}, {"encoder": TINY | {"num_hidden_layers": 10**9}}, described | {"more": 1}):
        with pytest.raises(InputError):
            restore(name, WORDS, options, wrong, tensors)


def test_an_encoder_needs_words():
    spec = ModalitySpec(targets=1, modalities=(Modality("audio", 3, 7), Modality("vision", 4, 8)))
    with pytest.raises(InputError, match="text_encoder reads words, and these samples have none"):
        models["tfn"].check(spec, models["tfn"].Options(text_encoder="somewhere"))


@pytest.mark.parametrize("name", NAMES)
def test_it_says_which_modalities_it_needs(name):
    model = models[name]
    for missing in model.needs:
        spec = ModalitySpec(targets=1, modalities=tuple(m for m in WORDS.modalities if m.name != missing))
        with pytest.raises(InputError, match=f"model '{name}' needs {missing}"):
            model.check(spec, model.Options())
    alone = ModalitySpec(targets=1, modalities=WORDS.modalities[:1])
    if model.fewest > 1:
        with pytest.raises(InputError, match=f"model '{name}' needs"):
            model.check(alone, model.Options())
    else:
        model.check(alone, model.Options())


def test_a_batch_of_another_shape_is_refused():
    network, inputs = LFDNN(STREAMS, LFDNNOptions()).double(), batch()
    for wrong in (inputs["audio"][..., :2], inputs["audio"].repeat(1, 2, 1), inputs["audio"][0]):
        with pytest.raises(InputError, match=r"audio must have the shape \(samples, at most 11 steps, 3\), got"):
            network(inputs | {"audio": wrong})
