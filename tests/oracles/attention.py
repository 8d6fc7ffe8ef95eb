"""Multi-head attention with gain and temperature, one query at a time, in numpy float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def head(q: Array, k: Array, v: Array, seen: NDArray[np.bool_], bias: Array, raw: tuple[Array, float, float, float],
         cap: float, divisor: float, paper: bool) -> tuple[Array, Array, dict[str, float]]:  # fmt: skip
    """One query (dim,) of one head over its keys (keys, dim); ``raw`` is (w, b, log T or T_min, beta)."""
    if not seen.any():
        return np.zeros(v.shape[1]), np.zeros(len(k)), {"gamma": np.nan, "temperature": np.nan, "dispersion": 0.0}
    w, b, log_t, beta = raw
    visible = v[seen]
    mean = visible.mean(0)
    sigma = np.sqrt(((visible - mean) ** 2).sum(1).mean())
    gamma = cap / (1.0 + (cap - 1.0) * np.exp(-(w @ mean + b)))
    tau = np.exp(log_t) * (1.0 + sigma / divisor) ** beta
    if paper:
        gamma, tau = min(1.0 + np.log1p(np.exp(w @ mean + b)), cap), log_t + beta * sigma / divisor
    logits = k[seen] @ q / (np.sqrt(len(q)) * tau) + bias[seen]
    exp = np.exp(logits - logits.max())
    weights = np.zeros(len(k))
    weights[seen] = exp / exp.sum()
    out = mean + gamma * (weights @ np.where(seen[:, None], v, 0.0) - mean)
    return out, weights, {"gamma": gamma, "temperature": tau, "dispersion": sigma}


def attention(
    p: Mapping[str, Array], query: Array, key: Array, value: Array, *, heads: int, seen: NDArray[np.bool_], bias: Array,
    cap: float = 4.0, scale: str = "sqrt_dim", fixed: tuple[float, float] | None = None,
) -> tuple[Array, Array, dict[str, Array]]:  # fmt: skip
    """Batch-first (bags, length, dim); ``seen`` and ``bias`` are (bags, heads, queries, keys).

    ``p`` holds the state dict as arrays; ``fixed`` (T_min, beta) asks for the paper's form. Returns the output, the
    weights of each head, and the details per query.
    """
    bags, queries, dim = query.shape
    width = dim // heads
    projections = p["in_proj_weight"].reshape(3, dim, -1) if "in_proj_weight" in p else [
        p[f"{x}_proj_weight"] for x in "qkv"]  # fmt: skip
    offsets = p["in_proj_bias"].reshape(3, dim) if "in_proj_bias" in p else np.zeros((3, dim))
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), projections, offsets, strict=True))
    if "bias_k" in p:
        k, v = (
            np.concatenate([x, np.broadcast_to(b, (bags, 1, dim))], 1) for x, b in ((k, p["bias_k"]), (v, p["bias_v"]))
        )
    if k.shape[1] < seen.shape[-1]:  # add_zero_attn
        k, v = (np.concatenate([x, np.zeros((bags, 1, dim))], 1) for x in (k, v))
    output, weights = np.zeros((bags, queries, dim)), np.zeros(seen.shape)
    details = {name: np.zeros((bags, heads, queries)) for name in ("gamma", "temperature", "dispersion")}
    for b in range(bags):
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            law = fixed or (p["extrapolation.temperature.log_base"][h], p["extrapolation.temperature.slope"][h])
            raw = (p["extrapolation.gain.weight"][h], p["extrapolation.gain.bias"][h], *law)
            for i in range(queries):
                output[b, i, part], weights[b, h, i], one = head(
                    q[b, i, part], k[b, :, part], v[b, :, part], seen[b, h, i], bias[b, h, i], raw, cap,
                    np.sqrt(width) if scale == "sqrt_dim" else 1.0, fixed is not None,
                )  # fmt: skip
                for name, x in one.items():
                    details[name][b, h, i] = x
    return output @ p["out_proj.weight"].T + p.get("out_proj.bias", 0.0), weights, details
