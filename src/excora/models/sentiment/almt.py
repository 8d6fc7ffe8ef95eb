"""The model "almt", adaptive language-guided fusion (Zhang et al. 2023), with softmax or ECA where frames are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Spec
from excora.errors import InputError
from excora.models.base import Output, register_model
from excora.models.files import check_depth
from excora.models.parts.readout import FORMS
from excora.models.sentiment.almt_layers import CrossLayer, Reader
from excora.models.sentiment.base import MASKED, PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.masking import MaskedSteps
from excora.models.sentiment.parts import Bridge, Look, Sequence, Streams
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ALMTOptions(SentimentOptions):
    """Of the model "almt"."""

    vision_pool: str = option("softmax", "How the learned tokens read the vision.", choices=tuple(FORMS))
    audio_pool: str = option("softmax", "How the learned tokens read the audio.", choices=tuple(FORMS))
    text_pool: str = option("softmax", "How the learned tokens read the text.", choices=tuple(FORMS))
    dispersion: str = option(
        "frames",
        "What the temperature of ECA looks at: frames before positions, or value vectors.",
        choices=("frames", "values"),
    )
    masked: float = option(0.0, MASKED, least=0, below=1)
    dim: int = option(128, "Width of the tokens.", least=1)
    tokens: int = option(8, "Learned tokens that read a modality.", least=1)
    heads: int = option(8, "Attention heads.", least=1)
    head_width: int = option(64, "Width of a head where frames are read and modalities fused.", least=1)
    hidden: int = option(128, "Width of the feed-forward layers.", least=1)
    layers: int = option(3, "Layers in which language guides audio and vision.", least=1)
    fusion_layers: int = option(2, "Layers of the fusion with language.", least=1)


class HyperLayer(nn.Module):
    """h = LN(h) + W_o sum_m A(LN q, LN_m H_m): language asks each other modality, heads of dim / heads."""

    def __init__(self, dim: int, heads: int, others: tuple[str, ...]) -> None:
        super().__init__()
        self.heads = heads
        self.norm_q, self.norm_h, self.to_q = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Linear(dim, dim, bias=False)
        self.norms = nn.ModuleDict({name: nn.LayerNorm(dim) for name in others})
        self.to_k, self.to_v = (
            nn.ModuleDict({name: nn.Linear(dim, dim, bias=False) for name in others}) for _ in range(2)
        )
        self.to_out = nn.Linear(dim, dim)
        self.looks = nn.ModuleDict({name: Look() for name in others})

    def forward(self, hyper: Tensor, language: Tensor, others: Mapping[str, Tensor]) -> Tensor:
        """The next h, (n, tokens, dim)."""

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

        q = heads(self.to_q(self.norm_q(language)))
        total: Any = 0.0
        for name, norm in self.norms.items():
            x = norm(others[name])
            total = total + self.looks[name](q, heads(self.to_k[name](x)), heads(self.to_v[name](x)))
        # The residual is the normalised h, as in the published code.
        return self.norm_h(hyper) + self.to_out(total.transpose(1, 2).flatten(2))


class ALMT(SentimentNetwork):
    """Eight tokens a modality; language guides a hyper-modality of audio and vision; language is fused with it.

    With softmax, or at the start of "eca", this is the published network to rounding. It needs text, and audio, vision
    or both. ``Output.pooled`` has each modality: the learned tokens are the first elements, then come the frames.

    >>> network = ALMT({"text": (6, 5), "vision": (4, 9)}, ALMTOptions(vision_pool="eca"))
    >>> inputs = {"text": torch.randn(2, 5, 6), "vision": torch.randn(2, 9, 4)}
    >>> output = network(inputs | {"text_length": torch.tensor([5, 2]), "vision_length": torch.tensor([9, 1])})
    >>> output.prediction.shape, output.pooled["vision"].weights.shape
    (torch.Size([2, 1]), torch.Size([2, 17]))
    """

    def __init__(self, streams: Streams, options: ALMTOptions | None = None, targets: int = 1) -> None:
        options = options or ALMTOptions()
        super().__init__(streams, options, targets)
        dim, few = options.dim, options.tokens
        self.leading = few
        wide = (dim, options.heads, options.head_width, options.hidden)
        pools = {"text": options.text_pool, "audio": options.audio_pool, "vision": options.vision_pool}
        self.others = tuple(name for name in ("audio", "vision") if name in streams)
        self.readers = nn.ModuleDict(
            {name: Reader(streams[name], options, pools[name]) for name in ("text", *self.others)}
        )
        self.hyper = nn.Parameter(torch.ones(few, dim))
        self.positions = nn.Parameter(torch.randn(few, dim))
        self.language = nn.ModuleList([CrossLayer(*wide) for _ in range(options.layers - 1)])
        self.guided = nn.ModuleList([HyperLayer(dim, options.heads, self.others) for _ in range(options.layers)])
        self.token = nn.Parameter(torch.zeros(dim))
        self.source_positions, self.target_positions = (nn.Parameter(torch.randn(few + 1, dim)) for _ in range(2))
        self.fusion = nn.ModuleList([CrossLayer(*wide) for _ in range(options.fusion_layers)])
        self.head = nn.Linear(dim, targets)
        if options.masked:
            read = {name: streams[name] for name in self.readers}
            self.masked = MaskedSteps(read, dim * few * len(read), options.masked)

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions, and what the tokens of each modality looked at."""
        read = {name: reader(sequences[name]) for name, reader in self.readers.items()}
        language = read["text"][0] + self.positions
        hyper: Tensor = self.hyper
        others = {name: read[name][0] for name in self.others}
        for number, guided in enumerate(self.guided):
            if number:
                language, _ = self.language[number - 1](language, language)
            hyper = guided(hyper, language, others)
        token = self.token.expand(len(language), 1, -1)
        source = torch.cat([token, hyper], 1) + self.source_positions
        target = torch.cat([token, language], 1) + self.target_positions
        for layer in self.fusion[:-1]:
            target, _ = layer(target, source)
        target, _ = self.fusion[-1](target[:, :1], source)  # the rest of the last layer is read by nobody
        return Output(self.head(target[:, 0]), {name: read[name][1] for name in (*reversed(self.others), "text")})

    def bridges(self) -> Iterator[Bridge]:
        """Language asks audio and vision what the hyper-modality takes in."""
        for number, layer in enumerate(self.guided, 1):
            for name, look in cast(HyperLayer, layer).looks.items():
                yield Bridge(f"guided {number}", "hyper-modality", name, cast(Look, look))


