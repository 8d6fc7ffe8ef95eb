"""The slides of the study ``spatial``: what a fold trains on, and its spots as every arm reads them."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data import sources
from excora.data.dataset import Dataset, Inputs
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.roles import Roles
from excora.data.spatial import SpatialSpec
from excora.data.spatial.extraction import cache_folder, extract
from excora.data.spatial.layouts import read_slides
from excora.data.splits import Split
from excora.encodings.images import image_encoder
from excora.errors import InputError
from excora.stats.correlation import Array

Index = NDArray[np.intp]
SETS = ("her2st", "visium")
#: The section that picks settings, by the one that is tested.
VALIDATION = {"B4": "C2", "C2": "C3", "C3": "C4", "C4": "C5", "C5": "C6", "C6": "C2"}
#: Parts that the blocks of the single Visium slide are dealt to.
BLOCKS = 4
#: Side of the blocks of tissue that are resampled whole, in pitches: spots next to each other are alike.
UNIT = 4.0
#: Pixels along a side that the encoder sees of a Visium spot: the picture at hand has fewer.
SIDE = 64
#: Vectors that principal directions are taken from, at most; of more, every so-manieth.
MOST = 4000


class Held:
    """Spots in memory: what a training reads again and again."""

    def __init__(self, inputs: dict[str, torch.Tensor]) -> None:
        self.inputs = inputs
        self.sizes: Index = np.full(len(inputs["position"]), inputs["elements"].shape[1], np.intp)

    def read(self, index: Index) -> Inputs:
        """The spots of ``index``."""
        rows = torch.from_numpy(np.asarray(index, np.int64))
        return {name: x[rows] for name, x in self.inputs.items()}

    def with_(self, **more: torch.Tensor) -> Held:
        """The same spots with further inputs."""
        return Held({**self.inputs, **more})


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A fold: labels (n, genes) as they are and standardised, parts, and what arms read."""

    target: Array
    scaled: NDArray[np.float32]
    preparation: Preparation
    parts: Split
    spec: SpatialSpec
    features: Held  #: elements and own vectors by their principal components
    own: Array  #: (n, d) standardised vectors in full
    around: Array  #: (n, d) the mean of the neighbours'
    group: NDArray[Any]  #: (n,) sections, or blocks of the one slide
    unit: Index  #: (n,)

    def rows(self, *, final: bool) -> Index:
        """What is learned from: the training part, or, once settings are known, the validation part too."""
        return np.concatenate([self.parts.train, self.parts.validation]) if final else self.parts.train


class Fold(NamedTuple):
    """A set and which part of it is tested."""

    set: str
    name: str


def find_folder(data: Path | None) -> Path:
    """The folder that has her2st/ and visium/: ``data``, else EXCORA_DATA."""
    root = data or (Path(os.environ["EXCORA_DATA"]) if os.environ.get("EXCORA_DATA") else None)
    if root is None or not there(root, "her2st"):
        raise InputError(
            "this study reads her2st/ (ST-cnts, ST-spotfiles and features, an .h5 a section: `excora features` makes "
            f"them of the images) in the folder of --data or EXCORA_DATA, got {root}"
        )
    return root


def there(folder: Path, name: str) -> bool:
    """Whether the folder has this set."""
    return (folder / name / ("features" if name == "her2st" else "mousebrain")).is_dir()


@functools.cache
def slides(data: Path, name: str) -> Dataset:
    """A set in the folder of all."""
    if name == "her2st":
        return read(data / "her2st", features=str(data / "her2st" / "features"), genes="250")
    folder, kept = data / "visium" / "mousebrain", cache_folder() / "studies" / f"visium-{SIDE}"
    problems: list[str] = []
    for slide in read_slides([folder], Roles.of(), problems, vectors=False):
        extract(slide, image_encoder(side=SIDE), kept / f"{slide.name}.h5")
    return read(folder, features=str(kept), genes="250")


def folds(data: Path, name: str) -> list[str]:
    """What is tested in turn."""
    if name == "visium":
        return [f"part {k}" for k in range(BLOCKS)]
    names = {slide.name for slide in slides(data, name).content.slides}  # type: ignore[union-attr]
    return [one for one in VALIDATION if one in names]


def parts_of(dataset: Dataset, fold: Fold) -> Split:
    """Sections: one tested, another for validation. Blocks of the one slide: every fourth each, with a margin."""
    content: Any = dataset.content
    if fold.set == "her2st":
        held = content.slide_names
        test, validation = fold.name, VALIDATION[fold.name]
        parts = [held == test, held == validation]
    else:
        assert dataset.group is not None
        dealt = np.unique(dataset.group, return_inverse=True)[1] % BLOCKS
        number = int(fold.name.removeprefix("part "))
        parts = [dealt == number, dealt == (number + 1) % BLOCKS]
    train = ~parts[0] & ~parts[1]
    found = Split(*(np.flatnonzero(part) for part in (train, parts[1], parts[0])))
    return sources["spatial"].apart(dataset, found)


def prepare(dataset: Dataset, fold: Fold, *, neighbours: int, components: int) -> Task:
    """Genes, scales and components from the training part alone."""
    parts = parts_of(dataset, fold)
    data = sources["spatial"].targeted(dataset, parts.train)
    assert data.target is not None
    known = Preparation.fit(data, parts.train, elements="grid", neighbours=neighbours, feature=True)
    features, content = known.features(data), data.content
    inputs: Any = features.read(np.arange(len(data)))
    means = known.spec.summarise(inputs).double().numpy()
    width = inputs["feature"].shape[1]
    kept = {name: inputs[name] for name in ("places", "own", "position", "slide")}
    for name in ("elements", "feature"):
        kept[name] = reduced(inputs[name], inputs[name][parts.train], components)
    spec: Any = dataclasses.replace(cast(Any, known.spec), width=kept["feature"].shape[1])
    group: Any = content.slide_names if fold.set == "her2st" else data.group  # type: ignore[union-attr]
    unit = _units(inputs["position"].numpy(), np.unique(group, return_inverse=True)[1])
    return Task(
        data.target, known.scale(data.target), known, parts, spec, Held(kept),
        means[:, :width], means[:, width:], group, unit,
    )  # fmt: skip


def reduced(x: torch.Tensor, train: torch.Tensor, components: int) -> torch.Tensor:
    """(x - mean) V, V the principal directions of the training vectors, in units of the first one's deviation."""
    flat = train.reshape(-1, train.shape[-1])
    flat = flat[:: -(-len(flat) // MOST)].double()
    centred = flat - flat.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(flat))
    some = vectors.flip(1)[:, :components]
    scale = values[-1].clamp_min(1e-12).sqrt() / 4  # the first few channels are then of a size that a network reads
    return ((x - flat.mean(0).to(x.dtype)) @ (some / scale).to(x.dtype)).contiguous()


def _units(position: NDArray[np.float32], group: Index) -> Index:
    """Squares of tissue of :data:`UNIT` pitches, by section."""
    square = np.floor(position / UNIT).astype(np.int64)
    return np.unique(np.column_stack([group, square]), axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
