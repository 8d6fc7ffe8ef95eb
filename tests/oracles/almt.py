"""ALMT from its description, one sample at a time, every query and every key, in numpy and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oracles.sentiment import Array, Sample, Weights, gelu, linear, norm, relu, softmax, under


class Gain(NamedTuple):
    """ECA of one attention: gamma of the mean value, tau of a dispersion."""

    gamma: Callable[[Array], float]
    tau: Callable[[float], float]
    values: bool = False  #: dispersion of the value vectors instead of the frames before positions


def gamma(p: Weights, mean: Array, *, paper: bool) -> float:
    """The gain from its MLP: min(1 + softplus(.), 2) of relu units, or 4 / (1 + 3 exp(-.)) of tanh units."""
    hidden = linear(p, "gain.hidden", mean)
    raw = float(linear(p, "gain.out", relu(hidden) if paper else np.tanh(hidden))[0])
    return min(1 + np.log1p(np.exp(raw)), 2.0) if paper else 4 / (1 + 3 * np.exp(-raw))


def attention(q: Array, k: Array, v: Array, heads: int, gain: float = 1.0, tau: float = 1.0) -> Array:
    """(queries, inner): head by head, m + gamma (a - m)."""
    found = []
    for q_h, k_h, v_h in zip(*(np.split(x, heads, 1) for x in (q, k, v)), strict=True):
        weights = softmax(q_h @ k_h.T / np.sqrt(q_h.shape[1]) / tau)
        mean = v_h.mean(0)
        found.append(mean + gain * (weights @ (v_h - mean)))
    return np.concatenate(found, 1)


def layer(p: Weights, target: Array, source: Array, heads: int, gain: Gain | None = None, sigma: float = 0.0) -> Array:
    """Attention and feed-forward, all queries."""
    q, k, v = (linear(p, f"to_{x}", norm(p, f"norm_{x}", s)) for x, s in (("q", target), ("k", source), ("v", source)))
    larger = tau = 1.0
    if gain is not None:
        literal = float(np.sqrt(np.square(v - v.mean(0)).sum(1).mean()))
        larger, tau = gain.gamma(v.mean(0)), gain.tau(literal if gain.values else sigma)
    target = target + linear(p, "to_out", attention(q, k, v, heads, larger, tau))
    return target + linear(p, "second", gelu(linear(p, "first", norm(p, "norm", target))))


def reader(p: Weights, frames: Array, heads: int, gain: Gain | None) -> Array:
    """Tokens and frames through a whole layer; the tokens are kept."""
    projected = linear(p, "project", frames)
    sigma = float(np.sqrt(np.square(projected - projected.mean(0)).sum(1).mean()))
    x = np.concatenate([p["tokens"], projected])
    x = x + p["positions"][: len(x)]
    return layer(under(p, "layer."), x, x, heads, gain, sigma)[: len(p["tokens"])]


def almt(
    p: Weights, sample: Sample, heads: int, layers: int, fusion: int, gains: dict[str, Gain] | None = None
) -> Array:
    """The prediction of a sample."""
    gains = gains or {}
    read = {name: reader(under(p, f"readers.{name}."), x, heads, gains.get(name)) for name, x in sample.items()}
    language = [read["text"] + p["positions"]]
    for number in range(layers - 1):
        language.append(layer(under(p, f"language.{number}."), language[-1], language[-1], heads))
    h = p["hyper"]
    for number in range(layers):
        part = under(p, f"guided.{number}.")
        q, total = linear(part, "to_q", norm(part, "norm_q", language[number])), 0.0
        for name in (name for name in ("audio", "vision") if name in sample):
            x = norm(part, f"norms.{name}", read[name])
            total = total + attention(q, linear(part, f"to_k.{name}", x), linear(part, f"to_v.{name}", x), heads)
        h = norm(part, "norm_h", h) + linear(part, "to_out", np.asarray(total))
    source = np.concatenate([p["token"][None], h]) + p["source_positions"]
    target = np.concatenate([p["token"][None], language[-1]]) + p["target_positions"]
    for number in range(fusion):
        target = layer(under(p, f"fusion.{number}."), target, source, heads)
    return linear(p, "head", target[0])