@register_model
class ALMTModel(SentimentModel):
    """ALMT, the host of ECA; needs text, and audio or vision."""

    name = "almt"
    says = "language guides what is taken from audio and vision; softmax or ECA where frames are read"
    needs, fewest = ("text",), 2
    Network, Options = ALMT, ALMTOptions
    small = {  # noqa: RUF012
        "dim": 8, "tokens": 2, "heads": 2, "head_width": 4, "hidden": 8, "layers": 2,
    }  # fmt: skip
    recipe = PUBLISHED | {
        "error": "mse", "learning_rate": 1e-4, "weight_decay": 1e-4, "batch_size": 64, "epochs": 100, "patience": 32,
        "schedule": "cosine",
    }  # fmt: skip

    def check(self, spec: Spec, options: ALMTOptions) -> None:
        """Heads must divide the width."""
        super().check(spec, options)
        if options.dim % options.heads:
            raise InputError(f"heads must divide dim, got heads {options.heads} and dim {options.dim}")

    def check_learned(self, learned: Any, spec: Spec, options: ALMTOptions, tensors: Mapping[str, Tensor]) -> None:
        """No more layers than the file has tensors."""
        super().check_learned(learned, spec, options, tensors)
        check_depth(options.layers + options.fusion_layers, tensors)
