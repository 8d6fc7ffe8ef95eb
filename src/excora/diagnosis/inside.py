"""Inside a trained network: what its pooling weights are worth, how many directions its elements and its attention
have, and how far its layers are from an optimal map."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.collapse import mean_cosine
from excora.diagnosis.decay import Decay, attention_decay, element_decay, spectrum_decay
from excora.diagnosis.pooling_gain import pooling_gain
from excora.diagnosis.transport import transport
from excora.errors import InputError
from excora.pooling import Pool, Pooled
from excora.primal import PrimalAttention
from excora.ragged import Ragged
from excora.theory.spectral import gain_of

#: Points of a layer that are paired: the time of a pairing grows by the third power.
POINTS = 400
#: Layers that are looked at.
LAYERS = 40
#: A place of a sequence counts if at least this share of the samples reaches it.
REACHED = 0.25

Row = dict[str, Any]


class Inside(NamedTuple):
    """What :func:`look_inside` found, as rows of plain values."""

    samples: int
    pools: list[Row]  #: alpha, kappa, gain, those of even weights and of the best, and what theory then expects
    layers: list[Row]  #: of each layer that keeps the width: distance, least, optimality, monge_gap, matching
    spectra: list[Row]  #: of, kind, directions that carry 90 % of the energy, most, mean_cosine, shares, reading


def look_inside(
    network: nn.Module,
    run: Callable[[], Any],
    *,
    samples: int,
    layers: bool = False,
    few: Callable[[], Any] | None = None,
) -> Inside:
    """Listen to the pools of ``network`` while ``run()`` calls it on ``samples`` samples; with ``layers`` to all parts.

    ``few()`` calls it on some of them, and attention between elements is looked at then: a matrix of their square.

    A pool is judged by :func:`excora.diagnosis.pooling_gain.pooling_gain` on the first places of its samples, those
    that a quarter of them reach; where that cannot be, its row has a ``reason``. A layer whose output is of the shape
    of its input is judged by :func:`excora.diagnosis.transport.transport` on up to 400 elements.

    >>> from excora import SoftmaxPool
    >>> from excora.tasks.pooled_mixture import PooledMixtureTask
    >>> x, _ = PooledMixtureTask(dim=16).sample(400, seed=0)
    >>> pool = SoftmaxPool(16)
    >>> found = look_inside(pool, lambda: pool(x), samples=400)
    >>> found.pools[0]["pool"], found.pools[0]["gain"] <= found.pools[0]["best_gain"]
    ('pool', True)
    """
    heard: dict[str, list[tuple[Tensor, Tensor | None]]] = {}
    read: dict[str, list[tuple[Tensor, Tensor | None]]] = {}
    moved: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with _listening(network, heard, read, moved if layers else None), torch.no_grad():
        run()
    named = dict(network.named_modules())
    pools = [_pool(name or "pool", named[name], parts) for name, parts in heard.items()]
    rows = [row for name, parts in list(moved.items())[:LAYERS] if (row := _layer(name, named[name], parts))]
    return Inside(samples, pools, rows, _spectra(network, heard | read, few))


def _spectra(network: nn.Module, heard: dict[str, Any], few: Callable[[], Any] | None) -> list[Row]:
    """How singular values fall: of the elements of each pool, of attention between elements, of primal attention."""
    found = [(name or "pool", "elements", element_decay(parts), _cosine(parts)) for name, parts in heard.items()]
    maps = [] if few is None else attention_maps(network, few)
    square = [weights for weights in maps if weights.dim() == 4 and min(weights.shape[2:]) > 1]
    found += [(f"attention {k + 1}", "attention", attention_decay(one), None) for k, one in enumerate(square[:LAYERS])]
    for name, module in network.named_modules():
        if isinstance(module, PrimalAttention) and module.spectrum is not None:
            found.append((name or "layer", "primal attention", spectrum_decay(module.spectrum), None))
    return [_spectrum(*one) for one in found if one[2] is not None]


def _spectrum(of: str, kind: str, decay: Decay | None, cosine: float | None) -> Row:
    assert decay is not None
    return {
        "of": of,
        "kind": kind,
        "directions": decay.directions,
        "most": decay.most,
        "mean_cosine": cosine,
        "shares": decay.shares,
        "reading": decay.reading(kind),
    }


def _cosine(parts: list[tuple[Tensor, Tensor | None]]) -> float | None:
    every = torch.cat([mean_cosine(h, mask) for h, mask in parts])
    defined = every[every.isfinite()]
    return float(defined.mean()) if len(defined) else None


@contextlib.contextmanager
def _listening(
    network: nn.Module, heard: dict[str, Any], read: dict[str, Any], moved: dict[str, Any] | None
) -> Iterator[None]:
    """Hooks that keep what pools and other read-outs are given, and what goes into and comes out of the other parts."""
    inside = {id(part) for m in network.modules() if isinstance(m, Pool) for part in m.modules() if part is not m}

    hooks = []
    for name, module in network.named_modules():
        if id(module) in inside:
            continue
        if isinstance(module, Pool):
            hooks.append(module.register_forward_hook(_hear(name, heard), with_kwargs=True))
            continue
        if not any(isinstance(part, Pool) for part in module.modules()):
            hooks.append(module.register_forward_hook(_watch(name, read)))
        if moved is not None and name:
            hooks.append(module.register_forward_hook(_move(name, moved)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hear(name: str, heard: dict[str, Any]) -> Any:
    """A hook that keeps what a pool is given."""

    def hook(_: nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any], __: Any) -> None:
        h = arguments[0] if arguments else keywords["h"]
        mask = arguments[1] if len(arguments) > 1 else keywords.get("mask")
        if isinstance(h, Ragged):
            h, mask = h.pad()
        if isinstance(h, Tensor):
            heard.setdefault(name, []).append((h.detach().cpu(), None if mask is None else mask.cpu()))

    return hook


def _watch(name: str, read: dict[str, Any]) -> Any:
    """Of a read-out that is no pool, as the FT-Transformer's: it gives what a pool gives, of all its elements."""

    def hook(_: nn.Module, arguments: tuple[Any, ...], out: Any) -> None:
        h = arguments[0] if arguments else None
        if isinstance(out, Pooled) and isinstance(h, Tensor) and h.dim() == 3:
            read.setdefault(name, []).append((h.detach().cpu(), None))

    return hook


