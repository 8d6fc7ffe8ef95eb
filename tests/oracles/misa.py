"""MISA from its description, one sample at a time, in numpy and float64, and its losses of a batch."""

from __future__ import annotations

import itertools
import math

import numpy as np

from oracles.sentiment import Array, Sample, Weights, linear, lstm, norm, relu, sigmoid, softmax, under

NAMES = ("text", "vision", "audio")


def both_ways(p: Weights, x: Array) -> tuple[Array, Array]:
    """States of a bidirectional LSTM, (steps, forward and backward), and its two last ones."""
    forward, backward = lstm(p, "_l0", x), lstm(p, "_l0_reverse", x[::-1])
    return np.concatenate([forward, backward[::-1]], 1), np.stack([forward[-1], backward[-1]])


def stacked(p: Weights, x: Array) -> Array:
    """Two of them, LayerNorm between."""
    states, early = both_ways(under(p, "first."), x)
    _, late = both_ways(under(p, "second."), norm(p, "norm", states))
    return np.concatenate([early, late], 1).ravel()


def layer(p: Weights, x: Array, heads: int = 2) -> Array:
    """A transformer layer with the norm behind."""
    dim = x.shape[1]
    w, b = p["self_attn.in_proj_weight"], p["self_attn.in_proj_bias"]
    q, k, v = (x @ w[n * dim : (n + 1) * dim].T + b[n * dim : (n + 1) * dim] for n in range(3))
    found = [
        softmax(q_h @ k_h.T / math.sqrt(dim // heads)) @ v_h
        for q_h, k_h, v_h in zip(*(np.split(part, heads, 1) for part in (q, k, v)), strict=True)
    ]
    x = norm(p, "norm1", x + linear(p, "self_attn.out_proj", np.concatenate(found, 1)))
    return norm(p, "norm2", x + linear(p, "linear2", relu(linear(p, "linear1", x))))


class MISA:
    """A sample: its prediction, its parts, and the vectors that are rebuilt."""

    def __init__(self, p: Weights, sample: Sample) -> None:
        names = [name for name in NAMES if name in sample]
        self.whole, self.private, self.shared, self.again = [], [], [], []
        for name in names:
            x = sample[name]
            x = x.mean(0) if name == "text" else stacked(under(p, f"stacks.{name}."), x)
            part = under(p, f"projections.{name}.")
            x = norm(part, "2", relu(linear(part, "0", x)))
            self.whole.append(x)
            self.private.append(sigmoid(linear(p, f"private.{name}", x)))
            self.shared.append(sigmoid(linear(p, "shared", x)))
            self.again.append(linear(p, f"rebuilt.{name}", self.private[-1] + self.shared[-1]))
        joined = layer(under(p, "layer."), np.stack([*self.private, *self.shared])).ravel()
        self.prediction = linear(p, "head.3", relu(linear(p, "head.0", joined)))


def difference(a: Array, b: Array) -> float:
    """Of two parts of a batch, (n, dim) each."""
    a, b = a - a.mean(0), b - b.mean(0)
    a, b = (x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-6) for x in (a, b))
    return float(np.mean([(a[:, i] @ b[:, j]) ** 2 for i in range(a.shape[1]) for j in range(b.shape[1])]))


def moments(a: Array, b: Array) -> float:
    """The distance of means and of central moments 2 to 5."""
    total = float(np.linalg.norm(a.mean(0) - b.mean(0)))
    for k in range(2, 6):
        total += float(np.linalg.norm(((a - a.mean(0)) ** k).mean(0) - ((b - b.mean(0)) ** k).mean(0)))
    return total


def losses(parts: Array) -> tuple[float, float]:
    """How alike private parts are, and how different the shared ones; parts (n, private then shared, dim)."""
    half = parts.shape[1] // 2
    private, shared = [parts[:, k] for k in range(half)], [parts[:, half + k] for k in range(half)]
    apart = sum(difference(a, b) for a, b in [*zip(private, shared, strict=True), *itertools.combinations(private, 2)])
    return apart, float(np.mean([moments(a, b) for a, b in itertools.combinations(shared, 2)]))
