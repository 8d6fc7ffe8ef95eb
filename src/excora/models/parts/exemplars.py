"""Exemplars of a spot: the training spots of other slides whose vectors are nearest, and what is measured there."""

from __future__ import annotations

import contextlib
import hashlib
import io
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from excora.data.dataset import Features, Index, Inputs
from excora.data.hdf5 import complaints
from excora.data.spatial.extraction import cache_folder
from excora.errors import InputError
from excora.models.base import Samples
from excora.models.parts.company import Company
from excora.models.parts.neighbours import Search
from excora.storage import write_atomically

#: Spots whose vectors are read at once.
PIECE = 1024
#: Targets from which on labels are compared by their correlation.
MANY = 20
#: Spots whose candidates say how far apart vectors are.
SOME = 256


class ExemplarFeatures:
    """Prepared spots with their exemplars: ``found`` (n, k) places in the bank, ``allowed`` (n, k) which there are."""

    def __init__(self, features: Features, bank: Exemplars, found: Tensor, allowed: Tensor) -> None:
        self.features, self.found, self.allowed = features, found, allowed
        self.feature, self.target = bank.feature.detach().cpu(), bank.target.detach().cpu()
        self.sizes: Index = features.sizes

    def read(self, index: Index) -> Inputs:
        """The spots of ``index``, with ``exemplar_features``, ``exemplar_targets`` and ``exemplar_mask``."""
        rows = torch.as_tensor(index, dtype=torch.long)
        found, mask = self.found[rows], self.allowed[rows]
        hide = ~mask.unsqueeze(-1)
        return self.features.read(index) | {
            "exemplar_features": self.feature[found].masked_fill(hide, 0.0),
            "exemplar_targets": self.target[found].masked_fill(hide, 0.0),
            "exemplar_mask": mask,
        }

    def positions(self, sample: int, pool: str, elements: int) -> Any:
        """Of what the spots' own features know."""
        known = getattr(self.features, "positions", None)
        return None if known is None else known(sample, pool, elements)


class OtherSlides:
    """Which pairs of a query and a candidate must not meet: those of one slide."""

    def __init__(self, query: Tensor, candidate: Tensor) -> None:
        self.query, self.candidate = query, candidate

    def __call__(self, query: Tensor, candidate: Tensor) -> Tensor:
        """True for pairs that must not, by broadcasting."""
        return self.query[query] == self.candidate[candidate]


class Exemplars(nn.Module):
    """The training spots that others look at: vectors, standardised labels (0 where unknown), keys of slides.

    ``rerank``: how many exemplars are taken by their company (:class:`excora.models.parts.company.Company`) out of
    three times as many nearest ones; 0: the nearest are taken. What it learned (:meth:`learn`) is kept with the bank.

    >>> bank = Exemplars(2, 3, 1)
    >>> {name: tuple(values.shape) for name, values in bank.named_buffers()}
    {'feature': (2, 3), 'target': (2, 1), 'slide': (2,)}
    """

    feature: Tensor
    target: Tensor
    slide: Tensor
    scale: Tensor

    def __init__(self, count: int, width: int, targets: int, *, rerank: int = 0) -> None:
        super().__init__()
        self.register_buffer("feature", torch.zeros(count, width))
        self.register_buffer("target", torch.zeros(count, targets))
        self.register_buffer("slide", torch.zeros(count, dtype=torch.long))
        self.company: Company | None = None
        if rerank:
            self.register_buffer("scale", torch.ones(()))
            with torch.random.fork_rng(devices=[]):  # the rest of a network starts as it does without
                self.company = Company(rerank)

    @torch.no_grad()
    def remember(self, samples: Samples) -> None:
        """The training spots of ``samples``; their features must have been asked for (``feature=True``)."""
        feature, slide = _vectors(samples.features, samples.train)
        for buffer, values in (
            (self.feature, feature), (self.slide, slide),
            (self.target, torch.from_numpy(np.nan_to_num(samples.target[samples.train]))),
        ):  # fmt: skip
            if buffer.shape != values.shape:
                raise InputError(f"exemplars of shape {tuple(buffer.shape)} cannot hold {tuple(values.shape)}")
            buffer.copy_(values)

    @torch.no_grad()
    def learn(self, *, seed: int) -> None:
        """How exemplars with like labels stand among the others, from the spots that it remembers; nothing without it.

        Each training spot has candidates of other slides alone, as new spots have. Vectors are scaled so that the
        median squared distance of a candidate is 2: affinities are exp(-|p_i - p_j|^2). Labels: :func:`compared`.
        """
        if self.company is None:
            return
        bank, slide = self.feature.detach().cpu(), self.slide.detach().cpu()
        _check_slides(slide, slide)
        found, allowed = _cached(bank, slide, bank, slide, self.company.candidates)
        some = torch.linspace(0, len(bank) - 1, min(SOME, len(bank))).long()
        square = torch.cdist(bank[some].unsqueeze(1), bank[found[some]]).squeeze(1).square()[allowed[some]]
        self.scale.fill_((2.0 / square.median().clamp_min(1e-12)).sqrt())
        x, y = bank * self.scale.cpu(), compared(self.target.detach().cpu())
        self.company.learn(x, y, lambda rows: (found[rows], allowed[rows]), seed=seed)

    def look_up(self, features: Features, k: int) -> ExemplarFeatures:
        """The spots with their k nearest exemplars, exactly, by the Euclidean distance of standardised vectors.

        None is of the spot's own slide; a spot with fewer than k has the rest masked. What was found is kept on disk,
        under a hash of all that it depends on. With ``rerank`` the k are the best of more by their company.
        """
        feature, slide = _vectors(features, np.arange(len(features.sizes)))
        bank, there = self.feature.detach().cpu(), self.slide.detach().cpu()
        _check_slides(there, slide)
        if self.company is None:
            found, allowed = _cached(feature, slide, bank, there, k)
        else:
            near, scale = _cached(feature, slide, bank, there, self.company.candidates), self.scale.cpu()
            found, allowed = self.company.best(feature * scale, bank * scale, *near, k)
        return ExemplarFeatures(features, self, found, allowed)


