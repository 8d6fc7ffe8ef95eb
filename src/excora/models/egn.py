"""The model "egn": the exemplar-guided network of Yang et al. (2023) for gene expression, with softmax or ECA."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.models.base import Network, Output
from excora.models.parts.egn import Bridge, Layer, PatchReadOut, Projector, cut
from excora.pooling import Pooled

#: The options of :class:`Extrapolation` that each read-out starts from; None: it has none.
FORMS: dict[str, dict[str, Any] | None] = {
    "softmax": None,
    "eca": {},
    "eca-paper": {"residual": "paper", "temperature": (0.5, 1.0), "cap": 2.0},
}


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
            here = {"pool": exemplar_pool, "last": number == last}
            bridge = None if number % every else Bridge(dim, patches, exemplar_heads, exemplar_width, **here)
            return Layer(dim, heads, head_width, hidden, bridge)

        self.layers = nn.ModuleList(layer(number) for number in range(1, layers + 1))
        self.pool = PatchReadOut(dim, None if form is None else Extrapolation(dim, **(form | options)), alone=alone)
        self.head = Head(dim, targets)

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
