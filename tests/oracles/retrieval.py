"""Neighbours and the retrieval network in numpy float64, a row at a time: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from oracles.pooling import eca_bag

Array = NDArray[np.float64]
State = Mapping[str, Array]


def nearest(
    query: Array, candidate: Array, k: int, barred: Callable[[int, int], bool] | None = None
) -> list[list[int]]:
    """The numbers of at most k candidates a query, by distance and then by number."""
    found = []
    for q, row in enumerate(query):
        open_to = [i for i in range(len(candidate)) if barred is None or not barred(q, i)]
        ranked = sorted((float(((row - candidate[i]) ** 2).sum()), i) for i in open_to)
        found.append([i for _, i in ranked[:k]])
    return found


def columns(numeric: Array, missing: NDArray[np.bool_], codes: NDArray[np.int64], *, gaps: list[int],
            categories: tuple[int, ...]) -> Array:  # fmt: skip
    """One row."""
    out = [0.0 if gone else min(max(x, -5.0), 5.0) for x, gone in zip(numeric, missing, strict=True)]
    out += [float(missing[j]) for j in gaps]
    for code, n in zip(codes, categories, strict=True):
        out += [math.sqrt(0.5) if code == c else 0.0 for c in range(1, n)]
    return np.array(out)


def layer_norm(p: State, name: str, x: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(p: State, name: str, x: Array) -> Array:
    return p[f"{name}.weight"] @ x + p.get(f"{name}.bias", 0.0)


def gelu(x: Array) -> Array:
    return np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])


def pieces(x: Array, starts: Array, slopes: Array) -> Array:
    """Where each number lies in each bin of its column, from -1/2 to 1/2: all columns of the first bin, and so on."""
    places = [(x[j], a[j], b[j]) for a, b in zip(starts, slopes, strict=True) for j in range(len(a))]
    return np.array([min(max((number - a) * b, 0.0), 1.0) - 0.5 if b else 0.0 for number, a, b in places])


def residual(p: State, name: str, x: Array) -> Array:
    return x + linear(p, f"{name}.outer", gelu(linear(p, f"{name}.inner", layer_norm(p, f"{name}.norm", x))))


def encode(p: State, x: Array, shared: int, blocks: int) -> tuple[Array, Array, Array]:
    """A row as one side of a pair, its key, and what it is like itself."""
    u = x * p["metric_weight"]
    m = u + u @ p["metric_mix"] if "metric_mix" in p else u
    own = linear(p, "encoder.first.0", x)
    for b in range(shared):
        own = residual(p, f"encoder.first.{b + 1}", own)
    near = np.maximum(layer_norm(p, "encoder.norm", own), 0.0)
    if "encoder.pieces.starts" in p:
        own = own + linear(p, "encoder.pieces.out", pieces(x, p["encoder.pieces.starts"], p["encoder.pieces.slopes"]))
    for b in range(blocks):
        own = residual(p, f"encoder.blocks.{b}", own)
    own = layer_norm(p, f"encoder.blocks.{blocks}", own)
    key = (m @ p["encoder.linear_key"] + linear(p, "encoder.deep_key", near)) * np.exp(p["encoder.log_scale"])
    return near, key, own


def bag(p: State, x: Array, around: list[Array], labels: list[Array], *depth: int) -> tuple[Array, Array]:
    """The elements of one row, and what it is like itself; the difference layer runs on the difference itself."""
    near, key, own = encode(p, x, *depth)
    elements = []
    for other, y in zip(around, labels, strict=True):
        near_i, key_i, _ = encode(p, other, *depth)
        value = linear(p, "encoder.difference", near - near_i) + linear(p, "label", y)
        elements.append(np.concatenate([key - key_i, np.maximum(value, 0.0), y]))
    return np.array(elements), own


def pool(p: State, h: Array, name: str, keys: int) -> tuple[Array, Array]:
    """Value and weights of one bag by "mean", "softmax", "eca" or "eca-paper" with logits -||key difference||^2."""
    logits = np.array([-float((e[:keys] ** 2).sum()) for e in h])
    plain = eca_bag(h, logits, 1.0, 1.0)
    if name == "mean":
        return plain.mean, np.full(len(h), 1 / len(h))
    if name == "softmax":
        return plain.value, plain.weights
    hidden = linear(p, "pool.varying.extrapolation.gain.hidden", plain.mean)
    if name == "eca":
        raw = float(linear(p, "pool.varying.extrapolation.gain.out", np.tanh(hidden))[0])
        gamma = 4.0 / (1.0 + 3.0 * math.exp(-raw))
        spread = plain.dispersion / math.sqrt(h.shape[1])
        log_base, slope = (float(p[f"pool.varying.extrapolation.temperature.{x}"][0]) for x in ("log_base", "slope"))
        tau = math.exp(log_base) * (1 + spread) ** slope
    else:
        raw = float(linear(p, "pool.varying.extrapolation.gain.out", np.maximum(hidden, 0.0))[0])
        gamma, tau = min(1.0 + math.log1p(math.exp(raw)), 2.0), 0.5 + plain.dispersion
    found = eca_bag(h, logits, gamma, tau)
    return found.value, found.weights


def head(p: State, value: Array, own: Array, labels: slice) -> Array:
    value = np.concatenate([value, own])
    hidden = gelu(linear(p, "head.inner", layer_norm(p, "head.norm", value)))
    return linear(p, "head.outer", hidden) + p["head.label_weight"] * value[labels]
