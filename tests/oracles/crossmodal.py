"""MulT and DLF from their descriptions, one sample at a time, in numpy and float64."""

from __future__ import annotations

import math

import numpy as np

from oracles.sentiment import Array, Sample, Weights, linear, norm, relu, resampled, sigmoid, softmax, under


def positions(steps: int, dim: int) -> Array:
    """[sin, cos] of step 1, 2, ...; frequencies from 1 down to 1 / 10000."""
    half = dim // 2
    table = np.zeros((steps, dim))
    for t in range(steps):
        for k in range(half):
            angle = (t + 1) * math.exp(-k * math.log(10000) / max(half - 1, 1))
            table[t, k], table[t, half + k] = math.sin(angle), math.cos(angle)
    return table


def attention(p: Weights, x: Array, other: Array, heads: int) -> Array:
    """Query i sees key j if j <= i + |L_k - L_q|."""
    dim = x.shape[1]
    w, b = p["inner.weight"], p["inner.bias"]
    q, k, v = (
        x @ w[:dim].T + b[:dim],
        other @ w[dim : 2 * dim].T + b[dim : 2 * dim],
        other @ w[2 * dim :].T + b[2 * dim :],
    )
    hidden = np.array([[j > i + abs(len(k) - len(q)) for j in range(len(k))] for i in range(len(q))])
    found = []
    for q_h, k_h, v_h in zip(*(np.split(part, heads, 1) for part in (q, k, v)), strict=True):
        z = np.where(hidden, -np.inf, q_h @ k_h.T / math.sqrt(dim // heads))
        found.append(softmax(z) @ v_h)
    return linear(p, "outer", np.concatenate(found, 1))


def encoder(p: Weights, x: Array, heads: int, mode: str, other: Array | None = None) -> Array:
    """All layers that there are weights of, then the norm."""

    def embedded(values: Array) -> Array:
        scaled = math.sqrt(values.shape[1]) * values
        if mode == "none":
            return scaled
        table = positions(*values.shape)
        return scaled + (table * (values[:, :1] != 0) if mode == "published" else table)

    found, seen = embedded(x), None if other is None else embedded(other)
    layer = 0
    while any(name.startswith(f"layers.{layer}.") for name in p):
        part = under(p, f"layers.{layer}.")
        normed = norm(part, "norm", found)
        looked = normed if seen is None else norm(part, "norm", seen)
        found = found + attention(under(part, "attention."), normed, looked, heads)
        found = found + linear(part, "second", relu(linear(part, "first", norm(part, "norm_forward", found))))
        layer += 1
    return norm(p, "norm", found)


def convolution(weight: Array, x: Array) -> Array:
    """Over the steps, zeros behind the end of what is shorter than the kernel; weight (dim, width, kernel)."""
    kernel = weight.shape[2]
    x = np.concatenate([x, np.zeros((max(kernel - len(x), 0), x.shape[1]))])
    return np.array([np.einsum("dwk,kw->d", weight, x[t : t + kernel]) for t in range(len(x) - kernel + 1)])


def residual(p: Weights, x: Array) -> Array:
    """x + W_2 relu(W_1 x)."""
    return x + linear(p, "second", relu(linear(p, "first", x)))


def mult(p: Weights, sample: Sample, heads: int, mode: str) -> Array:
    """The prediction of MulT."""
    names = [name for name in ("text", "audio", "vision") if name in sample]
    x = {name: convolution(p[f"convolutions.{name}.weight"], sample[name]) for name in names}
    last = []
    for name in names:
        views = [
            encoder(under(p, f"views.{name}.{other}."), x[name], heads, mode, x[other])
            for other in names
            if other != name
        ]
        last.append(encoder(under(p, f"memories.{name}."), np.concatenate(views, 1), heads, mode)[-1])
    return linear(p, "head", residual(under(p, "residual."), np.concatenate(last)))


class DLF:
    """DLF of a sample: its prediction, its parts and what its losses read."""

    def __init__(self, p: Weights, sample: Sample, heads: int, mode: str, steps: int) -> None:
        names = [name for name in ("text", "vision", "audio") if name in sample]
        frames = {name: resampled(sample[name], len(sample["text"])) for name in names}

        def run(part: str, x: Array, other: Array | None = None) -> Array:
            return encoder(under(p, f"{part}."), x, heads, mode, other)

        self.x = {name: convolution(p[f"convolutions.{name}.weight"], frames[name]) for name in names}
        self.s = {name: run(f"specific.{name}", self.x[name]) for name in names}
        self.c = {name: run("shared", self.x[name]) for name in names}
        self.again = {
            name: np.concatenate([self.s[name], self.c[name]], 1) @ p[f"rebuilders.{name}.weight"].T for name in names
        }
        self.respecified = {name: run(f"specific.{name}", self.again[name]) for name in names}
        self.summaries = []
        for name in names:
            whole = np.zeros((steps, self.c[name].shape[1]))
            whole[: len(self.c[name])] = self.c[name]
            self.summaries.append(linear(p, f"summaries.{name}", whole.T.ravel()))
        common = np.concatenate([run(f"memories.{name}", self.c[name])[-1] for name in names])
        branches = []
        for name in names:
            seen = self.s["text"] if name == "text" else run(f"views.{name}", self.s["text"], self.s[name])
            branches.append(residual(under(p, f"residuals.{name}."), run(f"finals.{name}", seen)[-1]))
        self.predictions = [linear(p, f"heads.{name}", x) for name, x in zip(names, branches, strict=True)]
        self.predictions.append(linear(p, "common_head", residual(under(p, "common_residual."), common)))
        gated = [sigmoid(linear(p, f"gates.{name}", x)) for name, x in zip(names, branches, strict=True)]
        joined = np.concatenate([*gated, sigmoid(linear(p, "common_gate", common))])
        self.prediction = linear(p, "head", residual(under(p, "residual."), joined))


def hinge(summaries: Array, labels: Array) -> float:
    """Anchor by anchor, pair by pair; summaries (anchors, dim), labels (anchors,)."""
    unit = summaries / np.linalg.norm(summaries, axis=1, keepdims=True)
    means = []
    for i in range(len(unit)):
        same = [j for j in range(len(unit)) if j != i and labels[j] == labels[i]]
        other = [k for k in range(len(unit)) if labels[k] != labels[i]]
        pairs = [
            max(0.0, 0.15 * abs(labels[i] - labels[k]) - unit[i] @ unit[j] + unit[i] @ unit[k])
            for j in same
            for k in other
        ]
        if pairs:
            means.append(np.mean(pairs))
    return float(np.mean(means)) if means else 0.0
