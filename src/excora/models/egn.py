"""The model "egn": the exemplar-guided network of Yang et al. (2023) for gene expression, with softmax or ECA."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs, Spec
from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.models.base import Model, Network, Output, Samples, register_model, seeded
from excora.models.files import check_depth
from excora.models.parts.egn import Bridge, Layer, PatchReadOut, Projector, cut
from excora.models.parts.exemplars import Exemplars
from excora.models.parts.readout import FORMS
from excora.models.parts.spots import carried, check_bank, check_counts, without_spots
from excora.options import Options, option
from excora.pooling import Pooled


class Head(nn.Module):
    """W LayerNorm([window, query]) + c: (n, 2 dim) to (n, targets)."""

    def __init__(self, dim: int, targets: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(2 * dim), nn.Linear(2 * dim, targets)

    def forward(self, both: Tensor) -> Tensor:
        """Predictions."""
        return self.out(self.norm(both))


class EGN(Network):
    """Patches of a window and exemplars that look like it: encoder ─► pool ─► head.

    Defaults are the paper's; with softmax and the mean over exemplars this is the function of the reference code, its
    unread parameters included.

    - ``width``, ``targets``: of a window's feature, and of its expression. ``patches``: how many a window has.
    - ``size``: their side in pixels, cut from ``window``; 0: ``elements`` (n, patches, ``width``) are patches already.
    - ``every``: an exemplar block in every so-manieth layer. ``head_width``: of the layers' heads.
    - ``pool``: ``"softmax"``; ``"eca"``, which starts as softmax; ``"eca-paper"``, the paper's gain and its temperature
      0.5 + sigma / sqrt(dim). ``alone``: the head reads the attended value without the mean, see :class:`PatchReadOut`.
    - ``exemplar_pool``: how exemplars become one vector; ``"mean"`` is EGN's.
    - ``options`` are those of :class:`excora.extrapolation.Extrapolation`.

    Inputs: ``window`` (n, 3, height, width) or ``elements``, ``feature`` (n, width), ``exemplar_features``
    (n, K, width), ``exemplar_targets`` (n, K, targets), ``exemplar_mask`` (n, K).

    >>> model = EGN(width=6, targets=2, patches=4, size=8, dim=16, layers=2, heads=2, hidden=32, exemplar_heads=2)
    >>> inputs = {"window": torch.randn(3, 3, 16, 16), "feature": torch.randn(3, 6)}
    >>> inputs |= {"exemplar_features": torch.randn(3, 5, 6), "exemplar_targets": torch.randn(3, 5, 2)}
    >>> output = model(inputs)
    >>> output.prediction.shape, output.pooled["patches"].weights.shape, output.pooled["exemplars"].weights.shape
    (torch.Size([3, 2]), torch.Size([3, 4]), torch.Size([3, 5]))
    """

    monitored = None  # the head reads the query beside the pool's value

    def __init__(
        self,
        *,
        width: int,
        targets: int,
        patches: int = 64,
        size: int = 32,
        dim: int = 1024,
        layers: int = 8,
        heads: int = 16,
        head_width: int = 64,
        hidden: int = 4096,
        every: int = 2,
        exemplar_heads: int = 16,
        exemplar_width: int = 64,
        projector: int = 2,
        pool: str = "softmax",
        exemplar_pool: str = "mean",
        alone: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.size, self.patches, form = size, patches, FORMS[pool]
        self.embed = nn.Linear(3 * size * size if size else width, dim)
        #: One more than there are patches, as in the reference.
        self.positions = nn.Parameter(torch.randn(patches + 1, dim))
        self.projector = Projector(width, targets, dim, projector)
        last = layers - layers % every

        def layer(number: int) -> Layer:
            here: dict[str, Any] = {"pool": exemplar_pool, "last": number == last}
            bridge = None if number % every else Bridge(dim, patches, exemplar_heads, exemplar_width, **here)
            return Layer(dim, heads, head_width, hidden, bridge)

        self.layers = nn.ModuleList(layer(number) for number in range(1, layers + 1))
        self.pool = PatchReadOut(dim, None if form is None else Extrapolation(dim, **(form | options)), alone=alone)
        self.head = Head(dim, targets)
        #: The training spots that are looked at, and how many at a time; None where inputs bring their exemplars.
        self.bank: Exemplars | None = None
        self.count = 0

    @torch.no_grad()
    def begin_at_zero(self, inputs: Inputs, *, only_try: bool = False) -> bool:  # noqa: ARG002
        """By the head."""
        for p in () if only_try else self.head.out.parameters():
            p.zero_()
        return True

    def look_up(self, features: Features) -> Features:
        """New windows with their exemplars."""
        return features if self.bank is None else self.bank.look_up(features, self.count)

    def carried(self) -> tuple[str, ...]:
        """The training spots."""
        return () if self.bank is None else (carried(self.bank),)

    def cells(self, inputs: Inputs) -> Tensor:
        """The patches as they come, (n, patches, numbers of one)."""
        found: Any = cut(inputs["window"], self.size) if self.size else inputs["elements"]  # type: ignore[arg-type]
        if not isinstance(found, Tensor) or found.shape[1:] != (self.patches, self.embed.in_features):
            got = tuple(found.shape) if isinstance(found, Tensor) else "windows of several sizes"
            raise InputError(
                f"egn reads windows of {self.patches} patches of {self.embed.in_features} numbers, got {got}: images "
                "and features must be cut as those of training"
            )
        return found

    def forward(self, inputs: Inputs) -> Output:
        """Predictions (n, targets); what the read-out did with the patches, and the last block with the exemplars."""
        before: Tensor = self.embed(self.cells(inputs))
        positions = self.positions[: self.patches]
        x, names = before + positions, ("feature", "exemplar_features", "exemplar_targets")
        exemplars = self.projector(*(inputs[name] for name in names), inputs.get("exemplar_mask"))
        bridges: list[Pooled] = []
        for layer in self.layers:
            x, exemplars, pooled = layer(x, positions, exemplars)
            bridges += [] if pooled is None else [pooled]
        read = self.pool(x, before)
        prediction = self.head(torch.cat([read.value, exemplars.query], 1))
        return Output(prediction, {"patches": read} | _as_one(bridges))

    def element_names(self, names: list[str] | None) -> list[str]:  # noqa: ARG002  (what it weighs are its own patches)
        """The patches by row and column, or by number where they make no square."""
        side = math.isqrt(self.patches)
        if side * side != self.patches:
            return [f"patch {k + 1}" for k in range(self.patches)]
        return [f"patch {k // side + 1}, {k % side + 1}" for k in range(self.patches)]


def _as_one(bridges: list[Pooled]) -> dict[str, Pooled]:
    """The last block's, with the penalties of all."""
    if not bridges:
        return {}
    penalty, total = bridges[-1].penalty, sum((one.penalty.sum for one in bridges[:-1]), bridges[-1].penalty.sum)
    return {"exemplars": bridges[-1]._replace(penalty=penalty._replace(sum=total))}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EGNOptions(Options):
    """Of the model "egn"; the defaults are for a CPU, those of :class:`EGN` are the paper's."""

    pool: str = option("eca", "How the patches of a window become one vector.", choices=tuple(FORMS))
    patches: str = option(
        "window", "What a patch is: pixels of the window, or features of its parts.", choices=("window", "grid")
    )
    window: int = option(256, "Side of the window, in pixels as the network sees them.", least=1)
    field: float = option(0.0, "Side of the window on the slide, in its pixels; 0 = the pitch of the spots.", least=0)
    patch: int = option(32, "Side of a patch of the window; it divides the window.", least=1)
    dim: int = option(128, "Width of the tokens; the paper has 1024.", least=1)
    layers: int = option(4, "Transformer layers; the paper has 8.", least=1)
    heads: int = option(4, "Attention heads of 64 channels; the paper has 16.", least=1)
    hidden: int = option(512, "Width of the feed-forward layers; the paper has 4096.", least=1)
    every: int = option(2, "Exemplars are looked at in every so-manieth layer.", least=1)
    exemplars: int = option(9, "Spots of other slides that a window looks at.", least=1)
    rerank: bool = option(False, "Take the exemplars out of more candidates, compared by their company.")
    exemplar_heads: int = option(4, "Gates of an exemplar block over the patches; the paper has 16.", least=1)
    exemplar_width: int = option(32, "Channels of each; the paper has 64.", least=1)
    exemplar_pool: str = option(
        "mean", "How exemplars become one vector; mean = as EGN has it.", choices=("mean", "softmax", "eca")
    )
    value: str = option(
        "both", "What is read of the patches: their mean and half the attended value, or that alone.",
        choices=("both", "attended"),
    )  # fmt: skip