def compared(y: Tensor) -> Tensor:
    """Labels (n, targets) in a space where like ones are near: from :data:`MANY` targets on |a - b|^2 = 2 - 2 corr.

    The squared distance itself of hundreds of noisy genes is least for spots with little expression in all, whoever
    asks.

    >>> a, b = compared(torch.stack([torch.arange(20.0), 5.0 * torch.arange(20.0) + 3.0]))
    >>> bool((a - b).square().sum() < 1e-10), len(compared(torch.ones(4, 2)))
    (True, 4)
    """
    if y.shape[1] < MANY:
        return y
    return nn.functional.normalize(y - y.mean(1, keepdim=True), dim=1)


def _check_slides(bank: Tensor, query: Tensor) -> None:
    """Raise where some queries have nobody to look at, however many are asked for."""
    if bool((bank == bank[0]).all()) and bool((query == bank[0]).any()):
        raise InputError("exemplars come from other slides, and all training spots are of one: give more slides")


def _vectors(features: Features, index: Index) -> tuple[Tensor, Tensor]:
    """Own vectors (n, d) and keys of slides (n,), without pictures."""
    light = getattr(features, "light", None)
    source: Any = features if light is None else light()
    parts = [source.read(piece) for piece in np.array_split(index, -(-len(index) // PIECE))]
    if "feature" not in parts[0]:
        raise InputError("exemplars are searched by the vectors of spots: prepare them with feature=True")
    return torch.cat([part["feature"] for part in parts]), torch.cat([part["slide"] for part in parts])


def _cached(query: Tensor, slide: Tensor, bank: Tensor, there: Tensor, k: int) -> tuple[Tensor, Tensor]:
    key = hashlib.sha256(f"exemplars 1 {k}".encode())
    for tensor in (query, slide, bank, there):
        key.update(f"{tuple(tensor.shape)}".encode())
        key.update(np.ascontiguousarray(tensor.numpy()).data)
    path = cache_folder() / "exemplars" / f"{key.hexdigest()}.npz"
    if path.is_file():
        with complaints(path, "exemplars that Excora found (remove the file)"), np.load(path) as file:
            found, allowed = (torch.from_numpy(file[name]) for name in ("found", "allowed"))
            fits = found.shape == allowed.shape == (len(query), k) and allowed.dtype == torch.bool
            if fits and 0 <= int(found.min()) <= int(found.max()) < len(bank):
                return found.long(), allowed
    numbers = torch.arange(len(query))
    search: Any = Search(bank, exact=True)
    found, allowed = search(query, k, excluded=OtherSlides(slide, there), numbers=numbers)
    buffer = io.BytesIO()
    np.savez(buffer, found=found.numpy().astype(np.int32), allowed=allowed.numpy())
    with contextlib.suppress(OSError):  # nowhere to keep it: found again next time
        write_atomically(path, buffer.getvalue())
    return found, allowed
