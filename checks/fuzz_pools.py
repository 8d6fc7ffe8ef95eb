"""Random bags for :mod:`checks.fuzz`: every pool against the oracles in float64, values and gradients.

An input is one bag. A case is a pool with random parameters and a batch of bags, padded, masked (with anything in
padding) or ragged, in one precision, of sizes from 1e-20 to 1e20: ordinary ones, empty, of one element, constant, far
from zero, with an outlier in front. Tolerances are those of :mod:`checks.fuzz_oracle`; half precision adds an epsilon
of its own to what is stored in it, and its smallest number. A bag whose weights cannot be known in the precision at
hand (|du| > 1/8) is asked for finite results only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from checks.fuzz_oracle import EXACT, Array, Found, Oracle
from excora import ECAPool, GatedPool, MeanPool, Ragged, SoftmaxPool, dispersion
from excora.functional import hull_radius, masked_mean
from excora.pooling import GatedScorer
from excora.pooling.base import Pool, Pooled
from tests.oracles.pooling import eca_bag

DTYPES = {torch.float32: 0.6, torch.float64: 0.15, torch.bfloat16: 0.15, torch.float16: 0.1}
POOLS = ("mean", "softmax", "gated", "eca", "eca gated", "eca paper", "eca residual", "eca temperature")
FORMS = ("padded", "masked", "ragged")
BAGS, KNOWN, UNIT = 96, 0.125, 64.0


class Check(NamedTuple):
    """One comparison: all is well where ``error`` <= ``tolerance``."""

    what: str
    error: float
    tolerance: float


def make_pool(name: str, dim: int) -> torch.nn.Module:
    """A pool away from its start; beta stays within -0.5 and 0.9, so that tau and R / tau exist in float32 at 1e20."""
    pool = {
        "mean": MeanPool,
        "softmax": SoftmaxPool,
        "gated": lambda d: GatedPool(d, hidden=3),
        "eca": ECAPool,
        "eca gated": lambda d: ECAPool(d, scorer=GatedScorer(d, 3)),
        "eca paper": ECAPool.paper,
        "eca residual": lambda d: ECAPool(d, temperature=None),
        "eca temperature": lambda d: ECAPool(d, residual=None, scale="paper"),
    }[name](dim)
    with torch.no_grad():
        for parameter in pool.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter)).clamp_(-0.5 if parameter.numel() == 1 else -0.9, 0.9)
    return pool


def make_bag(rng: np.random.Generator, dim: int, size: float) -> Array:
    """One bag of some kind."""
    n = int(rng.choice([0, 1, 2, int(rng.integers(3, 13))], p=[0.08, 0.1, 0.12, 0.7]))
    h, kind = rng.normal(size=(n, dim)), rng.integers(6)
    if kind == 0 and n:
        h[:] = h[0]
    elif kind == 1:
        h = rng.normal(size=dim) + h * 10.0 ** rng.uniform(-4, -1)
    elif kind == 2 and n:
        h[0] *= 1e3
    return h * size


class Batch(NamedTuple):
    """Bags as a pool takes them, and where the real elements stand in a box of all."""

    h: torch.Tensor  # what gradients are taken of: (bags, elements, dim) or (total, dim)
    mask: torch.Tensor | None
    real: NDArray[np.bool_]  # (bags, elements)

    def __call__(self, pool: Pool) -> Pooled:
        """The pool's result."""
        if self.h.dim() == 3:
            return pool(self.h, self.mask)
        return pool(Ragged(self.h, torch.from_numpy(self.real.sum(1))))

    def boxed(self, x: torch.Tensor) -> Array:
        """(bags, elements, ...) in float64 with zeros in padding, of what has the layout of ``h``."""
        flat = x.detach().double().numpy()
        flat = flat[self.real] if self.h.dim() == 3 else flat
        box = np.zeros((*self.real.shape, *flat.shape[1:]))
        box[self.real] = flat
        return box


def make_batch(rng: np.random.Generator, form: str, dim: int, dtype: torch.dtype, sizes: Array) -> Batch:
    """Bags of the given sizes, laid out in the form."""
    bags = [make_bag(rng, dim, size) for size in sizes]
    if dtype == torch.float16:  # what a gain of 4 may reach exists too
        bags = [np.clip(bag, -5e3, 5e3) for bag in bags]
    if form == "padded":  # one length for all
        n = int(rng.choice([0, 1, 5], p=[0.05, 0.1, 0.85]))
        bags = [np.resize(bag, (n, dim)) if len(bag) else np.zeros((n, dim)) for bag in bags]
    elements = max(map(len, bags)) + (int(rng.integers(3)) if form == "masked" else 0)
    real = np.arange(elements) < np.array([len(bag) for bag in bags])[:, None]
    if form == "masked":  # padding may stand anywhere
        real = rng.permuted(real, axis=1)
    values = np.concatenate(bags)
    if form != "ragged":
        values, flat = np.full((*real.shape, dim), rng.choice([0.0, np.nan, np.inf, 7.0])), values
        values[real] = flat
    mask = torch.from_numpy(real) if form == "masked" else None
    return Batch(torch.from_numpy(values).to(dtype).requires_grad_(), mask, real)