@register_model
class EGNModel(Model):
    """EGN as a model of the application."""

    name = "egn"
    says = "windows of a slide as patches, guided by the spots of other slides most like them (EGN)"
    reads = ("spatial",)
    Options = EGNOptions
    small = {  # noqa: RUF012
        "window": 32, "patch": 16, "dim": 32, "layers": 2, "heads": 1, "hidden": 32,
        "exemplars": 3, "exemplar_heads": 2, "exemplar_width": 8,
    }  # fmt: skip
    # DIFF: EGN has MSE + 0.5 (1 - PCC). The dispersion that the paper's loss multiplies that by is rho here, where
    # labels have a deviation of 1, and about 0.2 on its own scale of [0, 1]: four times the weight makes up for it.
    recipe = {  # noqa: RUF012
        "epochs": 50, "batch_size": 32, "learning_rate": 5e-4, "weight_decay": 1e-4, "schedule": "cosine",
        "correlation_weight": 2.0,
    }  # fmt: skip
    # DIFF: the published step size goes through two cosine cycles an epoch and ends on no zero; here it is one of 50
    # epochs. The published checkpoint is that of the best test PCC; here validation picks it, by the same figure.
    presets = {  # noqa: RUF012
        "paper": {
            "pool": "softmax", "window": 256, "field": 256.0, "patch": 32, "dim": 1024, "layers": 8, "heads": 16,
            "hidden": 4096, "every": 2, "exemplars": 9, "exemplar_heads": 16, "exemplar_width": 64, "epochs": 50,
            "patience": 50, "batch_size": 32, "learning_rate": 5e-4, "weight_decay": 1e-4, "schedule": "cosine",
            "correlation": "pearson", "correlation_weight": 0.5, "criterion": "pcc", "start": "none",
        }
    }  # fmt: skip

    def network(self, spec: Any, options: EGNOptions, learned: Mapping[str, Any]) -> EGN:
        """``learned``: ``exemplars``, how many training spots it carries, and ``patches``, of a window."""
        names = ("dim", "layers", "heads", "hidden", "every", "exemplar_heads", "exemplar_width", "exemplar_pool")
        network = EGN(
            width=spec.width, targets=spec.targets, patches=learned["patches"],
            size=options.patch if options.patches == "window" else 0, pool=options.pool,
            alone=options.value == "attended", **{name: getattr(options, name) for name in names},
        )  # fmt: skip
        network.count, rerank = options.exemplars, options.exemplars if options.rerank else 0
        network.bank = Exemplars(learned["exemplars"], spec.width, spec.targets, rerank=rerank)
        network.learned = dict(learned)
        return network

    def build(self, spec: Any, samples: Samples, options: EGNOptions, *, seed: int) -> tuple[Network, Features]:
        """Training spots are the exemplars; windows of features have as many patches as the first one."""
        patches = (options.window // options.patch) ** 2
        if options.patches == "grid":
            patches = int(samples.features.sizes[samples.train[0]])
        with seeded(seed):
            network = self.network(spec, options, {"exemplars": len(samples.train), "patches": patches})
        assert network.bank is not None
        network.bank.remember(samples)
        network.bank.learn(seed=seed)
        return network, network.look_up(samples.features)

    def go_on(self, network: Network, spec: Any, samples: Samples, options: EGNOptions) -> tuple[Network, Features]:
        """The weights of the trained one, with these spots to look at."""
        again = self.network(spec, options, {**network.learned, "exemplars": len(samples.train)})
        again.load_state_dict(without_spots(network.state_dict()), strict=False)
        assert again.bank is not None
        again.bank.remember(samples)
        return again, again.look_up(samples.features)

    def check(self, spec: Spec, options: EGNOptions) -> None:
        """Patches divide the window."""
        super().check(spec, options)
        if options.window % options.patch:
            given = f"patches of {options.patch} and a window of {options.window}"
            raise InputError(f"patch must divide window, got {given}")

    def prepares(self, options: EGNOptions) -> dict[str, Any]:
        """Windows or parts of them, and the vector by which exemplars are found."""
        if options.patches == "grid":
            return {"elements": "grid", "feature": True}
        return {"elements": "none", "feature": True, "window": options.window, "field": options.field}

    def check_learned(
        self,
        learned: Any,
        spec: Any,  # noqa: ARG002
        options: EGNOptions,
        tensors: Mapping[str, Tensor],
    ) -> None:
        """Whole numbers above 0."""
        check_depth(options.layers, tensors)
        check_counts(learned, ("exemplars", "patches"), self.name)

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """Training spots in a file are looked at: they must be numbers."""
        check_bank(tensors)
