"""A small labelled data set of every kind of samples, for the tests of training and the contracts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.modalities import Frames, ModalitySet
from excora.data.spatial import Slide, SpatialSet
from excora.data.spatial.genes import Expression
from excora.data.spatial.pictures import ArrayPicture
from excora.data.spatial.vectors import Vectors
from excora.data.table import Table


def _dataset(kind: str, target: np.ndarray, content: BagSet | ModalitySet | SpatialSet | Table) -> Dataset:
    ids = np.array([f"{kind} {k}" for k in range(len(target))], object)
    return Dataset(ids, tuple(f"y{k}" for k in range(target.shape[1])), target.astype(np.float64), content)


def bags(samples: int = 70, *, targets: int = 1, seed: int = 0) -> Dataset:
    """Bags of 1 to 8 elements of 3 features; a label is the largest of a feature."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 9, samples)
    values = generator.normal(size=(lengths.sum(), 3)).astype(np.float32)
    ends = np.cumsum(lengths)
    label = np.array([values[end - n : end].max(0)[:targets] for n, end in zip(lengths, ends, strict=True)])
    return _dataset("bag", label, BagSet(ArrayBags(values, lengths)))


def table(samples: int = 70, *, targets: int = 1, seed: int = 0) -> Dataset:
    """Rows of three numbers, one of them with gaps, and a category."""
    generator = np.random.default_rng(seed)
    x, colour = generator.normal(size=(samples, 3)), generator.choice(["red", "green", "blue"], samples)
    frame = pd.DataFrame(x, columns=list("abc")).assign(colour=colour)
    label = x[:, 0] + np.sin(x[:, 1]) + (colour == "red") + 0.1 * generator.normal(size=samples)
    frame.loc[::8, "b"] = np.nan
    return _dataset("row", np.stack([label, 10 * label + x[:, 2], -x[:, 0]], 1)[:, :targets], Table(frame))


def spatial(samples: int = 70, *, targets: int = 1, seed: int = 0) -> Dataset:
    """Spots of four slides: vectors of 6 numbers, in parts of four too, and a picture; a label is the first of them."""
    generator = np.random.default_rng(seed)
    slides, labels = [], []
    for number, here in enumerate(np.array_split(np.arange(samples), 4)):
        n = len(here)
        coords = np.array([[8.0 + 12 * (k % 5), 8.0 + 12 * (k // 5)] for k in range(n)])
        signal = generator.normal(size=(n, 3))
        vectors = np.concatenate([signal, generator.normal(size=(n, 3))], 1).astype(np.float32)
        grid = vectors[:, None] + generator.normal(0, 0.3, (n, 4, 6)).astype(np.float32)
        pixels = generator.integers(0, 255, (72, 72, 3)).astype(np.uint8)
        label = (signal[:, :targets] + 0.1 * generator.normal(size=(n, targets)) + 10) / 3
        names = np.array([f"{number}-{k}" for k in range(n)], object)
        slides.append(
            Slide(
                f"slide {number}",
                names,
                coords,
                tuple(f"y{k}" for k in range(targets)),
                csr_matrix(label),
                picture=ArrayPicture(pixels),
                vectors=Vectors(vectors, np.arange(n), np.arange(n + 1), grid),
                normalised=True,
            )
        )
        labels.append(label)
    slide_of = np.repeat(np.arange(4), [len(slide) for slide in slides])
    spot_of = np.concatenate([np.arange(len(slide)) for slide in slides])
    order = np.random.default_rng(seed).permutation(samples)  # the contracts cut parts by position
    content = SpatialSet(tuple(slides), slide_of[order], spot_of[order], expression=Expression(slides[0].genes))
    return _dataset("spot", np.concatenate(labels)[order], content)


def modalities(samples: int = 70, *, targets: int = 1, seed: int = 0) -> Dataset:
    """Clips of 1 to 5 words, 1 to 7 sounds and 1 to 9 frames; a label is a mean over the words and a sound."""
    generator = np.random.default_rng(seed)
    frames, label = {}, np.zeros((samples, 3))
    for name, width, longest in (("text", 6, 5), ("audio", 3, 7), ("vision", 4, 9)):
        lengths = generator.integers(1, longest + 1, samples)
        values = generator.normal(size=(lengths.sum(), width)).astype(np.float32)
        starts = np.cumsum(lengths) - lengths
        label += np.add.reduceat(values, starts)[:, :3] / lengths[:, None]
        frames[name] = Frames(ArrayBags(values, lengths), longest, "right")
    words = np.array([f"clip {k} says so" for k in range(samples)], object)
    return _dataset("clip", label[:, :targets], ModalitySet(frames, words))


#: By kind. A source that brings a new kind of samples brings a small data set here.
KINDS = {"bags": bags, "modalities": modalities, "spatial": spatial, "table": table}
