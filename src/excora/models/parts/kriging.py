"""Kriging over labelled rows: the best linear unbiased weights, and the metric of rows that they are best in.

key = [x exp(s), x W],   K_ij = exp(-|key_i - key_j| / l),   A = K + nu diag(noise),   k_i = exp(-|key_i - key| / l)

prediction = w'r, with the weights w and the variance of :func:`excora.pooling.kriging.krige`
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from excora.models.parts.neighbours import Excluded
from excora.pooling.kriging import Kriged, krige

#: Neighbours and queries of a step, steps, and how often meanwhile the held-out rows are asked.
NEAR, QUERIES, STEPS, LOOKS = 40, 64, 90, 9
#: Rows from which a step has twice the queries, and there are more steps, up to 180: large tables have more to learn.
LARGE = 4000
RATE, EVEN = 0.08, 0.02
#: The noise that a metric is learned with: what held-out rows prefer at its start.
STARTS = (0.1, 1.0, 10.0)
RANK = 4  #: of W
#: Held-out rows that choose, at most.
ASKED = 512
#: Distances in memory at a time.
PAIRS = 2**25
#: Channels from which rows are wide: see :func:`all_at_once`.
WIDE = 256
#: What length scales (in median distances to the 16th neighbour) and nuggets are chosen from.
LENGTHS, NUGGETS = (1.0, 3.0, 9.0), (0.01, 0.1, 0.4, 1.5, 6.0, 25.0)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j| of (..., n, c) and (..., m, c): (..., n, m), with a gradient of 0 where rows meet.

    >>> distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    square = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2) - 2 * a @ b.mT
    return square.clamp_min(1e-10).sqrt()


def all_at_once(x: Tensor, pairs: int) -> bool:
    """Whether the distances of all rows (n, c) from each other cost less than gathering the ``pairs`` that are needed.

    Of wide rows: to copy them for every row that they are near to takes longer than to multiply them.
    """
    return x.shape[1] >= WIDE and len(x) ** 2 <= 4 * pairs


def apart(own: Tensor, every: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Distances of rows (n, c) from their neighbours ``found`` (n, k) among ``every`` (m, c), and of these from each
    other: (n, k), (n, k, k), by those of all pairs.
    """
    return distance(own, every).gather(1, found), distance(every, every)[found.unsqueeze(2), found.unsqueeze(1)]


def gathered(own: Tensor, around: Tensor) -> tuple[Tensor, Tensor]:
    """The same of neighbours that were gathered, (n, k, c)."""
    return distance(own.unsqueeze(1), around)[:, 0], distance(around, around)


class Keys(NamedTuple):
    """A metric of rows: key = [x exp(s), x W]."""

    scale: Tensor  #: (channels,) s
    mix: Tensor  #: (channels, rank) W

    def __call__(self, x: Tensor) -> Tensor:
        """(..., channels) to (..., channels + rank)."""
        return torch.cat([x * self.scale.exp(), x @ self.mix], -1)


class Labelled(NamedTuple):
    """Rows with labels; gathered as neighbours they are (n, k, ...)."""

    x: Tensor  #: (..., channels)
    label: Tensor  #: (..., targets), 0 where unknown
    known: Tensor  #: (..., targets)
    noise: Tensor  #: (...) of the label, in units of the nugget

    def at(self, index: Tensor) -> Labelled:
        """The rows of ``index``, of any shape."""
        return Labelled(*(part[index] for part in self))


def predict(
    toward: Tensor, between: Tensor, near: Labelled, allowed: Tensor, length: float | Tensor, nugget: float | Tensor
) -> tuple[Tensor, Kriged]:
    """Labels (n, targets) from the distances of neighbours to rows (n, k) and to each other (n, k, k).

    Weights are (n, 1, k), or (n, targets, k) where labels are unknown.
    """
    real = (near.known & allowed.unsqueeze(-1)).mT
    if bool((real == real[:, :1]).all()):
        real = real[:, :1]
    between, toward = (x.div(-length).exp().unsqueeze(1) for x in (between, toward))
    with torch.no_grad():
        found = krige(between, toward, (nugget * near.noise).unsqueeze(1), None if bool(real.all()) else real)
    label = near.label.mT * real
    value = (found.weights * label).sum(-1)
    return _with_gradient(value, between, toward, label, found) if between.requires_grad else value, found


