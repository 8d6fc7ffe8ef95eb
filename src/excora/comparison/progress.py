"""How far a comparison is and how long it will take: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Job = tuple[int, int, str]
"""Seed, fold, model."""


class Clock:
    """Time left, from what each model has taken so far: models differ in speed by far more than folds."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = list(jobs)
        self.total = len(jobs)
        self.taken: dict[str, list[float]] = {}

    def finish(self, job: Job, seconds: float | None) -> None:
        """A job is done; None if it had been done before."""
        self.waiting.remove(job)
        if seconds is not None:
            self.taken.setdefault(job[2], []).append(seconds)

    @property
    def done(self) -> int:
        """Jobs that are behind us."""
        return self.total - len(self.waiting)

    @property
    def left(self) -> float | None:
        """Seconds; a model that has not run yet is taken to need what the others need on average. None: no idea yet.

        >>> clock = Clock([(0, 0, "a"), (0, 0, "b"), (0, 1, "a"), (0, 1, "b")])
        >>> clock.finish((0, 0, "a"), 2.0)
        >>> clock.finish((0, 0, "b"), 10.0)
        >>> clock.left
        12.0
        """
        if not self.taken:
            return None
        means = {model: statistics.fmean(values) for model, values in self.taken.items()}
        other = statistics.fmean(means.values())
        return sum(means.get(model, other) for _, _, model in self.waiting)


def words(seconds: float | None) -> str:
    """Time left for people.

    >>> words(None), words(42), words(130), words(8000)
    ('', 'about 42 s left', 'about 2 min left', 'about 2.2 h left')
    """
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {seconds:.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.1f} h left"


Finish = Callable[[Job, float | None], None]


@contextlib.contextmanager
def watch(jobs: Sequence[Job], console: Any) -> Iterator[Finish]:
    """Gives what to call after each job; a ``console`` of None shows nothing."""
    clock = Clock(jobs)
    if console is None:
        yield clock.finish
    elif console.is_terminal:
        with _bar(clock, console) as finish:
            yield finish
    else:
        yield lambda job, seconds: _line(clock, console, job, seconds)


@contextlib.contextmanager
def _bar(clock: Clock, console: Any) -> Iterator[Finish]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=clock.total)

        def finish(job: Job, seconds: float | None) -> None:
            clock.finish(job, seconds)
            progress.update(task, completed=clock.done, description=words(clock.left))

        yield finish


def _line(clock: Clock, console: Any, job: Job, seconds: float | None) -> None:
    """A line when all models of a fold are done."""
    clock.finish(job, seconds)
    seed, fold, _ = job
    if any(other[:2] == (seed, fold) for other in clock.waiting):
        return
    left = words(clock.left) if clock.waiting else "done"
    text = f"seed {seed}, fold {fold}: {clock.done} of {clock.total} runs{', ' if left else ''}{left}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)
