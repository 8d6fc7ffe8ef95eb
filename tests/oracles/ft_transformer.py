"""The FT-Transformer one row, one head and one query at a time, in numpy float64, what nobody reads included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = Mapping[str, Array]


def forward(
    p: State, numeric: Array, missing: NDArray[np.bool_], codes: NDArray[np.int64], *, categories: tuple[int, ...],
    blocks: int, heads: int, form: dict[str, object], where: str,
) -> dict[str, Array]:  # fmt: skip
    """``p`` is the state dict as arrays. ``form``: residual, temperature, cap, scale; empty for softmax."""
    rows = [
        row(p, tokens(p, *one, categories=categories), blocks=blocks, heads=heads, form=form, where=where)
        for one in zip(numeric, missing, codes, strict=True)
    ]
    return {name: np.stack([one[name] for one in rows]) for name in rows[0]}


def tokens(p: State, numeric: Array, missing: NDArray[np.bool_], codes: NDArray[np.int64], *,
           categories: tuple[int, ...]) -> Array:  # fmt: skip
    """CLS, then the numbers, then the categories: (tokens, dim)."""
    bias = p["encoder.tokens.bias"]
    out = [bias[0]]
    for j, x in enumerate(numeric):
        content = p["encoder.tokens.missing"][j] if missing[j] else x * p["encoder.tokens.weight"][j]
        out.append(content + bias[1 + j])
    for j, code in enumerate(codes):
        table = p["encoder.tokens.codes.weight"][sum(categories[:j]) :]
        out.append(table[code] + bias[1 + len(numeric) + j])
    return np.stack(out)


def row(p: State, t: Array, *, blocks: int, heads: int, form: dict[str, object], where: str) -> dict[str, Array]:
    """All blocks on one row's tokens; the last block's attention and feed-forward run on every token too."""
    gammas, last = [], {}
    for b in range(blocks):
        final = b == blocks - 1
        name, after = ("pool", "head") if final else (f"encoder.blocks.{b}", f"encoder.blocks.{b}")
        u = t if b == 0 else layer_norm(p, f"{name}.norm", t)
        here = form if final or where == "all" else {}
        mixed, last = attention(p, f"{name}.attention", u, heads=heads, form=here)
        gammas += [last["gamma"]] if here else []
        t = t + mixed
        value = t[0]
        t = t + feedforward(p, f"{after}.feedforward", t)
    relu = np.maximum(layer_norm(p, "head.norm", t[0]), 0.0)
    prediction = p["head.out.weight"] @ relu + p["head.out.bias"]
    penalty = 1e-3 * sum((gamma - 1.0) ** 2 for gamma in gammas)
    return last | {"prediction": prediction, "value": value, "penalty": np.float64(penalty)}


def layer_norm(p: State, name: str, t: Array) -> Array:
    centred = t - t.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def feedforward(p: State, name: str, t: Array) -> Array:
    h = layer_norm(p, f"{name}.norm", t) @ p[f"{name}.first.weight"].T + p[f"{name}.first.bias"]
    a, b = np.split(h, 2, axis=-1)
    return (a * np.maximum(b, 0.0)) @ p[f"{name}.second.weight"].T + p[f"{name}.second.bias"]


def attention(p: State, name: str, u: Array, *, heads: int, form: dict[str, object]) -> tuple[Array, dict[str, Array]]:
    """Self-attention of one row's tokens, and what the first query (CLS) did."""
    dim, width = u.shape[1], u.shape[1] // heads
    weight, bias = p[f"{name}.inner.weight"], p[f"{name}.inner.bias"]
    q, k, v = (u @ weight[i * dim : (i + 1) * dim].T + bias[i * dim : (i + 1) * dim] for i in range(3))
    mean = v.mean(0)
    sigma = np.sqrt(((v - mean) ** 2).sum(1).mean())
    gamma, tau = extrapolation(p, f"{name}.extrapolation", mean, sigma, form) if form else (1.0, 1.0)
    out, weights, logits = np.zeros_like(u), np.zeros((heads, len(u))), np.zeros((heads, len(u)))
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(len(u)):
            z = np.array([q[i, part] @ k[j, part] for j in range(len(u))]) / np.sqrt(width)
            exp = np.exp((z - z.max()) / tau)
            alpha = exp / exp.sum()
            out[i, part] = mean[part] + gamma * sum(alpha[j] * (v[j, part] - mean[part]) for j in range(len(u)))
            if i == 0:
                weights[h], logits[h] = alpha, z
    if heads > 1:
        out = out @ p[f"{name}.outer.weight"].T + p[f"{name}.outer.bias"]
    seen = {
        "gamma": gamma,
        "temperature": tau,
        "dispersion": sigma,
        "weights": weights.mean(0),
        "logits": logits.mean(0),
    }
    return out, {key: np.asarray(x, dtype=np.float64) for key, x in seen.items()}


def extrapolation(p: State, name: str, mean: Array, sigma: float, form: dict[str, object]) -> tuple[float, float]:
    spread = sigma / np.sqrt(len(mean)) if form["scale"] == "sqrt_dim" else sigma
    gamma, tau, cap = 1.0, 1.0, form["cap"]
    if form["residual"] is not None:
        hidden = p[f"{name}.gain.hidden.weight"] @ mean + p[f"{name}.gain.hidden.bias"]
        free = form["residual"] == "free"
        hidden = np.tanh(hidden) if free else np.maximum(hidden, 0.0)
        raw = float(p[f"{name}.gain.out.weight"][0] @ hidden + p[f"{name}.gain.out.bias"][0])
        gamma = cap / (1.0 + (cap - 1.0) * np.exp(-raw)) if free else min(1.0 + np.log1p(np.exp(raw)), cap)
    if form["temperature"] == "learned":
        log_base, slope = (p[f"{name}.temperature.{part}"].item() for part in ("log_base", "slope"))
        tau = np.exp(log_base) * (1.0 + spread) ** slope
    elif form["temperature"] is not None:
        tau = form["temperature"][0] + form["temperature"][1] * spread
    return float(gamma), float(tau)