def case(rng: np.random.Generator) -> tuple[int, Iterator[Check]]:
    """How many bags, and all that is to be compared."""
    torch.manual_seed(int(rng.integers(2**31)))
    dtype = list(DTYPES)[rng.choice(4, p=list(DTYPES.values()))]
    name, form, dim = str(rng.choice(POOLS)), str(rng.choice(FORMS)), int(rng.integers(1, 9))
    if "gated" in name and torch.finfo(dtype).bits == 16:  # a scorer of torch's layers computes in its own precision
        dtype = torch.float32
    mild = bool(rng.random() < 0.4)
    widest = 1.0 if mild or dtype == torch.float16 else 20.0
    sizes = 10.0 ** rng.uniform(-widest, widest, BAGS)
    pool = make_pool(name, dim).to(torch.promote_types(dtype, torch.float32))
    batch = make_batch(rng, form, dim, dtype, sizes)
    return BAGS, compare(rng, f"{name}, {form}, {dtype}", pool, batch, mild)


def compare(rng: np.random.Generator, what: str, pool: Pool, batch: Batch, mild: bool) -> Iterator[Check]:
    """Value, weights and dispersion of each bag, and derivatives along a random direction."""
    unit = UNIT * torch.finfo(torch.promote_types(batch.h.dtype, torch.float32)).eps
    pooled = batch(pool)
    pulls = [torch.from_numpy(rng.integers(-4, 5, size=t.shape) / 2) for t in pooled[:2]]  # they exist in every format
    outputs = [(t, g.to(t.dtype)) for t, g in zip(pooled[:2], pulls, strict=True) if t.requires_grad]
    inputs, (given, arriving) = [batch.h, *pool.parameters()], zip(*outputs, strict=True)
    grads = torch.autograd.grad(given, inputs, arriving, allow_unused=True, materialize_grads=True)
    for k, tensor in enumerate((*pooled[:2], grads[0], *pooled.details.values(), *(grads[1:] if mild else ()))):
        yield Check(f"{what}: finite, tensor {k}", float((~tensor.isfinite()).sum()), 0.0)
    h = batch.boxed(batch.h)
    reach = np.abs(h - h.sum(1, keepdims=True) / np.maximum(batch.real.sum(1), 1)[:, None, None]).max(
        (1, 2), initial=0.0
    )
    motion = rng.normal(size=h.shape) * np.where(reach > 0, reach, 1.0)[:, None, None] * batch.real[..., None]
    found = Oracle(pool, unit, {})(h, batch.real, motion)
    with torch.no_grad():
        yield from values(f"{what}, no graph", batch, batch(pool), found, unit)
    yield from values(what, batch, pooled, found, unit)
    yield from obvious(rng, what, h, batch, found)
    yield gradients(what, batch, grads[0], motion, pulls, found)
    if mild:
        moved = {name: rng.normal(size=p.shape) for name, p in pool.named_parameters()}
        total = sum(float((g.double().numpy() * m).sum()) for g, m in zip(grads[1:], moved.values(), strict=True))
        exact, slack = along(batch, pulls, Oracle(pool, unit, moved)(h, batch.real, np.zeros_like(h)))
        if found.unknown.max() < KNOWN:
            yield worst(
                f"{what}: gradient of the parameters", total - exact.sum(), slack.sum() + unit * np.abs(exact).sum()
            )
    yield from statistics(what, batch, h, found, unit)


def values(what: str, batch: Batch, pooled: Pooled, found: Found, unit: float) -> Iterator[Check]:
    """What the pool returns."""
    stored = torch.finfo(batch.h.dtype)
    known = (found.unknown < KNOWN)[:, None]
    half = (np.abs(found.value.value) + stored.smallest_normal) * stored.eps * (stored.bits == 16)
    difference = pooled.value.detach().double().numpy() - found.value.value
    yield worst(f"{what}: value", difference * known, found.value.error + half)
    difference = batch.boxed(pooled.weights) - found.weights.value
    yield worst(f"{what}: weights", difference * known, found.weights.error + unit**2)
    if "dispersion" in pooled.details:
        size = np.linalg.norm(np.abs(batch.boxed(batch.h)).max(1, initial=0.0), axis=1)
        difference = pooled.details["dispersion"].detach().double().numpy() - found.dispersion
        yield worst(f"{what}: dispersion", difference, unit * found.dispersion + (unit**2 + EXACT) * size)


