"""The model "dlf", disentangled and language-focused (Wang et al. 2025)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.data.dataset import Spec
from excora.errors import InputError
from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, LayeredModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.crossmodal import Convolution, Encoder, Residual
from excora.models.sentiment.dlf_losses import branch_errors, hinge, orthogonal, rebuilt
from excora.models.sentiment.parts import Sequence, Streams, aligned
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class DLFOptions(SentimentOptions):
    """Of the model "dlf"."""

    dim: int = option(50, "Width of a modality after its convolution.", least=1)
    heads: int = option(10, "Attention heads.", least=1)
    layers: int = option(2, "Layers of a transformer; one more where language looks at another modality.", least=1)
    kernel: int = option(5, "Steps that a convolution sees.", least=1)
    input_dropout: float = option(0.5, "Dropout of the text features, in [0, 1).", least=0, below=1)
    embedding_dropout: float = option(0.2, "Dropout of what enters a transformer, in [0, 1).", least=0, below=1)
    text_dropout: float = option(
        0.3, "Dropout of attention to text and to what is shared, in [0, 1).", least=0, below=1
    )
    audio_dropout: float = option(0.2, "Dropout of attention to audio, in [0, 1).", least=0, below=1)
    vision_dropout: float = option(0.0, "Dropout of attention to vision, in [0, 1).", least=0, below=1)
    dropout: float = option(0.5, "Dropout of the heads, in [0, 1).", least=0, below=1)
    shaping: float = option(0.1, "Weight of the losses that shape the parts.", least=0)
    separating: float = option(0.1, "Weight, among these, of hinge and orthogonality.", least=0)


class DLF(SentimentNetwork):
    """Specific parts s_m = E_m(x_m), shared parts c_m = E(x_m); language looks at the others' specific parts.

    Needs text, and audio, vision or both; modalities of other lengths are brought to the steps of the text. The parts
    of the published network that never reach its output are not here.

    >>> network = DLF({"text": (6, 9), "audio": (3, 9)}, DLFOptions(dim=10, heads=2))
    >>> inputs = {"text": torch.randn(2, 9, 6), "audio": torch.randn(2, 9, 3)}
    >>> output = network(inputs | {"text_length": torch.tensor([9, 2]), "audio_length": torch.tensor([9, 2])})
    >>> output.prediction.shape, len(output.losses), output.compared.shape
    (torch.Size([2, 1]), 6, torch.Size([2, 23]))
    """

    options: DLFOptions

    def __init__(self, streams: Streams, options: DLFOptions | None = None, targets: int = 1) -> None:
        options = options or DLFOptions()
        super().__init__(streams, options, targets)
        dim, self.names = options.dim, tuple(name for name in ("text", "vision", "audio") if name in streams)
        self.steps = max(streams["text"][1] - options.kernel + 1, 1)  #: after the convolution
        rates = {"text": options.text_dropout, "audio": options.audio_dropout, "vision": options.vision_dropout}

        def encoder(rate: float, more: int = 0) -> Encoder:
            return Encoder(
                dim, options.heads, options.layers + more,
                attention_dropout=rate, embedding_dropout=options.embedding_dropout,
                # DIFF: the published code gives no position to a step whose first channel is exactly 0.
                positions="published" if options.reference else "all",
            )  # fmt: skip

        def each(make: Any, names: tuple[str, ...] = self.names) -> nn.ModuleDict:
            return nn.ModuleDict({name: make(name) for name in names})

        others = self.names[1:]
        self.input_dropout = nn.Dropout(options.input_dropout)
        self.convolutions = each(lambda name: Convolution(streams[name][0], dim, options.kernel))
        self.specific, self.shared = each(lambda name: encoder(rates[name])), encoder(options.text_dropout)
        self.rebuilders = each(lambda _: nn.Linear(2 * dim, dim, bias=False))
        self.summaries = each(lambda _: nn.Linear(dim * self.steps, dim))
        self.memories = each(lambda _: encoder(options.text_dropout))
        self.views = each(lambda name: encoder(rates[name]), others)
        # Language as it is, and what it has seen of the others.
        self.finals = each(lambda name: encoder(options.text_dropout, int(name != "text")))
        self.residuals, self.heads = (
            each(lambda _: Residual(dim, options.dropout)),
            each(lambda _: nn.Linear(dim, targets)),
        )
        self.gates = each(lambda _: nn.Linear(dim, dim))
        common = dim * len(self.names)
        self.common_residual, self.common_head = Residual(common, options.dropout), nn.Linear(common, targets)
        self.common_gate = nn.Linear(common, common)
        self.residual, self.head = Residual(2 * common, options.dropout), nn.Linear(2 * common, targets)

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions; losses of rebuilding and orthogonality; summaries and the branches' predictions to compare."""
        x = self.convolved(sequences)
        s = {name: self.specific[name](x[name]) for name in self.names}
        c = {name: self.shared(x[name]) for name in self.names}
        losses: dict[str, Any] = {}
        for name in self.names:
            again = x[name]._replace(values=self.rebuilders[name](torch.cat([s[name].values, c[name].values], 2)))
            pairs = {"rebuilt": (again, x[name]), "respecified": (self.specific[name](again), s[name])}
            losses |= {f"{name} {kind}": rebuilt(*pair, self.options.shaping) for kind, pair in pairs.items()}
            weight = self.options.shaping * self.options.separating
            losses[f"{name} orthogonal"] = orthogonal(s[name], c[name], weight)
        common = torch.cat([self.memories[name](c[name]).last() for name in self.names], 1)
        seen = {name: s["text"] if name == "text" else self.views[name](s["text"], s[name]) for name in self.names}
        branches = {name: self.residuals[name](self.finals[name](seen[name]).last()) for name in self.names}
        gated = [torch.sigmoid(self.gates[name](branches[name])) for name in self.names]
        # The shared part is gated as it is, the others behind their residual layers, as published.
        joined = torch.cat([*gated, torch.sigmoid(self.common_gate(common))], 1)
        summaries = [self.summary(name, c[name]) for name in self.names]
        errors = [self.heads[name](branches[name]) for name in self.names]
        compared = torch.cat([*summaries, *errors, self.common_head(self.common_residual(common))], 1)
        return Output(self.head(self.residual(joined)), losses=losses, compared=compared)

    def convolved(self, sequences: dict[str, Sequence]) -> dict[str, Sequence]:
        """The modalities in the steps of the text, after their convolutions."""
        text, found = sequences["text"], {}
        for name in self.names:
            # DIFF: the published model refuses data that are not aligned.
            one = aligned(sequences[name], text)
            one = one._replace(values=self.input_dropout(one.values)) if name == "text" else one
            found[name] = self.convolutions[name].over(one)  # type: ignore[operator]
        return found

    def summary(self, name: str, shared: Sequence) -> Tensor:
        """(n, dim), of all steps, channel by channel; zeros behind the end."""
        values = shared.values.masked_fill(~shared.mask.unsqueeze(2), 0.0)
        values = F.pad(values, (0, 0, 0, self.steps - values.shape[1]))
        return self.summaries[name](values.mT.flatten(1))

    def compare(self, compared: Tensor, target: Tensor, known: Tensor | None) -> Mapping[str, Tensor]:
        """Each branch predicts as well, language three times as much; shared parts of equal labels are alike."""
        compared = compared.to(torch.promote_types(compared.dtype, torch.float32))
        parts, dim = len(self.names), self.options.dim
        summaries = compared[:, : parts * dim].unflatten(1, (parts, dim))
        predictions = compared[:, parts * dim :].unflatten(1, (parts + 1, -1))
        weights = [3.0 if name == "text" else 1.0 for name in self.names] + [1.0]
        near = hinge(summaries, target, known)
        return {
            "branches": branch_errors(predictions, target, known, weights),
            "hinge": self.options.shaping * self.options.separating * near,
        }


@register_model
class DLFModel(LayeredModel):
    """Disentangled and language-focused; needs text, and audio or vision."""

    name = "dlf"
    says = "what modalities share, what is specific to each, and language that looks at it"
    needs, fewest = ("text",), 2
    Network, Options = DLF, DLFOptions
    small = {"dim": 8, "heads": 2, "layers": 1}  # noqa: RUF012
    # Published: gradients of ten batches of 16 summed a step, of values of at most 0.6; a rate that falls on plateaus.
    recipe = PUBLISHED | {"learning_rate": 1e-4, "weight_decay": 0.0, "batch_size": 32, "clip": 1.0, "patience": 10}

    def check(self, spec: Spec, options: Any) -> None:
        """Heads must divide the width."""
        super().check(spec, options)
        if options.dim % options.heads:
            raise InputError(f"heads must divide dim, got heads {options.heads} and dim {options.dim}")
