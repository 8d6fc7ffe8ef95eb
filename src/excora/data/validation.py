"""Everything that can be checked before training, and a summary of what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.console import aligned, table
from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.doubts import doubts
from excora.data.preparation import Preparation
from excora.data.reading import Paths, gather, shown
from excora.data.roles import Roles
from excora.data.source import Fact
from excora.data.splits import split
from excora.errors import DataError, InputError

#: Targets that a summary has a line for.
SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a data set holds; ``print`` it, or hand it to a rich console."""

    path: str
    kind: str  #: the source
    samples: int
    targets: dict[str, dict[str, float]]  #: mean, std, min, max of each, and how many labels are known and unknown
    content: tuple[Fact, ...]  #: what the source says of its samples
    groups: int | None
    split: dict[str, int]  #: samples of each part
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {fact.name: dict(fact.figures) for fact in self.content} | {
            name: value for name, value in asdict(self).items() if name != "content"
        }

    def lines(self) -> list[tuple[str, str]]:
        """Name and value of each line of the summary."""
        found = [("data", self.path), ("samples", f"{self.samples:,} {sources[self.kind].sample}s")]
        for name, figures in list(self.targets.items())[:SHOWN]:
            text = ", ".join(f"{what} {figures[what]:.4g}" for what in ("mean", "std", "min", "max"))
            unknown = f", unknown in {figures['unknown']:,}" if figures["unknown"] else ""
            found.append((f"target {name}", text + unknown))
        if len(self.targets) > SHOWN:
            found.append(("targets", f"{len(self.targets) - SHOWN:,} more"))
        found += [(fact.name, fact.text) for fact in self.content]
        if self.groups is not None:
            found.append(("groups", f"{self.groups:,}"))
        found.append(("split", ", ".join(f"{part} {count:,}" for part, count in self.split.items())))
        return found + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(aligned(self.lines()))

    def __rich__(self) -> Any:
        from rich.text import Text

        return table([(Text(name, style="dim"), Text(value, overflow="fold")) for name, value in self.lines()])


def validate(
    path: Paths,
    *,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **roles: Any,
) -> Summary:
    """Check data as :func:`excora.data.reading.read` does, the split, and every element of every bag.

    ``progress(done, total)`` is called as bags are read. All problems come at once, as a :class:`DataError`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("x,y\\n1,2\\ninf,\\n")
    >>> validate(path, target="y")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    excora.errors.DataError: ...a.csv: the target 'y' must be known in at least 2 rows, got 1 of 2...
    """
    problems: list[str] = []
    dataset = gather(path, Roles.of(**roles), True, problems)
    if dataset is not None:
        sources[dataset.kind].check(dataset, problems, progress)
        summary = _summarise(shown(path), dataset, problems, validation, test, seed)
    if problems or dataset is None or summary is None:
        raise DataError(problems)
    return summary


def _summarise(
    path: str, dataset: Dataset, problems: list[str], validation: float, test: float, seed: int
) -> Summary | None:
    """The summary of sound data; what the split or the preparation runs into is one more problem."""
    try:
        source = sources[dataset.kind]
        parts = source.apart(dataset, split(dataset, validation=validation, test=test, seed=seed))
        dataset = source.targeted(dataset, parts.train)
    except InputError as error:
        problems.append(f"{path}: {error}")
    if problems:
        return None
    try:
        prepared = Preparation.fit(dataset, parts.train)
    except DataError as error:
        problems += [f"{path}: {problem}" for problem in error.problems]
        return None
    except InputError as error:
        problems.append(f"{path}: {error}")
        return None
    assert dataset.target is not None
    return Summary(
        path=path,
        kind=dataset.kind,
        samples=len(dataset),
        targets={name: _figures(y) for name, y in zip(dataset.targets, dataset.target.T, strict=True)},
        content=tuple(sources[dataset.kind].describe(dataset, prepared.content)),
        groups=None if dataset.group is None else len(set(dataset.group)),
        split={part: len(index) for part, index in parts._asdict().items()},
        notes=(*dataset.notes, *prepared.notes, *doubts(dataset, parts, source.plain(dataset, prepared.content))),
    )


def _figures(labels: NDArray[np.float64]) -> dict[str, float]:
    known = labels[~np.isnan(labels)]
    return {
        "mean": float(known.mean()), "std": float(known.std()), "min": float(known.min()), "max": float(known.max()),
        "known": len(known), "unknown": len(labels) - len(known),
    }  # fmt: skip
