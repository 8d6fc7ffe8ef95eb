"""The sentiment models from their description, one sample at a time, in numpy and float64.

``p`` are weights by name; a sample is a dictionary of its real steps, (steps, width) each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
Sample = Mapping[str, Array]


def under(p: Weights, prefix: str) -> dict[str, Array]:
    """The weights whose names begin so, without it."""
    return {name.removeprefix(prefix): x for name, x in p.items() if name.startswith(prefix)}


def linear(p: Weights, name: str, x: Array) -> Array:
    """W x + b, if there is a b."""
    return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0.0)


def norm(p: Weights, name: str, x: Array) -> Array:
    """LayerNorm over the last axis."""
    middle = x - x.mean(-1, keepdims=True)
    return middle / np.sqrt(np.square(middle).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def fixed_norm(p: Weights, name: str, x: Array) -> Array:
    """BatchNorm in evaluation, or the norm of inputs, over the last axis; perhaps of the first channels alone."""
    wide = x.shape[-1]
    mean = p.get(f"{name}.running_mean", p.get(f"{name}.mean"))[:wide]
    variance = p.get(f"{name}.running_var", p.get(f"{name}.variance"))[:wide]
    return (x - mean) / np.sqrt(variance + 1e-5) * p[f"{name}.weight"][:wide] + p[f"{name}.bias"][:wide]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def gelu(x: Array) -> Array:
    """x Phi(x), by the error function."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(z: Array) -> Array:
    """Over the last axis."""
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lstm_cell(p: Weights, suffix: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """One step: gates in the order i, f, g, o."""
    gates = x @ p[f"weight_ih{suffix}"].T + p[f"bias_ih{suffix}"] + h @ p[f"weight_hh{suffix}"].T
    i, f, g, o = np.split(gates + p[f"bias_hh{suffix}"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm(p: Weights, suffix: str, x: Array) -> Array:
    """All states of one layer, (steps, hidden)."""
    hidden = p[f"weight_hh{suffix}"].shape[1]
    h, c, states = np.zeros(hidden), np.zeros(hidden), []
    for step in x:
        h, c = lstm_cell(p, suffix, step, h, c)
        states.append(h)
    return np.array(states)


def subnet(p: Weights, x: Array) -> Array:
    """Norm, then three times Linear and ReLU."""
    x = fixed_norm(p, "norm", x)
    for number in (1, 3, 5):
        x = relu(linear(p, f"body.{number}", x))
    return x


def utterances(p: Weights, sample: Sample) -> list[Array]:
    """One vector a modality: audio, vision, text."""
    found = [subnet(under(p, f"{name}."), sample[name].mean(0)) for name in ("audio", "vision") if name in sample]
    if "text" in sample:
        found.append(linear(p, "text.out", lstm(under(p, "text.lstm."), "_l0", sample["text"])[-1]))
    return found


def mlp(p: Weights, places: tuple[int, ...], x: Array) -> Array:
    """Linear layers of these numbers with ReLU between."""
    for number in places[:-1]:
        x = relu(linear(p, str(number), x))
    return linear(p, str(places[-1]), x)


def tfn(p: Weights, sample: Sample) -> Array:
    """Tensor fusion."""
    tensor = np.ones(1)
    for vector in utterances(under(p, "utterances."), sample):
        tensor = np.outer(tensor, np.append(1.0, vector)).ravel()
    return p["low"] + (p["high"] - p["low"]) * sigmoid(mlp(under(p, "body."), (1, 3, 5), tensor))


def lmf(p: Weights, sample: Sample) -> Array:
    """Low-rank fusion."""
    names = [name for name in ("audio", "vision", "text") if name in sample]
    vectors = utterances(under(p, "utterances."), sample)
    total = p["bias"][0].copy()
    for rank, weight in enumerate(p["weight"][0]):
        product = np.ones_like(total)
        for name, vector in zip(names, vectors, strict=True):
            product *= np.append(1.0, vector) @ p[f"factors.{name}"][rank]
        total += weight * product
    return total


def lf_dnn(p: Weights, sample: Sample) -> Array:
    """Late fusion."""
    return mlp(under(p, "body."), (1, 3, 5), np.concatenate(utterances(under(p, "utterances."), sample)))


def resampled(frames: Array, steps: int) -> Array:
    """Frames in so many steps: the mean of those that a step touches."""
    n = len(frames)
    return np.array([frames[t * n // steps : -(-(t + 1) * n // steps)].mean(0) for t in range(steps)])


def ef_lstm(p: Weights, sample: Sample, layers: int) -> Array:
    """Early fusion; a channel of the norm is a step."""
    steps = len(sample["text"])
    x = np.concatenate([resampled(sample[name], steps) for name in ("text", "audio", "vision") if name in sample], 1)
    x = fixed_norm(p, "norm", x.T).T
    for layer in range(layers):
        x = lstm(under(p, "lstm."), f"_l{layer}", x)
    return mlp(under(p, "head."), (1, 4), x[-1])
