"""Our reading of ICCN, one sample at a time, in numpy and float64."""

from __future__ import annotations

import numpy as np

from oracles.sentiment import Array, Sample, Weights, linear, lstm, relu, under


def frames(p: Weights, x: Array) -> Array:
    """Convolution over three steps, ReLU, last state of an LSTM."""
    weight, padded = p["convolution.weight"], np.pad(x, ((1, 1), (0, 0)))
    h = np.array([np.einsum("dwk,kw->d", weight, padded[t : t + 3]) for t in range(len(x))]) + p["convolution.bias"]
    return lstm(under(p, "lstm."), "_l0", relu(h))[-1]


def convolution(weight: Array, bias: Array, image: Array) -> Array:
    """Of (channels, height, width), kernel 3, stride 2, a border of zeros, then ReLU."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    height, width = ((size + 1) // 2 for size in image.shape[1:])
    found = np.empty((len(weight), height, width))
    for i in range(height):
        for j in range(width):
            found[:, i, j] = np.einsum("ochw,chw->o", weight, padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]) + bias
    return relu(found)


def pairs(p: Weights, sample: Sample) -> list[Array]:
    """The vectors of text with audio and of text with vision."""
    found = []
    for name in ("audio", "vision"):
        image = np.outer(sample["text"].mean(0), frames(under(p, f"frames.{name}."), sample[name]))[None]
        for number in (0, 2):
            part = under(p, f"pairs.{name}.convolutions.{number}.")
            image = convolution(part["weight"], part["bias"], image)
        found.append(linear(p, f"pairs.{name}.out", image.ravel()))
    return found


def iccn(p: Weights, sample: Sample) -> Array:
    """The prediction of a sample."""
    with_audio, with_vision = pairs(p, sample)
    return linear(p, "head", np.concatenate([with_audio, sample["text"].mean(0), with_vision]))


def root(matrix: Array) -> Array:
    """The inverse square root of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(values**-0.5) @ vectors.T


def canonical_correlation(a: Array, b: Array) -> float:
    """The nuclear norm of S_aa^-1/2 S_ab S_bb^-1/2."""
    a, b, n = a - a.mean(0), b - b.mean(0), len(a) - 1
    first, second = (x.T @ x / n + 1e-3 * np.eye(x.shape[1]) for x in (a, b))
    return float(np.linalg.svd(root(first) @ (a.T @ b / n) @ root(second), compute_uv=False).sum())
