"""A source from outside the package: the lines of a text file, to be predicted from how often each letter occurs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch

from excora.data import sources
from excora.data.dataset import Dataset, Spec
from excora.data.source import Prepared, Source


@dataclass(frozen=True, kw_only=True)
class LineSpec(Spec):
    kind: ClassVar[str] = "lines"
    width: int


@dataclass(frozen=True)
class Lines:
    kind: ClassVar[str] = "lines"
    lines: tuple[str, ...]

    def __len__(self):
        return len(self.lines)

    def take(self, index):
        return Lines(tuple(self.lines[k] for k in index))

    def mark(self, found):
        found.update("\n".join(self.lines).encode())


class Counts:
    def __init__(self, counts):
        self.counts, self.sizes = counts, np.ones(len(counts), np.intp)

    def read(self, index):
        return {"counts": torch.from_numpy(self.counts[index].astype(np.float32))}


@dataclass(frozen=True)
class PreparedLines(Prepared):
    letters: str

    def spec(self, targets):
        return LineSpec(targets=targets, width=len(self.letters))

    def matrix(self, dataset):
        return np.array([[line.count(letter) for letter in self.letters] for line in dataset.content.lines], float)

    def features(self, dataset):
        return Counts(self.matrix(dataset))

    @property
    def matrix_names(self):
        return tuple(self.letters)

    def to_dict(self):
        return asdict(self)


class LineSource(Source):
    """``3.5<tab>some words``; a file of data to predict has the words alone."""

    kind = "lines"
    says = "a text file that starts with # lines"
    sample = "line"
    roles = ("target",)

    def claims(self, path, roles):  # noqa: ARG002
        return path.is_file() and path.read_bytes()[:7] == b"# lines"

    def read(self, path, roles, *, labelled, problems):  # noqa: ARG002
        rows = [line.rpartition("\t") for line in path.read_text().splitlines()[1:]]
        target = np.array([[float(label or "nan")] for label, _, _ in rows]) if labelled else None
        ids = np.array([str(k) for k in range(len(rows))], object)
        return Dataset(ids, roles.target or ("y",), target, Lines(tuple(words for _, _, words in rows)))

    def prepare(self, dataset, index):
        return PreparedLines("".join(sorted(set("".join(dataset.content.take(index).lines)))))

    def load(self, values):
        return PreparedLines(str(values["letters"]))


def register() -> None:
    """As an entry point of the group ``excora.sources`` would."""
    sources.register(LineSource.kind, LineSource())
