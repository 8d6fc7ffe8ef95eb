"""Which training rows are most like a row: a learned linear metric, and the search in it."""

from __future__ import annotations

import importlib.util
import math
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.dataset import Features, Index, Inputs
from excora.errors import InputError, MissingExtraError
from excora.models.parts.sensitivity import column_sensitivity

Kind = Literal["full", "diagonal", "plain", "elliptical"]

#: Candidates up to which the search compares with every one; beyond, faiss picks the parts of space to look at.
EXACT = 100_000
#: Distances in memory at once: 32 MB of them, whatever the number of candidates.
TILE = 1 << 22
#: Of Adam, when a metric is learned.
STEPS = 300


class Excluded:
    """Which training rows a training row may not see: itself and its exact duplicates, its group, its time.

    ``x`` (n, columns) are the rows: equal ones are duplicates. ``group`` (n,) of any kind; ``time`` (n,): rows whose
    times differ by at most ``gap`` exclude each other, so those of one time always do.

    Called with row numbers, it answers for each pair, by broadcasting.

    >>> excluded = Excluded(torch.tensor([[0.0], [1.0], [1.0], [2.0]]), time=np.array([0.0, 5.0, 9.0, 1.0]), gap=1.0)
    >>> rows = torch.arange(4)
    >>> excluded(rows[:, None], rows).int().tolist()
    [[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    """

    def __init__(
        self, x: Tensor, *, group: NDArray[Any] | None = None, time: NDArray[Any] | None = None, gap: float = 0.0
    ) -> None:
        if not gap >= 0.0:
            raise InputError(f"gap must be a time of at least 0, got {gap}")
        for name, given in (("group", group), ("time", time)):
            if given is not None and np.shape(given) != (len(x),):
                raise InputError(f"{name} must be given for each of the {len(x)} rows, got shape {np.shape(given)}")
        shared = [np.unique(x.numpy(), axis=0, return_inverse=True)[1]]
        shared += [] if group is None else [np.unique(group, return_inverse=True)[1]]
        self.codes = [torch.from_numpy(code.reshape(-1)) for code in shared]
        self.time = None if time is None else torch.from_numpy(np.asarray(time, np.float64))
        self.gap = gap
        #: Whether no row excludes another one.
        self.only_itself = len(shared) == 1 and time is None and len(np.unique(shared[0])) == len(x)

    def __call__(self, query: Tensor, candidate: Tensor) -> Tensor:
        """True for pairs that must not meet."""
        found = self.codes[0][query] == self.codes[0][candidate]
        for code in self.codes[1:]:
            found |= code[query] == code[candidate]
        if self.time is not None:
            found |= (self.time[query] - self.time[candidate]).abs() <= self.gap
        return found


class Metric(NamedTuple):
    """A linear map into the space of the search: u = weight * x, m = u + u mix."""

    weight: Tensor  #: (columns,)
    mix: Tensor | None  #: (columns, columns); None: the columns are not mixed

    def __call__(self, x: Tensor) -> Tensor:
        """(n, columns) to (n, columns)."""
        u = x * self.weight
        return u if self.mix is None else u + u @ self.mix

    def before(self, v: Tensor) -> Tensor:
        """The map M, then ``v``: x M v = x before(v); (columns, n) to (columns, n)."""
        return self.weight.unsqueeze(1) * (v if self.mix is None else v + self.mix @ v)


