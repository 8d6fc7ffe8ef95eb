"""Everything that can be checked before training, and a summary of what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.reading import gather
from excora.data.roles import Roles, note_all
from excora.data.splits import split
from excora.errors import DataError, InputError

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a data set holds; ``print`` it, or hand it to a rich console."""

    path: str
    kind: str  #: table or bags
    samples: int
    targets: dict[str, dict[str, float]]  #: mean, std, min, max of each
    features: dict[str, int]  #: counts by kind: numbers, categories, dates; or features of an element
    elements: dict[str, float] | None  #: of a bag: min, median, max, total
    groups: int | None
    split: dict[str, int]  #: samples of each part
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """Name and value of each line of the summary."""
        found = [("data", self.path), ("samples", f"{self.samples:,} {'rows' if self.kind == 'table' else 'bags'}")]
        for name, figures in self.targets.items():
            found.append((f"target {name}", ", ".join(f"{what} {value:.4g}" for what, value in figures.items())))
        found.append(("features", ", ".join(f"{count} {what}" for what, count in self.features.items() if count)))
        if self.elements:
            found.append(("elements a bag", ", ".join(f"{what} {value:,.0f}" for what, value in self.elements.items())))
        if self.groups is not None:
            found.append(("groups", f"{self.groups:,}"))
        found.append(("split", ", ".join(f"{part} {count:,}" for part, count in self.split.items())))
        return found + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.lines())
        return "\n".join(f"{name:<{width}}  {value}" for name, value in self.lines())

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in self.lines():
            # Names of columns and files may hold square brackets, which rich would take for markup.
            table.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
        return table


def validate(
    path: str | Path,
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
    excora.errors.DataError: ...a.csv: the target 'y' must be a finite number, got an empty cell in row 3...
    """
    problems: list[str] = []
    dataset = gather(path, Roles.of(**roles), True, problems)
    if dataset is not None:
        _read_all(dataset, problems, progress)
        summary = _summarise(Path(path), dataset, problems, validation, test, seed)
    if problems or dataset is None or summary is None:
        raise DataError(problems)
    return summary


def _read_all(dataset: Dataset, problems: list[str], progress: Callable[[int, int], None] | None) -> None:
    if dataset.bags is None:
        return
    wrong = []
    for place in range(len(dataset)):
        try:
            dataset.bags.read(place)
        except InputError as error:
            wrong.append(str(error))
        if progress is not None:
            progress(place + 1, len(dataset))
    note_all(problems, wrong, "bags with such problems")


def _summarise(
    path: Path, dataset: Dataset, problems: list[str], validation: float, test: float, seed: int
) -> Summary | None:
    """The summary of sound data; what the split or the preparation runs into is one more problem."""
    try:
        parts = split(dataset, validation=validation, test=test, seed=seed)
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
        path=str(path),
        kind=dataset.kind,
        samples=len(dataset),
        targets={
            name: {"mean": float(y.mean()), "std": float(y.std()), "min": float(y.min()), "max": float(y.max())}
            for name, y in zip(dataset.targets, dataset.target.T, strict=True)
        },
        features=_features(dataset, prepared),
        elements=_elements(dataset),
        groups=None if dataset.group is None else len(set(dataset.group)),
        split={part: len(index) for part, index in parts._asdict().items()},
        notes=(*dataset.notes, *prepared.notes),
    )


def _features(dataset: Dataset, prepared: Preparation) -> dict[str, int]:
    if dataset.bags is not None:
        return {"numbers an element": dataset.bags.width}
    kinds = [column.kind for column in prepared.columns]
    return {"numeric": kinds.count("number"), "categorical": kinds.count("category"), "dates": kinds.count("date")}


def _elements(dataset: Dataset) -> dict[str, float] | None:
    if dataset.bags is None:
        return None
    sizes = dataset.bags.lengths
    return {
        "min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max()), "total": int(sizes.sum()),
    }  # fmt: skip
