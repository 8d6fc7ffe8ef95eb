"""EGN one window, one head, one channel and one exemplar at a time, numpy float64, from what is known of its code."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = Mapping[str, Array]


def forward(
    p: State, window: Array, feature: Array, exemplar_features: Array, exemplar_targets: Array, *, size: int,
    layers: int, heads: int, every: int, exemplar_heads: int, projector: int, form: dict[str, object], alone: bool,
) -> dict[str, Array]:  # fmt: skip
    """One window (3, height, width); ``p`` is the state dict as arrays. ``form``: of the read-out; empty: softmax."""
    before = np.stack([linear(p, "embed", patch) for patch in patches(window, size)])
    positions = p["positions"][: len(before)]
    q = linear(p, "projector.query", feature)
    pairs = zip(exemplar_features, exemplar_targets, strict=True)
    ks = [linear(p, "projector.key", np.concatenate(pair)) for pair in pairs]
    vs = [linear(p, "projector.value", y) for y in exemplar_targets]
    for i in range(projector):
        q = q + hidden(p, f"projector.layers.{i}", q)
        ks = [k + hidden(p, f"projector.layers.{i}", k) for k in ks]
    x = before + positions
    for i in range(layers):
        x = x + attention(p, f"layers.{i}", layer_norm(p, f"layers.{i}.norm", x + positions), heads)
        if (i + 1) % every == 0:
            x, q, ks = bridge(p, f"layers.{i}.bridge", x, q, ks, vs, exemplar_heads)
        x = x + hidden(p, f"layers.{i}.feedforward", x)
    read = read_out(p, x, before, form, alone=alone)
    prediction = linear(p, "head.out", layer_norm(p, "head.norm", np.concatenate([read["value"], q])))
    return read | {"prediction": prediction}


def patches(window: Array, size: int) -> list[Array]:
    """Row by row; within one (row, column, channel)."""
    _, height, width = window.shape
    return [
        np.array([window[c, top + i, left + j] for i in range(size) for j in range(size) for c in range(3)])
        for top in range(0, height, size)
        for left in range(0, width, size)
    ]


def linear(p: State, name: str, x: Array) -> Array:
    return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0.0)


def layer_norm(p: State, name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def hidden(p: State, name: str, x: Array) -> Array:
    h = linear(p, f"{name}.first", layer_norm(p, f"{name}.norm", x))
    gelu = h * 0.5 * (1.0 + np.vectorize(math.erf)(h / math.sqrt(2.0)))
    return linear(p, f"{name}.second", gelu)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def attention(p: State, name: str, u: Array, heads: int) -> Array:
    weight = p[f"{name}.inner.weight"]
    inner = len(weight) // 3
    q, k, v = (u @ weight[i * inner : (i + 1) * inner].T for i in range(3))
    out, width = np.zeros_like(q), inner // heads
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(len(u)):
            z = np.array([q[i, part] @ k[j, part] for j in range(len(u))]) / math.sqrt(width)
            alpha = np.exp(z - z.max())
            out[i, part] = (alpha / alpha.sum()) @ v[:, part]
    return linear(p, f"{name}.outer", out)


def bridge(
    p: State, name: str, x: Array, q: Array, ks: list[Array], vs: list[Array], heads: int
) -> tuple[Array, Array, list[Array]]:
    dim, told, new = len(q), [], []
    for k, v in zip(ks, vs, strict=True):
        val = linear(p, f"{name}.message", v)
        first = linear(p, f"{name}.gate.0", np.concatenate([q - k, k]))
        gates = sigmoid(linear(p, f"{name}.gate.2", first * sigmoid(first)))
        told.append(gates[:dim] * val)
        new.append(layer_norm(p, f"{name}.key_norm", k + gates[dim:] * val))
    asked = q + sum(told) / len(told)
    opened = sigmoid(linear(p, f"{name}.opening", layer_norm(p, f"{name}.query_norm", asked)))
    seen = linear(p, f"{name}.patches", layer_norm(p, f"{name}.patch_norm", x))
    width, out = seen.shape[1] // heads, np.zeros_like(seen)
    for patch in range(len(x)):
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            out[patch, part] = opened[h * len(x) + patch] * seen[patch, part]
    return x + linear(p, f"{name}.to_patches", out), q + linear(p, f"{name}.to_query", out.mean(0)), new


def read_out(p: State, x: Array, before: Array, form: dict[str, object], *, alone: bool) -> dict[str, Array]:
    s = linear(p, "pool.head", x)
    mean, gamma, tau = s.mean(0), 1.0, 1.0
    if form:
        sigma = np.sqrt(((before - before.mean(0)) ** 2).sum(1).mean())
        gamma, tau = extrapolation(p, mean, sigma / math.sqrt(x.shape[1]), form)
    alpha = np.zeros_like(s)
    for channel in range(s.shape[1]):
        e = np.exp(0.1 * (s[:, channel] - s[:, channel].max()) / tau)
        alpha[:, channel] = e / e.sum()
    v = mean + gamma * (alpha * (s - mean)).sum(0)
    value = v if alone else mean + 0.5 * v
    return {"value": value, "weights": alpha.mean(1), "gamma": np.float64(gamma), "temperature": np.float64(tau)}


def extrapolation(p: State, mean: Array, spread: float, form: dict[str, object]) -> tuple[float, float]:
    h = linear(p, "pool.extrapolation.gain.hidden", mean)
    free = form["residual"] == "free"
    raw = float(linear(p, "pool.extrapolation.gain.out", np.tanh(h) if free else np.maximum(h, 0.0))[0])
    cap = form["cap"]
    gamma = cap / (1.0 + (cap - 1.0) * np.exp(-raw)) if free else min(1.0 + np.log1p(np.exp(raw)), cap)
    if form["temperature"] == "learned":
        base, slope = (p[f"pool.extrapolation.temperature.{part}"].item() for part in ("log_base", "slope"))
        return gamma, np.exp(base) * (1.0 + spread) ** slope
    return gamma, form["temperature"][0] + form["temperature"][1] * spread
