"""The model "kriging": the best linear unbiased prediction from the training rows most like a row, on a ridge start.

    rows ─► channels ─► ridge f ──────────────────────────────────────────────────┐
                 └────► keys of each member ─► nearest training rows ─► kriging ──┴► f + share * mean over members of w'r

where r are the residuals y - f of training rows, each f fitted without it. Fitted by :meth:`KrigingModel.build`, in
closed form but for the metrics: there is nothing left for a training to do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.data.dataset import Features, Index, Inputs, Spec
from excora.errors import InputError
from excora.models.base import Model, Network, Output, Samples, register_model
from excora.models.parts.kriging import RANK, Keys, Labelled, Member, distance, fit_members, label_variance, predict
from excora.models.parts.neighbours import Excluded, Search
from excora.models.parts.ridge_start import RidgeStart, channels, knots_of, ridge_start, width_of
from excora.options import Options, option
from excora.pooling import Pooled
from excora.reduce import Penalty
from excora.stats.correlation import pearson, selection_mean

#: Shares of labels between which the reach of an interval is interpolated.
LEVELS = 201


@dataclasses.dataclass(frozen=True, kw_only=True)
class KrigingOptions(Options):
    """Of the model "kriging"."""

    members: int = option(5, "Metrics that are learned, each without a fold of the rows, and averaged.", least=1)
    neighbours: int = option(96, "Training rows that a row looks at, for each member.", least=1)
    gap: float = option(
        0.0, "Training rows at most so far apart in --time (dates: days) do not see each other.", least=0
    )
    seconds: float = option(480.0, "No further member is begun after so many seconds.", least=0)


class KrigingNetwork(Network):
    """``context`` training rows and their residuals, ``members`` metrics, and a ridge under them; nothing to train.

    **Who has the file can read the training rows.** ``gaps``: the numeric columns that lack values in training, each
    also read as a flag; ``knots``: quantiles of each, which ranks are taken by.
    """

    monitored = None
    knots: Tensor
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

    def __init__(self, spec: Any, options: KrigingOptions, learned: Mapping[str, Any]) -> None:
        super().__init__()
        self.spec, self.asked, self.learned = spec, options, dict(learned)
        n, members, targets = learned["context"], learned["members"], spec.targets
        width = width_of(spec, learned["gaps"])
        shapes = {
            "knots": (learned["knots"], spec.numeric), "context_x": (n, width), "context_label": (n, targets),
            "context_noise": (n,), "coefficient": (width, targets), "intercept": (targets,), "scale": (members, width),
            "mix": (members, width, RANK), "length": (members,), "nugget": (members,), "unit": (members, targets),
            "share": (), "reaches": (LEVELS, targets), "scores": (2,),
        }  # fmt: skip
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))
        self.register_buffer("context_known", torch.zeros(n, targets, dtype=torch.bool))

    @property
    def context(self) -> Labelled:
        """The training rows."""
        return Labelled(self.context_x, self.context_label, self.context_known, self.context_noise)

    def keys(self, member: int) -> Keys:
        """The metric of a member."""
        return Keys(self.scale[member], self.mix[member])

    def channels(self, rows: Mapping[str, Any]) -> Tensor:
        """Rows of a table as this network reads them, (n, width)."""
        return channels(rows, self.knots, self.spec, self.learned["gaps"])

    def forward(self, inputs: Mapping[str, Any]) -> Output:
        """Predictions (n, targets), how far labels are expected from them, and what each neighbour weighs.

        A neighbour of several members weighs the sum of its weights, where it stands first.
        """
        if not isinstance(inputs, Mapping) or "neighbours" not in inputs:
            found = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise InputError(f"the network reads rows with their neighbours, got {found}: look_up finds them")
        x, members = inputs["channels"].double(), len(self.length)
        everyone, allowed = (inputs[name].unflatten(1, (-1, members)) for name in ("neighbours", "allowed"))
        rows = Labelled(*(part.double() if part.is_floating_point() else part for part in self.context))
        kriged, weights, variance = x.new_zeros(len(x), self.spec.targets), [], 0.0
        for m in range(members):
            keys, near = Keys(*(part.double() for part in self.keys(m))), rows.at(everyone[..., m])
            around = keys(near.x)
            toward = distance(keys(x).unsqueeze(1), around)[:, 0]
            length, nugget = self.length[m].double(), self.nugget[m].double()
            one, found = predict(toward, distance(around, around), near, allowed[..., m], length, nugget)
            kriged = kriged + one / members
            weights.append(found.weights.mean(1) / members)
            variance = variance + label_variance(found, nugget) * self.unit[m] / members
        line = x @ self.coefficient.double() + self.intercept
        dtype = inputs["channels"].dtype
        each = _merged(inputs["neighbours"], torch.stack(weights, -1).flatten(1)).to(dtype)
        none = each.new_zeros(())
        pooled = Pooled(kriged.to(dtype), each, Penalty(none, none), {}, None)
        spread = variance.sqrt().expand_as(line).to(dtype)
        return Output((line + self.share * kriged).to(dtype), {"neighbours": pooled}, spread=spread)

    def reach(self, level: float) -> Tensor:
        """How many spreads of its prediction hold a label in ``level`` of all cases, (targets,); from left-out rows."""
        place = level * (LEVELS - 1)
        low = min(int(place), LEVELS - 2)
        return torch.lerp(self.reaches[low], self.reaches[low + 1], place - low)

    def element_names(self, names: list[str] | None) -> list[str]:  # noqa: ARG002  (what it weighs are rows)
        """The neighbours, nearest first, in each rank one of every member."""
        k, members = min(self.asked.neighbours, len(self.context_x)), len(self.length)
        return [f"neighbour {i + 1} of metric {m + 1}" for i in range(k) for m in range(members)]

    def carried(self) -> tuple[str, ...]:
        """The training rows, and what the stack found."""
        size = sum(part.numel() * part.element_size() for part in self.context) / 1e6
        ridge, stack = self.scores.tolist()
        return (
            f"the model carries its {len(self.context_x)} training rows and their labels ({size:.3g} MB), in which it "
            "looks up neighbours: who has its file can read them",
            f"on left-out training rows: ridge PCC {ridge:.3f}, ridge + {float(self.share):.2f} x kriging PCC "
            f"{stack:.3f}; {len(self.length)} metrics, length scale and noise "
            + ", ".join(f"{a:.2g} / {b:g}" for a, b in zip(self.length.tolist(), self.nugget.tolist(), strict=True)),
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
        self.k, self.members = min(network.asked.neighbours, len(network.context_x)), len(network.length)
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
        """``channels`` (n, width), ``neighbours`` and ``allowed`` (n, k * members): the nearest of each member first."""
        x = self.network.channels(self.features.read(index))
        place = self.place[torch.as_tensor(index, dtype=torch.long)]
        found = torch.zeros(len(x), self.k, self.members, dtype=torch.long)
        allowed = torch.zeros(len(x), self.k, self.members, dtype=torch.bool)
        for m, search in enumerate(self.searches):
            own = self.network.keys(m)(x)
            for rows, seen in (
                (place < 0, {}),
                (place >= 0, {"excluded": self.excluded, "numbers": place[place >= 0]}),
            ):
                if bool(rows.any()):
                    found[rows, :, m], allowed[rows, :, m] = search(own[rows], self.k, **seen)
        return {"channels": x, "neighbours": found.flatten(1), "allowed": allowed.flatten(1)}

    def element_sample(self, sample: int, element: int) -> int | None:
        """The sample that this element of a sample is; None if it is not among them."""
        if self.train is None:
            return None
        return int(self.train[int(self.read(np.array([sample]))["neighbours"][0, element])])


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


@register_model
class KrigingModel(Model):
    """Kriging over neighbours as a model of the application."""

    name = "kriging"
    says = "the best linear prediction from the training rows most like a row, on a ridge start; the default for tables"
    reads = ("table",)
    default_for = ("table",)
    Options = KrigingOptions

    def network(self, spec: Any, options: KrigingOptions, learned: Mapping[str, Any]) -> KrigingNetwork:
        """``learned``: ``context``, the number of training rows, ``gaps``, ``members`` and ``knots``."""
        return KrigingNetwork(spec, options, learned)

    def build(self, spec: Any, samples: Samples, options: KrigingOptions, *, seed: int) -> tuple[Network, Features]:
        """Fit it. Rows of weight 0 or without a known label are not looked at."""
        train = _context(samples, options)
        rows: Any = samples.features.read(train)
        gaps = rows["missing"].any(0).nonzero()[:, 0].tolist()
        knots = knots_of(rows["numeric"], rows["missing"])
        x = channels(rows, knots, spec, gaps)
        y, weight = samples.target[train], None if samples.weight is None else samples.weight[train]
        start = ridge_start(x, spec.numeric, y, weight)
        known = torch.from_numpy(np.isfinite(y))
        noise = (
            torch.ones(len(x)) if weight is None else torch.from_numpy(weight.mean() / weight).float().clamp_max(100)
        )
        labelled = Labelled(x, torch.where(known, start.residual, 0.0), known, noise)
        excluded, fold = _excluded(samples, train, options), _folds(samples, train, options.members, seed)
        given = {"seed": seed, "neighbours": options.neighbours, "seconds": options.seconds}
        members = fit_members(labelled, start.direction, fold, excluded, **given)
        learned = {"context": len(x), "gaps": gaps, "members": len(members), "knots": len(knots)}
        network = self.network(spec, options, learned)
        _fill(network, labelled, knots, start, members, torch.from_numpy(y))
        return network, network.look_up(samples.features, train, excluded)

    def check_learned(
        self,
        learned: Any,
        spec: Any,  # noqa: ARG002
        options: KrigingOptions,  # noqa: ARG002
        tensors: Mapping[str, Tensor],
    ) -> None:
        """Names, types and sizes: these numbers say how much memory a network takes."""
        if not isinstance(learned, dict) or set(learned) != {"context", "gaps", "members", "knots"}:
            raise InputError(
                f"what a kriging network learned must be context, gaps, members and knots, got {learned!r}"
            )
        for name, values in learned.items():
            given = values if name == "gaps" else [values]
            if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 2**31 for n in given):
                raise InputError(f"{name} must be whole numbers of at least 0, got {values!r}")
        if any(gap >= spec.numeric for gap in learned["gaps"]):
            raise InputError(f"gaps must be numbers of the {spec.numeric} numeric columns, got {learned['gaps']}")

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """What a fit never gives: numbers that are not finite, lengths and noise that are not above 0."""
        broken = [name for name, t in tensors.items() if t.is_floating_point() and not t.isfinite().all()]
        broken += [name for name in ("length", "nugget", "context_noise") if not (tensors[name] > 0).all()]
        if broken:
            raise InputError(f"the network is damaged in {', '.join(broken)}")


def _context(samples: Samples, options: KrigingOptions) -> Index:
    """The training rows that are looked at: those that count, and have a known label."""
    if options.gap and samples.time is None:
        raise InputError(f"a gap of {options.gap:g} is a time, and there is no column of times: name it (--time)")
    train = samples.train[np.isfinite(samples.target[samples.train]).any(1)]
    return train if samples.weight is None else train[samples.weight[train] > 0]


def _excluded(samples: Samples, train: Index, options: KrigingOptions) -> Excluded:
    """Whom a training row may not see: itself, its group, its time. An exact duplicate is a neighbour like others."""
    apart = {"group": samples.group, "time": samples.time}
    known = {name: None if x is None else x[train] for name, x in apart.items()}
    return Excluded(torch.arange(len(train)).unsqueeze(1), **known, gap=options.gap)


def _folds(samples: Samples, train: Index, members: int, seed: int) -> Tensor:
    """The fold of each training row, (n,): whole groups, or stretches of time, or drawn."""
    label = next((x[train] for x in (samples.group, samples.time) if x is not None), np.arange(len(train)))
    names, unit = np.unique(label, return_inverse=True)
    count = max(min(members, len(names)), 1)
    if samples.group is None and samples.time is not None:
        return torch.from_numpy(unit * count // len(names))
    place = np.random.default_rng(seed).permutation(len(names))
    return torch.from_numpy(place[unit] % count)


@torch.no_grad()
def _fill(
    network: KrigingNetwork, rows: Labelled, knots: Tensor, start: RidgeStart, members: list[Member], y: Tensor
) -> None:
    """What was found into the network; share, unit and reach from what members say of rows they were not shown."""
    held, guess = (torch.cat([getattr(m, name) for m in members]) for name in ("held", "guess"))
    asked = rows.at(held)
    weight = asked.known / asked.noise.unsqueeze(1)
    # share = argmin |r - share g|^2 in [0, 1]: the convex stack of f and f + g
    share = ((guess * asked.label * weight).sum() / (guess.square() * weight).sum().clamp_min(1e-12)).clamp(0.0, 1.0)
    wrong = torch.where(asked.known, asked.label - share * guess, torch.nan)
    variance = [m.variance.expand_as(m.guess) for m in members]
    parts = wrong.split([len(m.held) for m in members])
    unit = torch.stack([(e.square() / v).nanmean(0) for e, v in zip(parts, variance, strict=True)])
    unit = unit.nan_to_num(1.0).clamp_min(1e-12)
    scaled = [e.abs() / (v * u).sqrt() for e, v, u in zip(parts, variance, unit, strict=True)]
    line = y[held] - asked.label
    found = {
        "knots": knots, "coefficient": start.coefficient, "intercept": start.intercept, "share": share, "unit": unit,
        "length": torch.tensor([m.length for m in members]), "nugget": torch.tensor([m.nugget for m in members]),
        "scale": torch.stack([m.keys.scale for m in members]), "mix": torch.stack([m.keys.mix for m in members]),
        "reaches": _reaches(torch.cat(scaled)), "scores": torch.tensor([_pcc(p, y[held]) for p in (line, line + share * guess)]),
        **{f"context_{name}": part for name, part in rows._asdict().items()},
    }  # fmt: skip
    for name, value in found.items():
        getattr(network, name).copy_(value)


def _reaches(scaled: Tensor) -> Tensor:
    """Quantiles (levels, targets) of errors in units of their spread, (n, targets), NaN where a label is unknown.

    Those of n errors and one more that is to come; of a normal error where there are none.
    """
    levels = torch.linspace(0.0, 1.0, LEVELS)
    found = torch.special.ndtri((0.5 + 0.5 * levels).clamp_max(0.9999)).unsqueeze(1).repeat(1, scaled.shape[1])
    for target, column in enumerate(scaled.T):
        known = column[~column.isnan()]
        if len(known):
            found[:, target] = known.quantile((levels * (1 + 1 / len(known))).clamp_max(1.0))
    return found


def _pcc(guess: Tensor, y: Tensor) -> float:
    """The mean correlation over targets with known labels; 0 where it is undefined."""
    known = ~y.isnan()
    each = [
        pearson(g[k].double().numpy(), t[k].double().numpy()) for g, t, k in zip(guess.T, y.T, known.T, strict=True)
    ]
    return selection_mean(np.array(each))
