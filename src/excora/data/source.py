"""The door of the sources: what one has to give, so that its samples can be read, checked, prepared and predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Features, Index, Spec
from excora.data.roles import Roles
from excora.data.splits import Split
from excora.errors import InputError

#: ``progress(done, total)``, called as samples are read.
Progress = Callable[[int, int], None]


class Examination(NamedTuple):
    """How data differ from those of training."""

    unseen: dict[str, int]  #: column: cells whose category training has not seen, or among its rarest
    outside: NDArray[np.int64]  #: (n,) inputs far outside the training range
    notes: tuple[str, ...]  #: the same in words, and columns that are ignored


class Fact(NamedTuple):
    """A line of the summary of a data set."""

    name: str
    text: str
    figures: Mapping[str, float]  #: the same for JSON


class Plain(NamedTuple):
    """Samples as plain columns, one row each: what :mod:`excora.data.doubts` looks at."""

    numbers: NDArray[np.float64]  #: (n, p), NaN where missing
    names: tuple[str | None, ...]  #: of the numbers; None: it may follow the label as it likes
    codes: NDArray[np.int64]  #: (n, k), of categories
    categories: tuple[str, ...]  #: names of those columns
    noun: str = "column"  #: what a number is; "column": ``--drop`` knows it


class Prepared(ABC):
    """What a source has learned from a training part; immutable, and equal to another of equal values.

    Whatever a method is given is a data set of the same kind, which may be another one than that of training: what
    does not fit is an InputError, or a DataError with a line for each column.
    """

    @abstractmethod
    def spec(self, targets: int) -> Spec:
        """What a network that predicts this many targets has to read."""

    @abstractmethod
    def features(self, dataset: Dataset) -> Features:
        """What batches are read from."""

    @abstractmethod
    def matrix(self, dataset: Dataset) -> NDArray[np.float64]:
        """One row of plain numbers a sample, (n, p), no NaN: for models that read nothing else."""

    @property
    @abstractmethod
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`matrix`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; :meth:`Source.load` reads them."""

    def examine(self, dataset: Dataset, index: Index) -> Examination:  # noqa: ARG002
        """What training has not prepared for, in the samples of ``index``; nothing, unless a source knows better."""
        return Examination({}, np.zeros(len(index), np.int64), ())

    def known_labels(self, dataset: Dataset) -> NDArray[np.float64] | None:
        """The labels of data to predict, (n, targets), where they have them: for sources that choose their targets."""
        return dataset.target

    @property
    def element_names(self) -> list[str] | None:
        """Names of what a model weighs in a sample; None if they have none but their number."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of it."""
        return ()


class Source(ABC):
    """One kind of samples. ``excora.data.sources.register(kind, source)`` opens the door to it."""

    kind: ClassVar[str]  #: the name in the registry, and the ``kind`` of the content and of the spec
    says: ClassVar[str]  #: what it reads, in a line, for help and for the message about a file that nobody reads
    sample: ClassVar[str]  #: what one sample is called: "row", "bag"
    #: Names of the roles it knows; another one that is given is a problem.
    roles: ClassVar[tuple[str, ...]] = tuple(role.name for role in Roles.fields())
    #: It claims by the name of a path alone, and is asked only when no source claims it that looks inside.
    by_name: ClassVar[bool] = False

    @abstractmethod
    def claims(self, path: Path, roles: Roles) -> bool:
        """Whether this source reads the file or folder; quick, and never an error."""

    @abstractmethod
    def read(self, path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
        """The samples; what is wrong is noted in ``problems``, a line each, or raised as an InputError.

        With ``labelled`` False, data to predict, no column of a role need be there, and a column that training may not
        have had is no problem. A source that reads several paths at once takes ``more`` of them. None where nothing can
        be built. A sample without any label may be among them.
        """

    def targeted(self, dataset: Dataset, train: Index | None) -> Dataset:  # noqa: ARG002
        """The data set with its targets, for a source that chooses them by the training samples (None: by all)."""
        return dataset

    def apart(self, dataset: Dataset, parts: Split) -> Split:  # noqa: ARG002
        """The parts without samples that would give away another part's, such as overlapping windows of a slide."""
        return parts

    @abstractmethod
    def prepare(self, dataset: Dataset, index: Index) -> Prepared:
        """Learn from the samples of ``index`` alone; a source's choices are keywords with defaults."""

    @abstractmethod
    def load(self, values: dict[str, Any]) -> Prepared:
        """What :meth:`Prepared.to_dict` gave, also after a way through JSON.

        Anything else is a KeyError, TypeError, ValueError or AttributeError.
        """

    def write(
        self,
        path: Path,
        dataset: Dataset,  # noqa: ARG002
        targets: tuple[str, ...],  # noqa: ARG002
        layers: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        """Predictions of these samples in a format of the source's own, each of ``layers`` (n, targets)."""
        raise InputError(f"{path}: predictions are written as .csv or .parquet, got {path.suffix or 'no ending'!r}")

    def check(self, dataset: Dataset, problems: list[str], progress: Progress | None = None) -> None:  # noqa: B027
        """What :meth:`read` had no time for, such as every number of every file: ``excora validate`` asks for it."""

    def plain(self, dataset: Dataset, prepared: Prepared) -> Plain | None:  # noqa: ARG002
        """What gives the label away, or comes twice, is looked for in this; None: in nothing."""
        return None

    def scores(self, target: str, prediction: NDArray[np.float64], label: NDArray[np.float64]) -> dict[str, float]:  # noqa: ARG002
        """By name, what its field is judged by beside PCC, MSE and MAE; (n,) each, NaN for an unknown label."""
        return {}

    def describe(self, dataset: Dataset, prepared: Prepared) -> list[Fact]:  # noqa: ARG002
        """Its lines of the summary."""
        return []
