"""What the sentiment models have in common: how they are built, what they read, and their text encoder.

A network is made of streams, by name ``(width, longest length)``, and its options, and reads a dictionary of padded
sequences: ``inputs["text"]`` (n, steps, width) with ``inputs["text_length"]`` (n,), the same for audio and vision.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs, Spec
from excora.errors import InputError
from excora.models.base import Model, Network, Output, Samples, seeded
from excora.models.files import check_depth
from excora.models.sentiment.masking import MaskedSteps
from excora.models.sentiment.parts import Bridge, InputNorm, Sequence, Streams
from excora.models.sentiment.text import TextEncoder
from excora.options import Options, option

#: Of the published trainings: the absolute error alone, eight epochs of patience, no ridge to start from.
PUBLISHED: dict[str, Any] = {
    "error": "mae", "correlation": "none", "criterion": "mse", "start": "none", "patience": 8, "fewest": 8,
}  # fmt: skip
#: The help of an option that several have.
MASKED = "Share of a clip's steps that are hidden in training, those most alike together, and guessed; 0 = none."
#: Training samples that statistics are taken of, at most, and how many at a time.
MOST, PIECE = 1024, 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentimentOptions(Options):
    """Of every sentiment model."""

    text_encoder: str = option("", "Folder of a BERT-like checkpoint that reads the words; empty = text features.")
    tune_text: bool = option(False, "The text encoder learns as well; otherwise it is frozen.")
    reference: bool = option(False, "As the published code has it, faults included (docs/sentiment.md).")


class SentimentNetwork(Network):
    """Base of the networks: reads the inputs, encodes the words if it has an encoder, leaves the rest to ``fuse``."""

    monitored: ClassVar[tuple[str, str] | None] = None

    def __init__(self, streams: Streams, options: SentimentOptions, targets: int = 1) -> None:
        super().__init__()
        self.streams, self.options, self.targets = dict(streams), options, targets
        self.encoder: TextEncoder | None = None
        self.masked: MaskedSteps | None = None  #: of a network that pools every modality

    @abstractmethod
    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """The prediction of sequences by name."""

    def forward(self, inputs: Inputs) -> Output:
        """Predictions (n, targets) of a batch; in training of one whose steps are in part hidden, if that is asked."""
        sequences = self.sequences(inputs)
        if self.masked is None or not self.training:
            return self.fuse(sequences)
        covered, hidden = self.masked.hide(sequences)
        output = self.fuse(covered)
        return output._replace(losses={**output.losses, "hidden": self.masked.loss(output.pooled, sequences, hidden)})

    def sequences(self, inputs: Inputs) -> dict[str, Sequence]:
        """The modalities of a batch, cut to the longest sample; in the reference all steps count, padding included."""
        found: dict[str, Sequence] = {}
        for name, (width, longest) in self.streams.items():
            length = cast(Tensor, inputs[f"{name}_length"])
            if name == "text" and self.encoder is not None:
                values = self.encoder(cast(Tensor, inputs["text_ids"]), length)
            else:
                values = cast(Tensor, inputs[name])
            if values.dim() != 3 or values.shape[2] != width or values.shape[1] > longest:
                raise InputError(
                    f"{name} must have the shape (samples, at most {longest} steps, {width}), got {tuple(values.shape)}"
                )
            sequence = Sequence(values, length)
            # DIFF: the published code has no masks, so that padding counts as frames; ours ends where a sample does.
            found[name] = self.unmasked(sequence) if self.options.reference else sequence.clean()
        return found

    def unmasked(self, sequence: Sequence) -> Sequence:
        """What the published code makes of a padded sequence."""
        return sequence.whole()

    def normed(self, sequences: dict[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:  # noqa: ARG002
        """Norms of inputs, with what they read of a batch, (rows, channels), and what of it is real."""
        yield from ()

    def bridges(self) -> Iterator[Bridge]:
        """Where attention crosses from one modality to another."""
        yield from ()

    @torch.no_grad()
    def learn(self, samples: Samples) -> None:
        """Take from the training part what a network needs to know before it is trained: the statistics of inputs."""
        seen: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {}
        if not any(isinstance(module, InputNorm) for module in self.modules()):
            return
        rows = samples.train[:: -(-len(samples.train) // MOST)]
        for piece in np.array_split(rows, -(-len(rows) // PIECE)):
            for norm, *found in self.normed(self.sequences(samples.features.read(piece))):
                seen.setdefault(norm, []).append((found[0], found[1]))
        for norm, parts in seen.items():
            if isinstance(norm, InputNorm):
                norm.learn(parts)


class SentimentModel(Model):
    """Base of the models: a subclass names its network and the modalities that it cannot do without."""

    reads = ("modalities",)
    Network: ClassVar[type[SentimentNetwork]]
    needs: ClassVar[tuple[str, ...]] = ()  #: modalities that must be there
    fewest: ClassVar[int] = 1  #: how many there must be

    def network(self, spec: Any, options: Any, learned: Mapping[str, Any]) -> SentimentNetwork:
        """``learned["encoder"]``: the shape of the text encoder, if there is one."""
        config = learned.get("encoder")
        encoder = None if config is None else TextEncoder.shaped(config, frozen=not options.tune_text)
        return self._network(spec, options, encoder)

    def _network(self, spec: Any, options: Any, encoder: TextEncoder | None) -> SentimentNetwork:
        streams = {one.name: (one.width, one.length) for one in spec.modalities}
        if encoder is not None:
            streams["text"] = (encoder.width, streams["text"][1])
        network = self.Network(streams, options, spec.targets)
        network.encoder = encoder
        network.learned = {} if encoder is None else {"encoder": encoder.config}
        return network

    def build(self, spec: Spec, samples: Samples, options: Any, *, seed: int) -> tuple[SentimentNetwork, Features]:
        """With the weights of the encoder's checkpoint, and the statistics of the training part."""
        encoder = None
        if options.text_encoder:
            encoder = TextEncoder.load(options.text_encoder, frozen=not options.tune_text)
        with seeded(seed):
            network = self._network(spec, options, encoder)
        network.eval().learn(samples)
        return network.train(), samples.features

    def prepares(self, options: Any) -> dict[str, Any]:
        """Words as numbers of the encoder's vocabulary."""
        return {"text": "ids", "tokenizer": options.text_encoder} if options.text_encoder else {}

    def check(self, spec: Any, options: Any) -> None:
        """The modalities that it needs are there."""
        super().check(spec, options)
        spec.need(self.name, *self.needs)
        if len(spec.modalities) < self.fewest:
            raise InputError(f"model {self.name!r} needs {self.fewest} modalities or more, got {', '.join(spec.names)}")
        if options.text_encoder and "text" not in spec:
            raise InputError("text_encoder reads words, and these samples have none: leave it out")

    def check_learned(self, learned: Any, spec: Spec, options: Any, tensors: Mapping[str, Tensor]) -> None:
        """Nothing but the shape of the text encoder, where there is one."""
        if not options.text_encoder:
            super().check_learned(learned, spec, options, tensors)
            return
        if not isinstance(learned, dict) or set(learned) != {"encoder"}:
            raise InputError(f"what a network with a text encoder learned must be its shape, got {learned!r}")
        check_depth(TextEncoder.depth(learned["encoder"]), tensors)


class LayeredModel(SentimentModel):
    """A model whose option ``layers`` says how deep it is."""

    def check_learned(self, learned: Any, spec: Spec, options: Any, tensors: Mapping[str, Tensor]) -> None:
        """No more layers than the file has tensors."""
        super().check_learned(learned, spec, options, tensors)
        check_depth(options.layers, tensors)
