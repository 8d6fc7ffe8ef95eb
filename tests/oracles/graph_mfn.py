"""Graph-MFN from its description, one sample and one step at a time, in numpy and float64; three modalities."""

from __future__ import annotations

import numpy as np

from oracles.sentiment import Array, Sample, Weights, linear, lstm_cell, relu, resampled, sigmoid, under

NAMES = ("text", "audio", "vision")
PAIRS = ((0, 1), (0, 2), (1, 2))


def graph(p: Weights, singles: list[Array]) -> Array:
    """The node tau: efficacies in the order in which the nodes use them, 2, 2, 2, 6 and 7."""

    def two(name: str, parts: list[Array], e: Array) -> Array:
        return linear(
            p, f"{name}.1", linear(p, f"{name}.0", np.concatenate([w * x for w, x in zip(e, parts, strict=True)]))
        )

    e = np.concatenate(singles)
    for number in range(3):
        e = linear(p, f"efficacies.{number}", e)
    assert len(e) == 19
    pairs = [two(f"nodes.{k}", [singles[i], singles[j]], e[2 * k : 2 * k + 2]) for k, (i, j) in enumerate(PAIRS)]
    triple = two("nodes.3", [*singles, *pairs], e[6:12])
    return two("summary", [*singles, *pairs, triple], e[12:])


def graph_mfn(p: Weights, sample: Sample) -> Array:
    """The prediction of a sample."""
    steps = len(sample["text"])
    x = {name: resampled(sample[name], steps) for name in NAMES}
    h = {name: np.zeros(p[f"lstms.{name}.weight_hh_l0"].shape[1]) for name in NAMES}
    c = dict(h)
    memory = np.zeros(p["chat.2.weight"].shape[0])
    for t in range(steps):
        singles = []
        for name in NAMES:
            new, c[name] = lstm_cell(under(p, f"lstms.{name}."), "_l0", x[name][t], h[name], c[name])
            singles.append(relu(linear(p, f"singletons.{name}", np.concatenate([h[name], new]))))
            h[name] = new
        tau = graph(under(p, "graph."), singles)
        chat = np.tanh(linear(p, "chat.2", relu(linear(p, "chat.0", tau))))
        both = np.concatenate([tau, memory])
        keep, write = (
            sigmoid(linear(p, f"{gate}.3", relu(linear(p, f"{gate}.0", both)))) for gate in ("keep", "write")
        )
        memory = keep * memory + write * chat
    read = np.concatenate([*h.values(), memory])
    return linear(p, "head.2", relu(linear(p, "head.0", read)))