def _move(name: str, moved: dict[str, Any]) -> Any:
    """What goes into and comes out of a part that keeps the shape."""

    def hook(_: nn.Module, arguments: tuple[Any, ...], out: Any) -> None:
        x = arguments[0] if arguments else None
        if isinstance(x, Tensor) and isinstance(out, Tensor) and x.shape == out.shape and x.is_floating_point():
            flat = [one.detach().reshape(-1, one.shape[-1]).double().cpu() for one in (x, out)]
            if x.dim() > 1:
                moved.setdefault(name, []).append((flat[0], flat[1]))

    return hook


def _pool(name: str, pool: Any, parts: list[tuple[Tensor, Tensor | None]]) -> Row:
    """alpha/kappa of the weights, of even and of the best ones on the same sequences, and the foretold alignment."""
    try:
        h, mask = _together(parts)
        found = pooling_gain(pool, h, mask)
    except InputError as error:
        return {"pool": name, "reason": str(error)}
    seen = found.recovery
    return {
        "pool": name,
        "places": len(found.weights),
        "alpha": found.alpha,
        "kappa": found.kappa,
        "gain": found.gain,
        "even_gain": gain_of(np.ones(len(found.weights)), found.correlation),
        "best_gain": float(np.linalg.eigvalsh(found.correlation)[-1]),
        "signal": found.signal,
        "strength": seen.strength,
        "threshold": seen.threshold,
        "separates": bool(seen.separates),
        "alignment": seen.alignment,
    }


def _together(parts: list[tuple[Tensor, Tensor | None]]) -> tuple[Tensor, Tensor | None]:
    """All batches as one, (samples, places, dim), cut after the last place that enough samples reach."""
    longest = max(h.shape[1] for h, _ in parts)
    h = torch.cat([nn.functional.pad(x, (0, 0, 0, longest - x.shape[1])) for x, _ in parts])
    there = [torch.ones(x.shape[:2], dtype=torch.bool) if m is None else m for x, m in parts]
    mask = torch.cat([nn.functional.pad(m, (0, longest - m.shape[1])) for m in there])
    length = int((mask.double().mean(0) >= REACHED).sum())
    kept = mask.any(1)
    h, mask = h[kept, :length], mask[kept, :length]
    return (h, None) if bool(mask.all()) else (h, mask)


def _layer(name: str, layer: nn.Module, parts: list[tuple[Tensor, Tensor]]) -> Row | None:
    """None where nothing moved: a dropout, an identity."""
    x, y = (torch.cat([part[end] for part in parts]) for end in (0, 1))
    if len(x) < 2 or torch.equal(x, y) or not bool(x.isfinite().all() & y.isfinite().all()):
        return None
    rows = torch.linspace(0, len(x) - 1, min(len(x), POINTS)).long()
    found = transport([x[rows].numpy(), y[rows].numpy()])
    return {
        "layer": name,
        "kind": type(layer).__name__,
        "points": len(rows),
        "distance": found.distance,
        "least": found.least,
        "optimality": found.optimality,
        "monge_gap": found.monge_gap,
        "matching": found.matching,
    }