def obvious(rng: np.random.Generator, what: str, h: Array, batch: Batch, found: Found) -> Iterator[Check]:
    """Some bags, an element at a time."""
    for b in rng.integers(len(h), size=3):
        rows = batch.real[b]
        gamma, tau = (x if np.isscalar(x) else x[b] for x in (found.gamma, found.tau))
        logits = np.zeros(rows.sum()) if "mean," in what else found.logits[b][rows]
        bag, size = eca_bag(h[b][rows], logits, gamma, tau), np.linalg.norm(h[b])
        if found.unknown[b] < KNOWN:
            # z / tau has the digits of float64, and the softmax sees the difference of two.
            off = 1e-9 + (4e-16 * np.abs(logits).max(initial=0.0) / tau if tau > 0.0 else 0.0)
            yield worst(f"{what}, bag {b}: the oracle's value", found.value.value[b] - bag.value, off * size)
            yield worst(f"{what}, bag {b}: the oracle's weights", found.weights.value[b][rows] - bag.weights, off)
        yield worst(f"{what}, bag {b}: the oracle's dispersion", found.dispersion[b] - bag.dispersion, 1e-12 * size)


def along(batch: Batch, pulls: list[torch.Tensor], found: Found) -> tuple[Array, Array]:
    """The derivative of sum pull . value + sum pull_i alpha_i by bag, and how far it may be off."""
    value, weights = pulls[0].numpy(), batch.boxed(pulls[1])
    exact = (value * found.value.tangent).sum(1) + (weights * found.weights.tangent).sum(1)
    slack = (np.abs(value) * found.value.tangent_error).sum(1) + (np.abs(weights) * found.weights.tangent_error).sum(1)
    return exact, slack


def gradients(
    what: str, batch: Batch, grad: torch.Tensor, motion: Array, pulls: list[torch.Tensor], found: Found
) -> Check:
    """sum_i grad_i . motion_i of each bag."""
    stored, parts = torch.finfo(batch.h.dtype), batch.boxed(grad) * motion
    exact, slack = along(batch, pulls, found)
    # What is below the smallest number of its format is lost, and so is the factor of h - mu that comes through sigma.
    apart = np.abs(batch.boxed(batch.h)).max((1, 2), initial=0.0)
    lost = stored.smallest_normal + torch.finfo(torch.float32).smallest_normal * apart
    slack = slack + np.abs(motion).sum((1, 2)) * lost
    slack = slack + stored.eps * np.abs(parts).sum((1, 2)) * (stored.bits == 16)
    return worst(f"{what}: gradient", (parts.sum((1, 2)) - exact) * (found.unknown < KNOWN), slack)


def statistics(what: str, batch: Batch, h: Array, found: Found, unit: float) -> Iterator[Check]:
    """The functions of :mod:`excora.functional`."""
    if batch.h.dim() == 2:
        return
    with torch.no_grad():
        ours = [f(batch.h, batch.mask).double().numpy() for f in (masked_mean, dispersion, hull_radius)]
    size, count = np.abs(h).max(1, initial=0.0), np.maximum(batch.real.sum(1), 1)
    rest = (unit**2 + EXACT) * np.linalg.norm(size, axis=1)
    mean = h.sum(1) / count[:, None]
    radius = np.linalg.norm((h - mean[:, None]) * batch.real[..., None], axis=2).max(1, initial=0.0)
    yield worst(f"{what}: masked_mean", ours[0] - mean, unit * size)
    yield worst(f"{what}: dispersion()", ours[1] - found.dispersion, unit * found.dispersion + rest)
    yield worst(f"{what}: hull_radius", ours[2] - radius, unit * radius + rest)


def worst(what: str, difference: Any, tolerance: Any) -> Check:
    """The entry furthest beyond its tolerance, or nearest to it."""
    error = np.atleast_1d(np.abs(np.asarray(difference, float)))
    allowed = np.broadcast_to(np.asarray(tolerance, float), error.shape)
    if not error.size:
        return Check(what, 0.0, 0.0)
    error = np.where(np.isnan(error), np.inf, error)
    place = np.unravel_index(np.argmax(np.where(error > 0, error / np.maximum(allowed, 1e-300), 0.0)), error.shape)
    return Check(f"{what} of {tuple(map(int, place))}", float(error[place]), float(allowed[place]))
