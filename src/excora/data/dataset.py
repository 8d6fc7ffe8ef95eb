"""Samples on their way from a source to a model: the data set, what is known of its kind, the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import InputError
from excora.ragged import Ragged

Index = NDArray[np.intp]
#: What feeds a model, by name: the first axis of each is the samples.
Inputs = dict[str, Tensor | Ragged]


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a network reads and how much it predicts; each kind of samples has its own, with what it needs to know."""

    kind: ClassVar[str]
    targets: int

    @property
    def summary(self) -> int:
        """Columns of :meth:`summarise`; 0: samples of this kind have none."""
        return 0

    def summarise(self, inputs: Inputs) -> Tensor:  # noqa: ARG002
        """A row of plain numbers a sample, (n, summary), finite: what a linear model reads of a batch."""
        raise InputError(f"samples of the kind {self.kind!r} have no summary that a linear model could read")


class Content(Protocol):
    """The samples themselves, without labels and roles: a table, bags, or what another source reads."""

    kind: ClassVar[str]  #: the name of the source that reads, checks and prepares it

    def __len__(self) -> int: ...

    def take(self, index: Index) -> Content:
        """The samples of ``index``, in that order; one may come twice."""
        ...

    def mark(self, found: Any) -> None:
        """Enter what tells these samples from others into a hash (``found.update(bytes)``)."""
        ...


@dataclass(frozen=True)
class Dataset:
    """Samples as the user has them: nothing is scaled, imputed or split yet."""

    ids: NDArray[np.object_]  #: (n,) a name for each sample: bag id, or the row number as text
    targets: tuple[str, ...]  #: names of the targets
    target: NDArray[np.float64] | None = None  #: (n, targets), NaN where unknown; None for data to predict
    content: Content | None = None  #: None: labels and roles alone, which is what a split looks at
    group: NDArray[np.object_] | None = None  #: (n,) as text; a split never cuts a group
    time: NDArray[np.float64] | None = None  #: (n,) what orders the samples in time
    weight: NDArray[np.float64] | None = None  #: (n,) >= 0
    notes: tuple[str, ...] = ()  #: what a reader noticed and the user should know
    part: NDArray[np.object_] | None = None  #: (n,) train, validation or test, where the file itself says so

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def kind(self) -> str:
        """What a sample is: the name of the source of the content."""
        if self.content is None:
            raise InputError("these data have labels and roles, but nothing to predict from")
        return self.content.kind

    def without_target(self) -> Dataset:
        """The same samples with their labels hidden."""
        return replace(self, target=None)

    def take(self, index: Index) -> Dataset:
        """The samples of ``index``, in that order; one may come twice."""

        def some(part: Any) -> Any:
            return None if part is None else part[index]

        return Dataset(
            self.ids[index],
            self.targets,
            some(self.target),
            None if self.content is None else self.content.take(index),
            some(self.group),
            some(self.time),
            some(self.weight),
            self.notes,
            some(self.part),
        )

    def fingerprint(self) -> str:
        """A hash of samples, labels and roles: other data do not pass for the same."""
        found = hashlib.sha256("\0".join(map(str, self.ids)).encode())
        for values in (self.target, self.weight, self.time):
            found.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
        for names in (self.group, *([] if self.part is None else [self.part])):
            found.update(b"-" if names is None else "\0".join(map(str, names)).encode())
        if self.content is not None:
            self.content.mark(found)
        return found.hexdigest()


class Features(Protocol):
    """Prepared features of a data set: what a batch is read from."""

    sizes: Index  #: elements of each sample, for batching by size

    def read(self, index: Index) -> Inputs:
        """The samples of ``index``, in that order."""
        ...


@dataclass(frozen=True)
class Batch:
    """Samples on their way to the model; targets are standardised."""

    inputs: Inputs
    target: Tensor  #: (n, targets) float32, 0 where unknown
    target_mask: Tensor | None  #: (n, targets) bool, True where known; None: all are
    weight: Tensor | None  #: (n,) float32
    index: Tensor  #: (n,) int64, positions in the data set

    def __len__(self) -> int:
        return len(self.index)

    def to(self, *arguments: Any, **keywords: Any) -> Batch:
        """Moved to a device, as ``Tensor.to``; the index stays."""

        def move(x: Any) -> Any:
            return None if x is None else x.to(*arguments, **keywords)

        return Batch(each(self.inputs, move), move(self.target), move(self.target_mask), move(self.weight), self.index)


def each(inputs: Inputs, change: Callable[[Any], Any]) -> Inputs:
    """The inputs, each changed."""
    return {name: change(part) for name, part in inputs.items()}


def none_of(inputs: Inputs) -> Inputs:
    """The inputs without their samples."""
    return each(inputs, lambda x: Ragged(x.values[:0], x.lengths[:0]) if isinstance(x, Ragged) else x[:0])


def in_double(inputs: Inputs) -> Inputs:
    """The inputs with their floating numbers in float64.

    >>> in_double({"x": torch.ones(1), "code": torch.tensor([1])})
    {'x': tensor([1.], dtype=torch.float64), 'code': tensor([1])}
    """

    def widen(x: Tensor | Ragged) -> Tensor | Ragged:
        values = x.values if isinstance(x, Ragged) else x
        return x.to(torch.float64) if values.is_floating_point() else x

    return each(inputs, widen)
