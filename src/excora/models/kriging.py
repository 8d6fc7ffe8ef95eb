"""The model "kriging": the best linear unbiased prediction from the training rows most like a row, on a ridge or trees.

It is fitted by :meth:`KrigingModel.build`, in closed form but for the metrics: nothing is left for a training to do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.dataset import Features, Index
from excora.errors import InputError
from excora.models.base import Model, Network, Samples, register_model
from excora.models.parts.boosting import Boosted, boost
from excora.models.parts.channels import (
    BENDS,
    Learned,
    RidgeStart,
    bent_start,
    channels,
    knots_of,
    mean_start,
    ridge_start,
)
from excora.models.parts.kriging import LARGE, Labelled, Member, squared
from excora.models.parts.kriging_network import KrigingNetwork
from excora.models.parts.members import MEMBERS, Together, fit_members, members_for, stacked, together
from excora.models.parts.neighbours import Excluded
from excora.models.parts.reach import reaches, reaches_of_mean, unit_of
from excora.models.parts.row_space import row_space
from excora.models.parts.stack import borne_out
from excora.models.parts.trees import Trees
from excora.options import Options, option
from excora.stats.correlation import pearson, selection_mean
from excora.stats.intervals import FEW_GROUPS
from excora.stats.units import sample_units
from excora.threads import one_thread

#: The share of the line's squared error on left-out rows below which curves are taken in its place.
BENT = 2 / 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class KrigingOptions(Options):
    """Of the model "kriging"."""

    members: int = option(0, "Metrics, each learned without a fold of the rows; 0: 5 to 10, by the rows.", least=0)
    neighbours: int = option(96, "Training rows that a row looks at, for each member.", least=1)
    gap: float = option(
        0.0, "Training rows at most so far apart in --time (dates: days) do not see each other.", least=0
    )
    trees: bool = option(True, "Boosted trees on the ridge's residual may take a share.")
    seconds: float = option(480.0, "No further member is begun after so many seconds.", least=0)


@register_model
class KrigingModel(Model):
    """Kriging over neighbours as a model of the application."""

    name = "kriging"
    says = (
        "the best linear prediction from the training rows most like a row, on ridge and trees; the default for tables"
    )
    reads = ("table",)
    rival_for = ("table",)
    default_for = ("table",)
    trained = False
    Options = KrigingOptions

    def network(self, spec: Any, options: KrigingOptions, learned: Mapping[str, Any]) -> KrigingNetwork:
        """``learned``: ``context``, the number of training rows, ``gaps``, ``members``, ``knots``; if any ``bends``,
        ``components``, ``trees`` and ``nodes``.
        """
        return KrigingNetwork(spec, options.neighbours, learned)

    def build(self, spec: Any, samples: Samples, options: KrigingOptions, *, seed: int) -> tuple[Network, Features]:
        """Fit it. Rows of weight 0 or without a known label are not looked at."""
        train, threads = _context(samples, options), torch.get_num_threads()
        with one_thread() if len(train) < LARGE else contextlib.nullcontext():
            return self._built(spec, samples, train, options, seed=seed, threads=threads)

    def _built(
        self, spec: Any, samples: Samples, train: Index, options: KrigingOptions, *, seed: int, threads: int
    ) -> tuple[Network, Features]:
        """``threads``: of the trees, which do not wait for each other."""
        begun = time.monotonic()
        rows: Any = samples.features.read(train)
        gaps = rows["missing"].any(0).nonzero()[:, 0].tolist()
        knots = knots_of(rows["numeric"], rows["missing"])
        x = channels(rows, knots, spec, gaps)
        asked = options.members or members_for(len(train))
        excluded, fold = _excluded(samples, train, options), _folds(samples, train, asked, seed)
        y, weight = samples.target[train], None if samples.weight is None else samples.weight[train]
        known, noise = torch.from_numpy(np.isfinite(y)), _noise(len(x), weight)
        learned_from = Learned(y, weight, None if samples.group is None else fold.numpy())
        line, curves = ridge_start(x, spec.numeric, learned_from), bent_start(x, spec.numeric, learned_from)
        starts = [line] if curves is None else [line, curves]
        grounds = [*starts, mean_start(x, learned_from)]
        given: dict[str, Any] = {"seed": seed, "seconds": options.seconds / 2, "threads": threads}
        residuals = [ground.residual for ground in grounds]
        grown = boost(x, spec.numeric, residuals, known, 1 / noise, fold, **given) if options.trees else None
        left = residuals[: len(starts)] + ([] if grown is None else [grown.residual])
        space = row_space(x)
        seen, direction = (x, line.direction) if space is None else (space(x), space.along(line.direction))
        bases = [Labelled(seen, torch.where(known, one, 0.0), known, noise) for one in left]
        # Curves contain the line: where they leave much less, a metric of what it leaves is not worth its time.
        errors = [float(squared(torch.zeros(()), base)) for base in bases]
        bent = curves is not None and errors[1] < BENT * errors[0]
        given = {"seed": seed, "neighbours": options.neighbours, "seconds": options.seconds}
        given |= {"first": int(bent), "most": asked}
        chosen, members = fit_members(bases, direction, fold, excluded, **given)
        learned = {"context": len(x), "gaps": gaps, "members": len(members), "knots": len(knots)}
        learned |= {} if curves is None else {"bends": BENDS}
        learned |= {} if grown is None else {"trees": len(grown.trees.root), "nodes": len(grown.trees.feature)}
        learned |= {} if space is None else {"components": space.basis.shape[1]}
        network = self.network(spec, options, learned)
        heavy = torch.ones(len(x)) if weight is None else torch.from_numpy(weight)
        wrong = _fill(network, bases, chosen, members, torch.from_numpy(y), heavy, _units(samples, train))
        if len(members) > 1 and excluded.time is None:
            _narrow(network, wrong, members, together(bases[chosen], members, excluded, options.neighbours), heavy)
        for name, values in ({"knots": knots} | ({} if space is None else space._asdict())).items():
            getattr(network, name).copy_(values)
        _fill_base(network, grounds, grown)
        network.seconds = time.monotonic() - begun
        return network, network.look_up(samples.features, train, excluded)

    def go_on(
        self, network: Network, spec: Any, samples: Samples, options: KrigingOptions
    ) -> tuple[Network, Features]:  # fmt: skip
        """There are no weights to go on from: it is fitted to these rows."""
        del network
        return self.build(spec, samples, options, seed=0)

    def check_learned(
        self,
        learned: Any,
        spec: Any,
        options: KrigingOptions,  # noqa: ARG002
        tensors: Mapping[str, Tensor],  # noqa: ARG002
    ) -> None:
        """Names, types and sizes: these numbers say how much memory a network takes."""
        names = {"context", "gaps", "members", "knots"}
        if not isinstance(learned, dict) or not names <= set(learned) <= names | {
            "bends",
            "components",
            "trees",
            "nodes",
        }:
            raise InputError(
                f"what a kriging network learned must be context, gaps, members, knots and, if any, bends, "
                f"components, trees and nodes, got {learned!r}"
            )
        for name, values in learned.items():
            given = values if name == "gaps" else [values]
            if not isinstance(given, list) or not all(type(n) is int and 0 <= n < 2**31 for n in given):
                raise InputError(f"{name} must be whole numbers of at least 0, got {values!r}")
        if any(gap >= spec.numeric for gap in learned["gaps"]):
            raise InputError(f"gaps must be numbers of the {spec.numeric} numeric columns, got {learned['gaps']}")
        if ("trees" in learned) != ("nodes" in learned):
            raise InputError(f"trees and nodes go together, got {learned!r}")

    def check_tensors(self, spec: Any, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """What a fit never gives: numbers that are not finite, lengths and noise that are not above 0, trees that lead
        out of their nodes.
        """
        broken = [name for name, t in tensors.items() if t.is_floating_point() and not t.isfinite().all()]
        broken += [name for name in ("length", "nugget", "context_noise") if not (tensors[name] > 0).all()]
        if "tree_root" in tensors:
            width = len(tensors["centre"]) if "centre" in tensors else tensors["context_x"].shape[1]
            trees = Trees(*(tensors[f"tree_{name}"] for name in Trees._fields))
            broken += [f"tree_{name}" for name in trees.broken(width)]
        if broken:
            raise InputError(f"the network is damaged in {', '.join(broken)}")


def _noise(rows: int, weight: NDArray[Any] | None) -> Tensor:
    """Of labels, (rows,), in units of the nugget: 1 / weight, at a mean weight of 1."""
    return torch.ones(rows) if weight is None else torch.from_numpy(weight.mean() / weight).float().clamp_max(100)


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


def _units(samples: Samples, train: Index) -> Tensor:
    """What training rows are drawn together with, (n,): groups, but not of fewer than 10; neighbours in time; else
    nothing.
    """
    group, time = (None if x is None else x[train] for x in (samples.group, samples.time))
    if group is not None and len(np.unique(group)) < FEW_GROUPS:
        group = None
    return torch.from_numpy(sample_units(len(train), group=group, time=time))


def _folds(samples: Samples, train: Index, members: int, seed: int) -> Tensor:
    """The fold of each training row, (n,): whole groups, or stretches of time, or drawn."""
    label = next((x[train] for x in (samples.group, samples.time) if x is not None), np.arange(len(train)))
    names, unit = np.unique(label, return_inverse=True)
    count = min(members if members > 1 else MEMBERS, max(len(names), 1))  # one is of one fold of the usual number
    if samples.group is None and samples.time is not None:
        return torch.from_numpy(unit * count // len(names))
    place = np.random.default_rng(seed).permutation(len(names))
    return torch.from_numpy(place[unit] % count)


@torch.no_grad()
def _fill(
    network: KrigingNetwork, bases: Sequence[Labelled], chosen: int, members: Sequence[Member], y: Tensor,
    heavy: Tensor, rows: Tensor,
) -> Tensor:  # fmt: skip
    """What was found into the network; shares, unit and reach from what members say of rows they were not shown.

    Of what the stack has more than the ridge as much is taken as left-out rows bear out; ``heavy``: weights of training
    rows, (n,), ``rows``: :func:`_units`.
    Returned: what it then misses these rows by, (n, targets), NaN where a label is unknown.
    """
    share, parts, made, asked = stacked(bases, chosen, members)
    held = torch.cat([m.held for m in members])
    left = bases[0].label[held]
    more = left - asked.label + made  # than the ridge says
    kept = borne_out(left, more, asked.known / asked.noise.unsqueeze(1), rows[held])
    made = made + (kept - 1.0) * more
    wrong = torch.where(asked.known, asked.label - made, torch.nan)
    variance, weight = [m.variance.expand_as(m.guess) for m in members], heavy[held]
    each = list(zip(*(part.split([len(m.held) for m in members]) for part in (wrong, weight)), variance, strict=True))
    unit = torch.stack([unit_of(e, v, w) for e, w, v in each])
    scaled = torch.cat([e.abs() / (v * u).sqrt() for (e, _, v), u in zip(each, unit, strict=True)])
    ridge, *others = (_pcc(y[held] - base.label[held], y[held], weight) for base in bases)
    stack = _pcc(y[held] - asked.label + made, y[held], weight)
    pairs = [number for pair in zip(others, (kept * parts[1:]).tolist(), strict=True) for number in pair]
    found = {
        "share": torch.tensor(kept * share), "unit": unit, "reaches": reaches(scaled, weight),
        "length": torch.tensor([m.length for m in members]), "nugget": torch.tensor([m.nugget for m in members]),
        "scale": torch.stack([m.keys.scale for m in members]), "mix": torch.stack([m.keys.mix for m in members]),
        "scores": torch.tensor([ridge, stack, *pairs]),
        **{f"context_{name}": part for name, part in bases[chosen]._asdict().items()},
    }  # fmt: skip
    for name, value in found.items():
        getattr(network, name).copy_(value)
    return wrong


@torch.no_grad()
def _narrow(network: KrigingNetwork, wrong: Tensor, members: Sequence[Member], told: Together, heavy: Tensor) -> None:
    """The reach of intervals about the mean of all members, :func:`reaches_of_mean`.

    ``wrong``: by what one member without a row, and what is under it, misses its label; ``heavy``: weights of rows.
    """
    before, held = (torch.cat([getattr(m, name) for m in members])[told.some] for name in ("guess", "held"))
    missed = wrong[told.some].unsqueeze(1) - network.share * (told.guess - before.unsqueeze(1))
    spread = (told.variance * network.unit).mean(1).sqrt()
    network.reaches.copy_(reaches_of_mean(missed, told.own, spread, heavy[held]))


@torch.no_grad()
def _fill_base(network: KrigingNetwork, grounds: Sequence[RidgeStart], grown: Boosted | None) -> None:
    """What is under the neighbours: sum of share x base, the shares as ``scores`` has them, the ridge's what is left.

    Trees are what they add to their ground, which is a line or, the last one, the mean that has no share of its own.
    """
    shares = network.scores[3::2].tolist()
    lines = [1.0 - sum(shares), *shares[: len(grounds) - 2], 0.0]
    if grown is not None:
        lines[grown.parent] += shares[-1]
        for name, values in grown.trees._replace(value=shares[-1] * grown.trees.value)._asdict().items():
            getattr(network, f"tree_{name}").copy_(values)
    for ground, share in zip(grounds, lines, strict=True):
        network.coefficient[: len(ground.coefficient)] += share * ground.coefficient
        network.intercept += share * ground.intercept


def _pcc(guess: Tensor, y: Tensor, weight: Tensor) -> float:
    """The mean correlation over targets with known labels; 0 where it is undefined."""
    return float(selection_mean(pearson(*(part.double().numpy() for part in (guess, y, weight)))))