def _with_gradient(value: Tensor, between: Tensor, toward: Tensor, label: Tensor, found: Kriged) -> Tensor:
    """w'r with its gradient: d(w'r) = g'dk - g'dA w, where g = A^-1 (r - m 1); no derivative of a factor is needed."""
    solved = torch.cholesky_solve(label.unsqueeze(-1), found.factor).squeeze(-1)
    total = found.level.sum(-1, keepdim=True)
    mean = (found.level * label).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
    g, w = solved - mean * found.level, found.weights.expand_as(label)
    slope = (g * toward).sum(-1) - torch.einsum("ntk,nskj,ntj->nt", g, between, w)
    return value + (slope - slope.detach())


def search(query: Tensor, candidate: Tensor, k: int, banned: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k nearest candidates of each query, (n, k), in single precision, and which of them are not ``banned``.

    ``banned`` says so of every pair, (n, candidates), or names one candidate of each query, (n,).
    """
    if len(query) * len(candidate) > PAIRS and len(query) > 1:
        step = max(PAIRS // len(candidate), 1)
        every: list[Tensor | None] = [None] * len(query) if banned is None else list(banned.split(step))
        parts = [search(one, candidate, k, no) for one, no in zip(query.split(step), every, strict=False)]
        return torch.cat([found for found, _ in parts]), torch.cat([allowed for _, allowed in parts])
    square = torch.addmm(candidate.square().sum(1), query, candidate.T, alpha=-2.0)
    if banned is not None and banned.ndim == 1:
        square.scatter_(1, banned.unsqueeze(1), math.inf)
    elif banned is not None:
        square.masked_fill_(banned, math.inf)
    values, found = square.topk(min(k, len(candidate)), 1, largest=False)
    return found, values < math.inf


class Part(NamedTuple):
    """What one member learns from: rows, and held-out ones that choose."""

    rows: Labelled
    numbers: Tensor  #: of the rows among all, for ``excluded``
    held: Labelled
    asking: Tensor  #: the numbers of these
    excluded: Excluded

    @classmethod
    def of(cls, every: Labelled, index: Tensor, held: Tensor, excluded: Excluded) -> Part:
        """Rows ``index`` and ``held``."""
        return cls(every.at(index), index, every.at(held), held, excluded)

    def asked(self) -> Part:
        """With fewer held-out rows, for what is asked of them often."""
        return self._replace(held=Labelled(*(part[:ASKED] for part in self.held)), asking=self.asking[:ASKED])

    def banned(self, query: Tensor | None = None) -> Tensor | None:
        """Whom the rows ``query``, or the held-out rows, may not see, as :func:`search` takes it."""
        if self.excluded.only_itself:
            return query
        asking = self.asking if query is None else self.numbers[query]
        return self.excluded(asking.unsqueeze(1), self.numbers)


def typical(keys: Tensor, generator: torch.Generator, place: int = 16) -> float:
    """The median distance of a row to its 16th neighbour, of keys (n, c); 1 where there is none."""
    some = torch.randperm(len(keys), generator=generator)[:200]
    nearest = distance(keys[some], keys).topk(min(place + 1, len(keys)), 1, largest=False).values[:, -1]
    found = float(nearest.median())
    return found if found > 1e-4 else 1.0


def budget(rows: int) -> tuple[int, int]:
    """Queries of a step and steps of a metric."""
    return QUERIES * (1 + (rows >= LARGE)), min(max(STEPS, rows // 60), 2 * STEPS)


def learn(part: Part, direction: Tensor, generator: torch.Generator, *, steps: int | None = None) -> Keys:
    """The metric in which each row is best predicted from its neighbours, by Adam; held-out rows pick the step.

    Minimised: the mean (w'r - r_q)^2 over :data:`QUERIES` rows from the :data:`NEAR` nearest that they may see, with
    l = 1 and nu one of :data:`STARTS`, + :data:`EVEN` var(s). W starts with ``direction`` (channels,), s as a constant.
    The search sees all rows, the gradient those that were found alone.
    """
    rows, width = part.rows, part.rows.x.shape[1]
    # DIFF: the recipe has 90 steps of 64 for every table, which seems to leave a metric of 12,000 rows unfinished.
    size, usual = budget(len(rows.x))
    steps = steps or usual
    mix = torch.randn(width, RANK, generator=generator) * (0.1 / math.sqrt(width))
    mix[:, 0] = direction
    # One length scale is three times the distance to the 16th neighbour at the start.
    unit = 1 / (3 * typical(Keys(torch.zeros(width), mix)(rows.x), generator))
    keys = Keys(torch.full((width,), math.log(unit)).requires_grad_(), (mix * unit).requires_grad_())
    optimizer = torch.optim.Adam(keys, lr=RATE)
    looked = part.asked()
    asked = Asked.of(looked, keys, NEAR)
    # DIFF: one noise for all tables, 0.1, learns nothing from labels that are mostly noise.
    nugget = min(STARTS, key=lambda nu: float(squared(asked.predict(1.0, nu)[0], looked.held)))
    best, kept, every = math.inf, keys, max(steps // LOOKS, 1)
    for step in range(steps + 1):
        if step % every == 0 or step == steps:
            wrong = float(squared(Asked.of(looked, keys, NEAR).predict(1.0, nugget)[0], looked.held))
            if wrong < best:
                best, kept = wrong, Keys(*(p.detach().clone() for p in keys))
        if step == steps:
            return kept
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        query = torch.randint(len(rows.x), (size,), generator=generator)
        loss = step_error(part, keys, query, nugget) + EVEN * keys.scale.var(correction=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return kept


def step_error(part: Part, keys: Keys, query: Tensor, nugget: float) -> Tensor:
    """The mean squared error of the rows ``query`` from their neighbours in the metric ``keys``."""
    rows, asked = part.rows, part.rows.at(query)
    whole = all_at_once(rows.x, len(query) * NEAR**2)
    with torch.set_grad_enabled(whole):
        every = keys(rows.x)
    with torch.no_grad():
        found, allowed = search(every[query], every, NEAR, part.banned(query))
    near = rows.at(found)
    toward, between = apart(every[query], every, found) if whole else gathered(keys(asked.x), keys(near.x))
    guess, _ = predict(toward, between, near, allowed, 1.0, nugget)
    return squared(guess, asked)


def squared(guess: Tensor, asked: Labelled) -> Tensor:
    """The mean squared error over known labels, rows weighed by 1 / noise."""
    weight = asked.known / asked.noise.unsqueeze(-1)
    return ((guess - asked.label).square() * weight).sum() / weight.sum().clamp_min(1e-12)


class Asked(NamedTuple):
    """Held-out rows with their neighbours: what any length scale and nugget are tried on."""

    toward: Tensor
    between: Tensor
    near: Labelled
    allowed: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, part: Part, keys: Keys, neighbours: int, *, among: bool = False) -> Asked:
        """In the metric ``keys``; ``among``: the held-out rows are among the others, all of them, by their numbers."""
        every, own = keys(part.rows.x), keys(part.held.x)
        found, allowed = search(own, every, neighbours, part.banned(part.asking if among else None))
        whole = all_at_once(every, len(found) * found.shape[1] ** 2)
        return cls(*(apart(own, every, found) if whole else gathered(own, every[found])), part.rows.at(found), allowed)

    def predict(self, length: float, nugget: float) -> tuple[Tensor, Kriged]:
        """Labels (n, targets), and the weights."""
        return predict(self.toward, self.between, self.near, self.allowed, length, nugget)


class Member(NamedTuple):
    """A metric, what held-out rows chose for it, and what it says of them then."""

    keys: Keys
    length: float
    nugget: float
    held: Tensor  #: (rows,) the numbers of the held-out rows
    guess: Tensor  #: (rows, targets)
    variance: Tensor  #: (rows, 1 or targets) of a label, noise included


def choose(part: Part, keys: Keys, generator: torch.Generator, neighbours: int) -> Member:
    """The length scale and nugget of the least squared error on held-out rows."""
    some, unit = part.asked(), typical(keys(part.rows.x), generator)
    asked = Asked.of(some, keys, neighbours)
    tried = [(length * unit, nugget) for length in LENGTHS for nugget in NUGGETS]
    wrong = [float(squared(asked.predict(*pair)[0], some.held)) for pair in tried]
    length, nugget = tried[min(range(len(tried)), key=lambda k: wrong[k])]
    guess, found = Asked.of(part, keys, neighbours).predict(length, nugget)
    return Member(keys, length, nugget, part.asking, guess, label_variance(found, nugget))


def label_variance(found: Kriged, nugget: float | Tensor) -> Tensor:
    """Of a label with its noise, (n, 1 or targets), away from 0."""
    return (found.variance + nugget).clamp_min(1e-6)