def learn_metric(
    x: Tensor,
    y: Tensor,
    excluded: Excluded,
    *,
    kind: Kind = "full",
    seed: int = 0,
    steps: int | None = None,
    queries: int = 256,
    candidates: int = 8192,
) -> Metric:
    """The metric whose kernel regression predicts labels best, each row from the rows it may see.

    ::

        yhat_s = sum_i w_si y_i / sum_i w_si,  w_si = exp(-||m_s - m_i||^2);  minimised: mean (yhat_s - y_s)^2

    by Adam on a draw of rows a step, STEPS of them unless told. ``x`` (n, columns), ``y`` (n, targets), standardised.
    Few parameters on purpose: a deep metric finds neighbours for training rows that other rows do not have.
    ``kind="diagonal"`` learns weights alone; ``"plain"`` learns nothing: one weight for all, so that the median squared
    distance of a neighbour is 2. ``"elliptical"`` weighs columns by their sensitivity
    (:func:`excora.models.parts.sensitivity.column_sensitivity`), in the same units. Torch's random state is left alone.

    >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    >>> metric = learn_metric(x, x[:, :1].sin(), Excluded(x), kind="diagonal", steps=100)
    >>> bool(metric.weight[0] > 3 * metric.weight[1].abs())
    True
    """
    (n, columns), steps = x.shape, steps or STEPS
    if kind == "plain":
        return Metric(torch.full((columns,), _bandwidth(x, excluded)), None)
    if kind == "elliptical":
        weight = column_sensitivity(x * _bandwidth(x, excluded), y, excluded, seed=seed).sqrt()
        return Metric(weight * _bandwidth(x * weight, excluded), None)
    generator = torch.Generator().manual_seed(seed)
    x = x - x.mean(0)
    weight = nn.Parameter(torch.full((columns,), 0.5 * math.log(8.0 / columns)))
    mix = nn.Parameter(torch.zeros(columns, columns)) if kind == "full" else None
    scale = nn.Parameter(torch.zeros(()))
    groups = [{"params": [weight, scale], "lr": 0.05}]
    groups += [] if mix is None else [{"params": [mix], "lr": 0.005}]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(steps):
        query = torch.randint(n, (queries,), generator=generator)
        candidate = torch.randperm(n, generator=generator)[:candidates]
        metric = Metric((weight + 0.5 * scale).exp(), mix)
        a, b = metric(x[query]), metric(x[candidate])
        logits = torch.addmm(-b.square().sum(1), 2 * a, b.T)  # the query's own square is the same for all candidates
        # The lowest finite number, not -inf: a row that may see nobody then has some loss, but no gradient and no NaN.
        logits.masked_fill_(excluded(query[:, None], candidate), torch.finfo(logits.dtype).min)
        loss = (logits.softmax(1) @ y[candidate] - y[query]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return Metric((weight + 0.5 * scale).exp().detach(), None if mix is None else mix.detach())


def _bandwidth(x: Tensor, excluded: Excluded, rows: int = 500, k: int = 24) -> float:
    """The factor after which the median squared distance of a neighbour is 2; 1 where there is none."""
    query = torch.linspace(0, len(x) - 1, min(rows, len(x))).long()
    found, allowed = nearest(x[query], x, min(k, len(x)), excluded=excluded, numbers=query)
    square = (x[query, None] - x[found]).square().sum(-1)[allowed]
    median = float(square.median()) if len(square) else 0.0
    return math.sqrt(2.0 / median) if median > 0.0 else 1.0


def nearest(
    query: Tensor, candidate: Tensor, k: int, *, excluded: Excluded | None = None, numbers: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Numbers of the k nearest candidates of each query, (n, k), nearest first, and which of them are allowed.

    Exact in float64, the lower number first among equally near ones; :data:`TILE` distances in memory at a time. More
    than :data:`EXACT` candidates are searched by faiss (the extra ``index``), in single precision and in the likely
    parts of space only. ``excluded`` needs ``numbers`` (n,): the place of each query among the candidates. Where fewer
    than k are left, the rest of the row is number 0, not allowed.

    >>> nearest(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [5.0]]), 2)
    (tensor([[1, 0]]), tensor([[True, True]]))
    """
    return Search(candidate)(query, k, excluded=excluded, numbers=numbers)


class Search:
    """:func:`nearest` among candidates (n, columns) that are asked more than once.

    ``exact``: every one is compared with, however many there are; None: where faiss is not installed.

    >>> Search(torch.tensor([[0.0], [1.0], [5.0]]))(torch.tensor([[0.9]]), 2)
    (tensor([[1, 0]]), tensor([[True, True]]))
    """

    def __init__(self, candidate: Tensor, *, exact: bool | None = False) -> None:
        self.total = len(candidate)
        if exact is None:
            exact = importlib.util.find_spec("faiss") is None
        self.index = None if exact or self.total <= EXACT else _index(candidate)
        if self.index is None:
            candidate = candidate.double()
            self.centre = candidate.sum(0) / max(self.total, 1)  # far from zero the expanded square would lose digits
            self.candidate = candidate - self.centre
            self.squares = self.candidate.square().sum(1)

    def __call__(
        self, query: Tensor, k: int, *, excluded: Excluded | None = None, numbers: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As :func:`nearest`."""
        if k < 1:
            raise InputError(f"k, the number of neighbours, must be at least 1, got {k}")
        if (excluded is None) != (numbers is None):
            raise InputError("excluded and numbers go together: who may not be seen depends on which row is asking")
        if self.index is not None:
            return _indexed(self.index, query, k, excluded, numbers)
        found = torch.zeros(len(query), k, dtype=torch.long)
        allowed = torch.zeros(len(query), k, dtype=torch.bool)
        everyone, width = torch.arange(self.total), min(k, self.total)
        step = max(TILE // max(self.total, 1), 1)
        for start in range(0, len(query) if width else 0, step):
            rows = slice(start, start + step)
            distance = torch.addmm(self.squares, query[rows].double() - self.centre, self.candidate.T, alpha=-2.0)
            if excluded is not None and numbers is not None:
                distance.masked_fill_(excluded(numbers[rows, None], everyone), math.inf)
            found[rows, :width], allowed[rows, :width] = _smallest(distance, width)
        return found, allowed


def _smallest(distance: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Places of the k smallest of each row in order, the first of equal ones; and which are finite (else place 0)."""
    values, places = distance.topk(k, 1, largest=False)
    last = values[:, -1:]
    tied = ((distance <= last).sum(1) > k).nonzero()[:, 0]
    if len(tied):  # which of the equal ones topk takes is not defined
        part, last = distance[tied], last[tied]
        equal = part == last
        left = k - (part < last).sum(1, keepdim=True)
        places[tied] = ((part < last) | (equal & (equal.cumsum(1) <= left))).nonzero()[:, 1].view(-1, k)
    places = places.sort(1).values
    values, order = distance.gather(1, places).sort(dim=1, stable=True)
    allowed = values < math.inf
    return places.gather(1, order).masked_fill_(~allowed, 0), allowed


def _index(candidate: Tensor) -> Any:
    """An inverted file of faiss."""
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("faiss", "index") from None
    total, width = candidate.shape
    lists = max(int(math.sqrt(total)), 1)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, lists)
    index.cp.max_points_per_centroid = 64
    rows = np.ascontiguousarray(candidate.float().numpy())
    index.train(rows)
    index.add(rows)
    index.nprobe = max(lists // 8, min(8, lists))
    return index


def _indexed(
    index: Any, query: Tensor, k: int, excluded: Excluded | None, numbers: Tensor | None
) -> tuple[Tensor, Tensor]:
    """By faiss, asked for more and more until k allowed ones are there or it has no more."""
    found = torch.zeros(len(query), k, dtype=torch.long)
    allowed = torch.zeros(len(query), k, dtype=torch.bool)
    waiting, ask = torch.arange(len(query)), 2 * k
    while len(waiting):
        short = []
        for part in waiting.split(max(TILE // ask, 1)):
            places = torch.from_numpy(index.search(np.ascontiguousarray(query[part].float().numpy()), ask)[1])
            fine = places >= 0
            full = fine.all(1)
            if excluded is not None and numbers is not None:
                fine &= ~excluded(numbers[part, None], places.clamp_min(0))
            order = (
                (~fine).to(torch.int8).sort(dim=1, stable=True).indices[:, :k]
            )  # the allowed ones first, as they come
            allowed[part] = fine.gather(1, order)
            found[part] = places.gather(1, order).masked_fill(~allowed[part], 0)
            short.append(part[~allowed[part].all(1) & full])
        waiting, ask = torch.cat(short), 4 * ask
    return found, allowed


class RetrievalFeatures:
    """Prepared rows of a table with their neighbours, (n, k), and which of these are allowed, (n, k).

    ``start``, (n, targets), is what another model predicts of the rows, for a network that goes on from there;
    ``decay``, (n, k), how old the neighbours are, for one that has a memory.
    """

    def __init__(
        self,
        features: Features,
        neighbours: Tensor,
        allowed: Tensor,
        context: Index | None = None,
        start: Tensor | None = None,
        decay: Tensor | None = None,
    ) -> None:
        self.features, self.neighbours, self.allowed = features, neighbours, allowed
        self.start, self.decay = start, decay
        self.sizes: Index = np.full(len(neighbours), neighbours.shape[1], np.intp)
        #: Where the training rows that are looked at stand among the samples, if they are among them.
        self.context = context

    def read(self, index: Index) -> Inputs:
        """The rows of ``index``, and ``neighbours`` and ``allowed``, and ``start`` and ``decay`` if there are such."""
        rows = torch.as_tensor(index, dtype=torch.long)
        more = {name: x[rows] for name in ("start", "decay") if (x := getattr(self, name)) is not None}
        found = {"neighbours": self.neighbours[rows], "allowed": self.allowed[rows]}
        return {**self.features.read(index), **found, **more}

    def element_sample(self, sample: int, element: int) -> int | None:
        """The sample that this element of a sample is; None if it is not among them."""
        return None if self.context is None else int(self.context[int(self.neighbours[sample, element])])
