"""The network of the model "kriging": training rows, metrics, a ridge and trees; and rows as it reads them.

rows ─► channels ─► base f ───────────────────────────────────────────────────┐
             └────► keys of each member ─► nearest training rows ─► kriging ──┴► f + share * mean over members w'r

Of a very wide table, with many more channels than rows, keys are made of coordinates in the span of the training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.data.dataset import Features, Index, Inputs
from excora.errors import InputError
from excora.models.base import Network, Output
from excora.models.parts.channels import bent, channels, width_of
from excora.models.parts.kriging import RANK, Keys, Labelled, gathered, label_variance, predict
from excora.models.parts.neighbours import Excluded, Search
from excora.models.parts.reach import LEVELS
from excora.models.parts.row_space import RowSpace
from excora.models.parts.trees import Trees
from excora.pooling import Pooled
from excora.reduce import Penalty

#: What bases are called where their correlation is said.
SAID = {"curves": "a curve a column", "trees": "boosted trees"}


class KrigingNetwork(Network):
    """``context`` training rows and their residuals, ``members`` metrics, and a ridge under them; nothing to train.

    **Who has the file can read the training rows.** ``gaps``: the numeric columns that lack values in training, each
    also read as a flag; ``knots``: quantiles of each, which ranks are taken by; ``bends``: places where the line of a
    number may bend (:func:`~excora.models.parts.channels.bent`), 0 unless it is named; ``components``: of a wide table,
    how many coordinates the training rows have (:class:`~excora.models.parts.row_space.RowSpace`); ``trees`` and
    ``nodes``: how many :class:`~excora.models.parts.trees.Trees` there are, and nodes in all of them.
    """

    monitored = None
    knots: Tensor
    centre: Tensor
    basis: Tensor
    context_x: Tensor
    context_label: Tensor
    context_known: Tensor
    context_noise: Tensor
    coefficient: Tensor
    intercept: Tensor
    scale: Tensor
    mix: Tensor
    length: Tensor
    nugget: Tensor
    unit: Tensor
    share: Tensor
    reaches: Tensor
    scores: Tensor
    tree_root: Tensor

    def __init__(self, spec: Any, neighbours: int, learned: Mapping[str, Any]) -> None:
        super().__init__()
        self.spec, self.neighbours, self.learned = spec, neighbours, dict(learned)
        n, members, targets = learned["context"], learned["members"], spec.targets
        width = width_of(spec, learned["gaps"])
        self.bends: int = learned.get("bends", 0)
        seen = learned["components"] + 1 if "components" in learned else width
        shapes = {
            "knots": (learned["knots"], spec.numeric), "context_x": (n, seen), "context_label": (n, targets),
            "context_noise": (n,), "coefficient": (width + self.bends * spec.numeric, targets),
            "intercept": (targets,), "scale": (members, seen),
            "mix": (members, seen, RANK), "length": (members,), "nugget": (members,), "unit": (members, targets),
            "share": (), "reaches": (LEVELS, targets),
            "scores": (2 + 2 * (self.bends > 0) + 2 * ("trees" in learned),),
        }  # fmt: skip
        whole: dict[str, tuple[int, ...]] = {}
        if "components" in learned:
            shapes |= {"centre": (width,), "basis": (width, learned["components"])}
        if "trees" in learned:
            nodes = learned["nodes"]
            shapes |= {"tree_threshold": (nodes,), "tree_value": (nodes, targets)}
            whole |= {"tree_root": (learned["trees"],), "tree_feature": (nodes,), "tree_child": (nodes, 2)}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))
        for name, shape in whole.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int32))
        self.register_buffer("context_known", torch.zeros(n, targets, dtype=torch.bool))

    @property
    def context(self) -> Labelled:
        """The training rows."""
        return Labelled(self.context_x, self.context_label, self.context_known, self.context_noise)

    @property
    def trees(self) -> Trees | None:
        """If any."""
        return Trees(*(getattr(self, f"tree_{name}") for name in Trees._fields)) if "trees" in self.learned else None

    def base(self, x: Tensor) -> Tensor:
        """What is under the neighbours, of channels (n, width) in double precision: (n, targets)."""
        line = bent(x, self.spec.numeric, self.bends) @ self.coefficient.double() + self.intercept
        return line if self.trees is None else line + self.trees(x)

    def keys(self, member: int) -> Keys:
        """The metric of a member."""
        return Keys(self.scale[member], self.mix[member])

    def channels(self, rows: Mapping[str, Any]) -> Tensor:
        """Rows of a table as this network reads them, (n, width)."""
        return channels(rows, self.knots, self.spec, self.learned["gaps"]).to(self.context_x.dtype)

    def placed(self, x: Tensor) -> Tensor:
        """Channels (n, width) as the metrics read them."""
        return RowSpace(self.centre, self.basis)(x) if "components" in self.learned else x

    def forward(self, inputs: Mapping[str, Any]) -> Output:
        """Predictions (n, targets), how far labels are expected from them, and what each neighbour weighs.

        A neighbour of several members weighs the sum of its weights, where it stands first.
        """
        if not isinstance(inputs, Mapping) or "neighbours" not in inputs:
            given = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InputError(f"the network reads rows with their neighbours, got {given}: look_up finds them")
        x, members = inputs["channels"].double(), len(self.length)
        everyone, allowed = (inputs[name].unflatten(1, (-1, members)) for name in ("neighbours", "allowed"))
        rows = Labelled(*(part.double() if part.is_floating_point() else part for part in self.context))
        own = self.placed(x)
        kriged, weights, variance = x.new_zeros(len(x), self.spec.targets), [], x.new_zeros(())
        for m in range(members):
            keys, near = Keys(*(part.double() for part in self.keys(m))), rows.at(everyone[..., m])
            toward, between = gathered(keys(own), keys(near.x))
            length, nugget = self.length[m].double(), self.nugget[m].double()
            one, found = predict(toward, between, near, allowed[..., m], length, nugget)
            kriged = kriged + one / members
            weights.append(found.weights.mean(1) / members)
            variance = variance + label_variance(found, nugget) * self.unit[m] / members
        base, dtype = self.base(x), inputs["channels"].dtype
        each = _merged(inputs["neighbours"], torch.stack(weights, -1).flatten(1)).to(dtype)
        none = each.new_zeros(())
        pooled = Pooled(kriged.to(dtype), each, Penalty(none, none), {}, None)
        spread = variance.sqrt().expand_as(base).to(dtype)
        return Output((base + self.share * kriged).to(dtype), {"neighbours": pooled}, spread=spread)

    def reach(self, level: float) -> Tensor:
        """How many spreads of its prediction hold a label in ``level`` of all cases, (targets,); from left-out rows."""
        place = level * (LEVELS - 1)
        low = min(int(place), LEVELS - 2)
        return torch.lerp(self.reaches[low], self.reaches[low + 1], place - low)

    def element_names(self, names: list[str] | None) -> list[str]:  # noqa: ARG002  (what it weighs are rows)
        """The neighbours, nearest first, in each rank one of every member."""
        k, members = min(self.neighbours, len(self.context_x)), len(self.length)
        return [f"neighbour {i + 1} of metric {m + 1}" for i in range(k) for m in range(members)]

    def carried(self) -> tuple[str, ...]:
        """The training rows, and what the stack found."""
        ridge, stack, *more = self.scores.tolist()
        names = [*["curves"] * (self.bends > 0), *["trees"] * ("trees" in self.learned)]
        parts = dict(zip(names, more[1::2], strict=True))
        base = " + ".join(f"{part:.2f} x {name}" for name, part in {"ridge": 1 - sum(more[1::2]), **parts}.items())
        base = base if names else "ridge"
        rows = f"{len(self.context_x)} training rows and their labels ({_size(self.context):.3g} MB)"
        kept = "" if self.trees is None else f", and {len(self.tree_root)} trees ({_size(self.trees):.3g} MB)"
        known = "".join(f", {SAID[name]} {pcc:.3f}" for name, pcc in zip(names, more[::2], strict=True))
        count = self.learned.get("components")
        wide = () if count is None else (
            f"{len(self.centre)} channels of {len(self.context_x)} rows: neighbours are looked up in the {count} "
            "principal directions of the rows, which is quicker than a weight for each channel",
        )  # fmt: skip
        alone = () if bool(self.mix.any()) else (
            "it is a ridge alone, without neighbours: its training rows are fewer than 12 or all of one group, so "
            "that none could be left out to judge by",
        )  # fmt: skip
        return (
            f"the model carries its {rows}, in which it looks up neighbours{kept}: who has its file can read them",
            f"on left-out training rows: ridge PCC {_left_out(ridge)}{known}, {base} + {float(self.share):.2f} x "
            f"neighbours (kriging) PCC {_left_out(stack)}; {len(self.length)} metrics, length scale and noise "
            + ", ".join(f"{a:.2g} / {b:g}" for a, b in zip(self.length.tolist(), self.nugget.tolist(), strict=True)),
            *wide,
            *alone,
        )

    @torch.no_grad()
    def look_up(self, features: Features, train: Index | None = None, excluded: Excluded | None = None) -> Features:
        """Rows of a table with their neighbours; those of ``train`` do not see what ``excluded`` names."""
        return KrigingFeatures(features, self, train, excluded)


class KrigingFeatures:
    """Rows as :class:`KrigingNetwork` reads them; their neighbours are looked for when they are asked for."""

    def __init__(
        self, features: Features, network: KrigingNetwork, train: Index | None, excluded: Excluded | None
    ) -> None:
        if (train is None) != (excluded is None):
            raise InputError("train and excluded go together: a training row that sees itself learns to copy its label")
        self.features, self.network, self.train, self.excluded = features, network, train, excluded
        self.k, self.members = min(network.neighbours, len(network.context_x)), len(network.length)
        n = len(features.sizes)
        self.sizes: Index = np.full(n, self.k * self.members, np.intp)
        #: Of each sample among the training rows, -1 for others.
        self.place = torch.full((n,), -1)
        if train is not None:
            self.place[torch.from_numpy(train)] = torch.arange(len(train))

    @cached_property
    def searches(self) -> list[Search]:
        """One a member."""
        return [Search(self.network.keys(m)(self.network.context_x), exact=None) for m in range(self.members)]

    @torch.no_grad()
    def read(self, index: Index) -> Inputs:
        """``channels`` (n, width), ``neighbours`` and ``allowed`` (n, k * members): first the nearest of each."""
        x = self.network.channels(self.features.read(index))
        place = self.place[torch.as_tensor(index, dtype=torch.long)]
        found = torch.zeros(len(x), self.k, self.members, dtype=torch.long)
        allowed = torch.zeros(len(x), self.k, self.members, dtype=torch.bool)
        placed = self.network.placed(x)
        for m, search in enumerate(self.searches):
            own = self.network.keys(m)(placed)
            own_places = place[place >= 0]
            for rows, excluded, numbers in ((place < 0, None, None), (place >= 0, self.excluded, own_places)):
                if bool(rows.any()):
                    seen = search(own[rows], self.k, excluded=excluded, numbers=numbers)
                    found[rows, :, m], allowed[rows, :, m] = seen
        return {"channels": x, "neighbours": found.flatten(1), "allowed": allowed.flatten(1)}

    def element_sample(self, sample: int, element: int) -> int | None:
        """The sample that this element of a sample is; None if it is not among them."""
        if self.train is None:
            return None
        neighbours: Any = self.read(np.array([sample]))["neighbours"]
        return int(self.train[int(neighbours[0, element])])


def _size(tensors: Iterable[Tensor]) -> float:
    """In MB."""
    return sum(part.numel() * part.element_size() for part in tensors) / 1e6


def _merged(numbers: Tensor, weights: Tensor) -> Tensor:
    """Weights (n, elements) added up where a row has the same number again, at its first place; 0 at the others.

    >>> _merged(torch.tensor([[7, 3, 7]]), torch.tensor([[0.5, 0.2, 0.3]]))
    tensor([[0.8000, 0.2000, 0.0000]])
    """
    ordered, order = numbers.sort(dim=1, stable=True)
    place = torch.arange(numbers.shape[1], device=numbers.device).expand_as(numbers)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = order.gather(1, torch.where(new, place, 0).cummax(1).values)
    return torch.zeros_like(weights).scatter_add_(1, first, weights.gather(1, order))


def _left_out(pcc: float) -> str:
    """A correlation of left-out rows. Below 0 it is one of nothing: the mean of the others goes against each row.

    >>> _left_out(0.5), _left_out(-1.0)
    ('0.500', 'below 0 (no signal)')
    """
    return f"{pcc:.3f}" if pcc >= 0 else "below 0 (no signal)"
