"""The members of a kriging model, one a fold of the training rows, and the stack that they are taken into."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from excora.models.parts.kriging import (
    LARGE,
    RANK,
    Asked,
    Keys,
    Labelled,
    Member,
    Part,
    choose,
    label_variance,
    learn,
    squared,
)
from excora.models.parts.neighbours import Excluded
from excora.models.parts.pace import Members
from excora.models.parts.stack import shares

#: Rows that a metric is learned on, and held-out rows, at most.
LEARNED, HELD = 50_000, 1024
#: Left-out rows that all members are asked about, at most.
TOGETHER = 1000
#: Rows below which no metric is learned.
FEWEST = 12
#: Metrics of a table, and folds of its rows; of a large one up to twice as many, and rows times metrics then.
MEMBERS, BUDGET = 5, 160_000


def members_for(rows: int) -> int:
    """Metrics for this many rows: thousands gain by more of them, and by more rows to learn on; of more rows, time.

    >>> members_for(1000), members_for(10_000), members_for(20_000), members_for(200_000)
    (5, 10, 8, 5)
    """
    return min(max(BUDGET // rows, MEMBERS), 2 * MEMBERS) if rows >= LARGE else MEMBERS


def fit_members(
    bases: Sequence[Labelled],
    direction: Tensor,
    fold: Tensor,
    excluded: Excluded,
    *,
    seed: int,
    neighbours: int,
    seconds: float,
    first: int = 0,
    most: int | None = None,
) -> tuple[int, list[Member]]:
    """One member a fold (n,), which is held out and chooses, ``most`` at most; none is begun after ``seconds``, but the
    first is.

    ``bases`` are the same rows with what is left of their labels by this model or that; the first fold learns of each,
    from the number ``first`` on, and the number of the one that is best stacked on left-out rows, which the others
    learn of, is returned too.
    With one fold or fewer than :data:`FEWEST` rows there is one member that has learned nothing and says 0 of all rows.
    """  # fmt: skip
    generator, begun = torch.Generator().manual_seed(seed), time.monotonic()
    if len(fold) < FEWEST or not int(fold.max()):
        return 0, [_nothing(bases[0])]

    numbers, count = range(first, len(bases)), min(int(fold.max()) + 1, most or len(fold))
    pace = Members(len(numbers) + count - 1, least=len(numbers), seconds=seconds)

    def rows(number: int) -> tuple[Tensor, Tensor]:
        return _drawn(fold != number, generator), _drawn(fold == number, generator)[:HELD]

    def member(base: Labelled, rest: Tensor, held: Tensor) -> Member:
        learning = Part.of(base, rest[:LEARNED], held, excluded)
        pace.begin(learning, direction, neighbours)
        keys = learn(learning, direction, generator)
        whole = learning if len(rest) <= LEARNED else Part.of(base, rest, held, excluded)
        made = choose(whole, keys, generator, neighbours)
        pace.end()
        return made

    same = rows(0)  # errors of different rows differ by more than bases do
    tried = {k: member(bases[k], *same) for k in numbers}
    best = min(numbers, key=lambda k: float(squared(*stacked(bases, k, [tried[k]])[2:])))
    found = [tried[best]]
    for number in range(1, count):
        if time.monotonic() - begun > seconds:
            break
        found.append(member(bases[best], *rows(number)))
    return best, found


class Stack(NamedTuple):
    """What is taken of members and of bases, and what that makes of left-out rows."""

    share: float  #: of what members say
    parts: Tensor  #: (bases,) of each base, 1 in all
    made: Tensor  #: (n, targets) added to the chosen base
    asked: Labelled  #: the left-out rows, with what the chosen base leaves of them


def stacked(bases: Sequence[Labelled], chosen: int, members: Sequence[Member]) -> Stack:
    """Shares of what members say and of the other bases in place of the chosen one, on left-out rows.

    With f_c + r_c = f_o + r_o = y a base is replaced in part by adding share (f_o - f_c) = share (r_c - r_o).
    """
    held, guess = (torch.cat([getattr(m, name) for m in members]) for name in ("held", "guess"))
    asked, rest = bases[chosen].at(held), [k for k in range(len(bases)) if k != chosen]
    others = [asked.label - bases[k].label[held] for k in rest]
    found = shares(asked.label, [guess, *others], asked.known / asked.noise.unsqueeze(1), len(others))
    made = torch.stack([guess, *others], -1).double() @ found
    parts = torch.zeros(len(bases), dtype=torch.float64)
    parts[rest] = found[1:]
    parts[chosen] = 1.0 - parts.sum()
    return Stack(float(found[0]), parts, made.to(guess.dtype), asked)


class Together(NamedTuple):
    """What all members say of some left-out rows, each from all rows but those that it may not see."""

    some: Tensor  #: (n,) places among the left-out rows of all members
    own: Tensor  #: (n,) the member that has not learned of the row
    guess: Tensor  #: (n, members, targets)
    variance: Tensor  #: (n, members, targets) of a label, noise included


def together(rows: Labelled, members: Sequence[Member], excluded: Excluded, neighbours: int) -> Together:
    """:data:`TOGETHER` rows at most, of each member alike."""
    ends = torch.tensor([0, *(len(m.held) for m in members)]).cumsum(0).tolist()
    parts = [torch.arange(a, min(b, a + TOGETHER // len(members))) for a, b in pairwise(ends)]
    some, own = torch.cat(parts), torch.cat([torch.full_like(part, k) for k, part in enumerate(parts)])
    held = torch.cat([m.held for m in members])[some]
    part = Part.of(rows, torch.arange(len(rows.x)), held, excluded)
    guess, variance = [], []
    for m in members:
        one, found = Asked.of(part, m.keys, neighbours, among=True).predict(m.length, m.nugget)
        guess.append(one)
        variance.append(label_variance(found, m.nugget).expand_as(one))
    return Together(some, own, torch.stack(guess, 1), torch.stack(variance, 1))


def _nothing(rows: Labelled) -> Member:
    width = rows.x.shape[1]
    keys, variance = Keys(torch.zeros(width), torch.zeros(width, RANK)), torch.ones(len(rows.x), 1)
    return Member(keys, 1.0, 1.0, torch.arange(len(rows.x)), torch.zeros_like(rows.label), variance)


def _drawn(chosen: Tensor, generator: torch.Generator) -> Tensor:
    """The places of True in an order drawn by chance."""
    places = chosen.nonzero()[:, 0]
    return places[torch.randperm(len(places), generator=generator)]
