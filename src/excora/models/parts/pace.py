"""How long a fit will take, and how far it is: told to whoever listens, by models that are not trained in epochs.

>>> heard = []
>>> with listening(heard.append):
...     tell(Pace(0, 4, 10.0))
>>> heard[0].done, heard[0].steps, heard[0].left
(0, 4, 10.0)
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from excora.models.parts import kriging

#: A measurement that takes less says more about what else runs; so many calls are one in any case.
ENOUGH, MOST_CALLS = 0.05, 5


class Pace(NamedTuple):
    """Steps done, steps in all, and the seconds that the others may take."""

    done: int
    steps: int
    left: float


_listener: contextvars.ContextVar[Callable[[Pace], None] | None] = contextvars.ContextVar("pace", default=None)


@contextlib.contextmanager
def listening(hear: Callable[[Pace], None]) -> Iterator[None]:
    """While it lasts, ``hear`` is told of each step of a fit."""
    before = _listener.set(hear)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(pace: Pace) -> None:
    """To who listens, if anybody does."""
    if (hear := _listener.get()) is not None:
        hear(pace)


class Members:
    """The members of a kriging model, ``steps`` of them, as they are fitted: an estimate first, then what they took.

    The estimate is measured on the first member: seconds of one step of its metric, of one look at held-out rows, and
    of one choice of length scale and nugget, times how many of each there are. Nobody listens: nothing is measured.
    Of what begins after ``seconds`` nothing is counted but the first ``least``: it will not be begun.
    """

    def __init__(
        self,
        steps: int,
        *,
        least: int = 1,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.steps, self.least, self.seconds = steps, least, seconds
        self.done, self.clock, self.begun = 0, clock, clock()

    def pace(self, each: float) -> Pace:
        """With so many seconds for each.

        >>> Members(7, least=3, seconds=480.0).pace(10.0), Members(7, least=3, seconds=480.0).pace(200.0)
        (Pace(done=0, steps=7, left=70.0), Pace(done=0, steps=3, left=600.0))
        """
        room = self.steps if self.steps * each <= self.seconds else int(self.seconds / each) + 1
        count = max(min(room, self.steps), self.least, self.done)
        return Pace(self.done, count, (count - self.done) * each)

    def begin(self, part: kriging.Part, direction: Tensor, neighbours: int) -> None:
        """Before the first member; the random state that members are fitted with is left alone."""
        if _listener.get() is None or self.done:
            return
        tell(self.pace(seconds_of(part, direction, neighbours, self.clock)))
        self.begun = self.clock()

    def end(self) -> None:
        """After each member."""
        self.done += 1
        tell(self.pace((self.clock() - self.begun) / self.done))


def seconds_of(part: kriging.Part, direction: Tensor, neighbours: int, clock: Callable[[], float]) -> float:
    """Seconds that a member takes, by its parts; each is done once before it is measured."""
    generator, (n, width) = torch.Generator().manual_seed(0), part.rows.x.shape
    size, steps = kriging.budget(n)
    mix = torch.randn(width, kriging.RANK, generator=generator) * (0.1 / width**0.5)
    mix[:, 0] = direction
    keys = kriging.Keys(torch.zeros(width).requires_grad_(), mix.requires_grad_())
    unit, asked = kriging.typical(keys(part.rows.x).detach(), generator), part.asked()

    def step() -> None:
        query = torch.randint(n, (size,), generator=generator)
        kriging.step_error(part, keys, query, 1.0).backward()

    def timed(call: Callable[[], object]) -> float:
        call()
        before, calls = clock(), 0
        while calls < MOST_CALLS and clock() - before < ENOUGH:
            call()
            calls += 1
        return (clock() - before) / max(calls, 1)

    looked = timed(lambda: kriging.Asked.of(asked, keys, kriging.NEAR).predict(unit, 1.0))
    near = kriging.Asked.of(asked, keys, neighbours)
    chosen = timed(lambda: near.predict(unit, 1.0))
    tried = len(kriging.LENGTHS) * len(kriging.NUGGETS) + 1 + len(part.held.x) / max(len(asked.held.x), 1)
    return steps * timed(step) + (kriging.LOOKS + len(kriging.STARTS)) * looked + tried * chosen
