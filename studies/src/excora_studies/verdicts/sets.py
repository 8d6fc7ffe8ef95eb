"""Real samples as bags: their shape, how they are made from tables and bags, and their three parts.

Every set is a bag of elements: of a table the columns, each with an embedding of its own, of the others what they are
made of (chemical elements, word pieces, image patches). ``summary`` is what a simple model is given: the columns, or
mean, spread and number of the elements.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError

Floats = NDArray[np.float64]
Codes = NDArray[np.int_]
ROWS = 480  #: at most
WIDTH = 24  #: of an element, by principal components


class Samples(NamedTuple):
    """Samples of one set: elements (n, k, width) with their mask (n, k), or columns (n, p); labels (n,)."""

    elements: Floats
    mask: NDArray[np.bool_] | None  #: None of a table
    target: Floats

    @property
    def summary(self) -> Floats:
        """(n, s): what a simple model is given."""
        if self.mask is None:
            return self.elements
        count = self.mask.sum(1, keepdims=True)
        real = np.where(self.mask[..., None], self.elements, 0.0)
        mean = real.sum(1) / count
        spread = np.sqrt((np.where(self.mask[..., None], self.elements - mean[:, None], 0.0) ** 2).sum(1) / count)
        return np.concatenate([mean, spread, np.log(count)], 1)

    def without_informative_half(self, rows: NDArray[np.intp]) -> Samples:
        """The same without the half of its features that correlate best with the label on ``rows``."""
        seen = self.elements if self.mask is None else self.summary[:, : self.elements.shape[-1]]
        x, y = seen[rows] - seen[rows].mean(0), self.target[rows] - self.target[rows].mean()
        strength = np.abs(x.T @ y) / np.maximum(np.sqrt((x**2).sum(0)), 1e-12)
        kept = np.sort(np.argsort(strength, kind="stable")[: len(strength) - len(strength) // 2])
        return self._replace(elements=self.elements[..., kept])

    def standardised(self) -> Samples:
        """At most :data:`ROWS` samples, drawn once and for all, standardised."""
        keep = np.random.default_rng(0).permutation(len(self.target))[:ROWS]
        elements, target = self.elements[keep], self.target[keep]
        mask = None if self.mask is None else self.mask[keep]
        flat = elements if mask is None else elements[mask]
        scale = np.maximum(flat.std(0), 1e-9)
        elements = np.clip((elements - flat.mean(0)) / scale, -6, 6)
        if mask is not None:
            elements[~mask] = 0.0
        return Samples(elements, mask, (target - target.mean()) / target.std())


def split(n: int, seed: int) -> tuple[NDArray[np.intp], ...]:
    """Training, validation and test part: 50, 25 and 25 %."""
    order = np.random.default_rng(100 + seed).permutation(n)
    return tuple(np.split(order, [n // 2, n // 2 + n // 4]))


def as_table(numbers: Floats, words: Codes, target: Floats) -> Samples:
    """Numbers (n, p), NaN their mean, and codes of categories (n, q), each a column a category."""
    columns = [np.where(np.isnan(numbers), np.nanmean(numbers, 0), numbers)]
    columns += [(words[:, [k]] == np.unique(words[:, k])).astype(float)[:, :12] for k in range(words.shape[1])]
    x = np.concatenate(columns, 1)
    return Samples(x[:, x.std(0) > 0], None, target)


def as_bags(bags: list[Floats], target: Floats) -> Samples:
    """Bags of elements, in their first :data:`WIDTH` principal components."""
    keep = np.random.default_rng(1).permutation(len(bags))[:ROWS]
    bags, y = [bags[k] for k in keep], target[keep]
    flat = np.concatenate(bags)
    mean = flat.mean(0)
    directions = np.linalg.svd((flat - mean)[:: max(len(flat) // 4000, 1)], full_matrices=False)[2][:WIDTH]
    lengths = np.array([len(bag) for bag in bags])
    mask = np.arange(lengths.max()) < lengths[:, None]
    elements = np.zeros((*mask.shape, len(directions)))
    elements[mask] = (flat - mean) @ directions.T
    return Samples(elements, mask, y)


def folder_of(data: Path | None, *files: str) -> Path:
    """The folder that has these files: ``data``, else EXCORA_DATA."""
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    if root is None or not all((root / file).exists() for file in files):
        raise InputError(f"this study reads {', '.join(files)}: give their folder with --data or in EXCORA_DATA")
    return root
