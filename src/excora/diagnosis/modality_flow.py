"""How much attention crosses between modalities: the inter-modality flow of a layer.

    flow = sum over pairs (i, j) of different modalities of A_ij / sum over all pairs of A_ij, by head, then a mean

After Xue et al., "Probing inter-modality" (NeurIPS 2021), whose exact definition was not seen: this is our reading.
Weights may be negative where a layer extrapolates; then absolute values are taken, and the share is one of influence.

Models that ask each modality apart, such as ALMT and MulT, have weights that sum to 1 for each of them, whatever it is
worth. There :func:`brought` compares the size of what comes through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from excora.errors import InputError
from excora.models.sentiment.parts import Bridge

Array = NDArray[np.float64]


class ModalityFlow(NamedTuple):
    """Shares of the attention of a layer."""

    names: tuple[str, ...]
    share: Array  #: (queries' modality, keys' modality), summing to 1 over all
    by_head: Array  #: (heads,): the flow of each head

    @property
    def between(self) -> float:
        """The inter-modality flow: what is off the diagonal of the shares."""
        return float(self.share.sum() - np.trace(self.share))

    def used(self) -> dict[str, float]:
        """What share of all attention goes to the elements of each modality."""
        return {name: float(total) for name, total in zip(self.names, self.share.sum(0), strict=True)}


def modality_flow(attention: ArrayLike, modality: Sequence[str], mask: ArrayLike | None = None) -> ModalityFlow:
    """Of an attention matrix (heads, n, n) or (n, n), n elements of the named modalities, ``mask`` (n,) the real ones.

    >>> flow = modality_flow(np.full((10, 10), 0.1), ["text"] * 6 + ["audio"] * 4)
    >>> round(flow.between, 6), {name: round(share, 6) for name, share in flow.used().items()}
    (0.48, {'text': 0.6, 'audio': 0.4})
    """
    a = np.abs(np.asarray(attention, float))
    a = a[None] if a.ndim == 2 else a
    n = len(modality)
    if a.ndim != 3 or a.shape[1:] != (n, n) or not np.isfinite(a).all():
        raise InputError(f"attention must be finite of shape (heads, {n}, {n}), one modality an element, got {a.shape}")
    real = np.ones(n, bool) if mask is None else np.asarray(mask, bool)
    if real.shape != (n,):
        raise InputError(f"mask must have shape ({n},), got {real.shape}")
    a = a * real[:, None] * real[None]
    total = a.sum((1, 2))
    if not (total > 0).all():
        raise InputError("a head has no attention at all between real elements")
    names = tuple(dict.fromkeys(modality))
    member = np.array([[name == own for own in modality] for name in names], float)  # (modalities, n)
    by_pair = np.einsum("an,hnm,bm->hab", member, a, member) / total[:, None, None]
    return ModalityFlow(names, by_pair.mean(0), 1.0 - np.trace(by_pair, axis1=1, axis2=2))


class Brought(NamedTuple):
    """What share of all that one modality takes in, in a layer, comes from another."""

    layer: str
    receiver: str
    giver: str
    share: float  #: mean over calls and heads
    by_head: tuple[float, ...]


def brought(bridges: Iterable[Bridge], calls: Iterable[Callable[[], Any]]) -> list[Brought]:
    """By layer and pair of modalities, share_g = |O_g| / sum over givers of |O|, O_g = sum_j A_ij v_j over queries i.

    A head at a time, of each of ``calls``, which should be of one clip each: then nothing in it is padding. A modality
    that takes in a single other one is left out: its share would be 1.
    """
    places = list(bridges)
    sizes: dict[Bridge, list[Array]] = {place: [] for place in places}

    def listen(place: Bridge) -> Callable[..., None]:
        def after(_module: Any, _args: Any, output: torch.Tensor) -> None:
            sizes[place].append(output.detach().double().square().sum((0, 2, 3)).sqrt().cpu().numpy())

        return after

    handles = [place.look.register_forward_hook(listen(place)) for place in places]
    try:
        with torch.inference_mode():
            for call in calls:
                call()
    finally:
        for handle in handles:
            handle.remove()
    together: dict[tuple[str, str], list[Bridge]] = {}
    for place in places:
        together.setdefault((place.layer, place.receiver), []).append(place)
    found = []
    for givers in together.values():
        if len(givers) < 2 or not sizes[givers[0]]:
            continue
        size = np.stack([sizes[place] for place in givers])  # (givers, calls, heads)
        total = size.sum(0)
        share = np.where(total > 0, size / np.where(total > 0, total, 1.0), 1.0 / len(givers)).mean(1)
        for place, heads in zip(givers, share, strict=True):
            found.append(Brought(*place[:3], float(heads.mean()), tuple(heads.tolist())))
    return found
