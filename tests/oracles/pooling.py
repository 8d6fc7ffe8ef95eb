"""Pools in numpy float64, a bag at a time, an element at a time: slow and obvious."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Bag(NamedTuple):
    value: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    dispersion: float
    radius: float


def eca_bag(elements: np.ndarray, logits: np.ndarray, gamma: float, tau: float) -> Bag:
    """v = mu + gamma sum_i alpha_i (h_i - mu), alpha = softmax(z / tau); one bag without padding."""
    elements = np.asarray(elements, np.float64)
    n, dim = elements.shape
    if n == 0:
        return Bag(np.zeros(dim), np.zeros(0), np.zeros(dim), 0.0, 0.0)
    mean = sum(elements) / n
    squares = [float(np.dot(h - mean, h - mean)) for h in elements]
    scaled = np.asarray(logits, np.float64) / tau if tau > 0 else np.zeros(n)
    exponentials = np.exp(scaled - scaled.max())
    weights = exponentials / exponentials.sum()
    value = mean + gamma * sum(a * (h - mean) for a, h in zip(weights, elements, strict=True))
    return Bag(value, weights, mean, float(np.sqrt(np.mean(squares))), float(np.sqrt(max(squares))))
