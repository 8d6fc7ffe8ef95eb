"""Slow, obvious float64 version of one tree with drawn thresholds: every node keeps the numbers of its rows."""

from __future__ import annotations

import numpy as np


def gain(y: np.ndarray, weight: np.ndarray, one: np.ndarray) -> float:
    """How much less the weighted squared error is with two means than with one; ``one`` marks the rows of a side."""

    def error(part: np.ndarray) -> float:
        mean = np.average(y[part], axis=0, weights=weight[part])
        return float((weight[part, None] * (y[part] - mean) ** 2).sum())

    return error(one | ~one) - error(one) - error(~one)


def tree(x, y, weight, random, *, leaf, depth, share):
    """(feature, threshold, child, value) of nodes, which are parted in the order in which they were made."""
    drawn, tries = np.arange(x.shape[1]), max(int(share * x.shape[1]), 1)
    held, steps, feature, threshold, child = [np.arange(len(x))], [0], [], [], []
    for node, rows in enumerate(held):  # grows while it is walked
        found = None
        looks = tries if steps[node] < depth and len(rows) >= 2 * leaf else 0
        for at in range(x.shape[1]):
            if not looks:
                break
            if tries < x.shape[1]:
                swap = at + int(random.random() * (x.shape[1] - at))
                drawn[[at, swap]] = drawn[[swap, at]]
            column = x[rows, drawn[at]]
            low, high = column.min(), column.max()
            if low == high:
                continue
            looks -= 1
            cut = np.float32(float(low) + random.random() * float(high - low))
            cut = low if cut >= high else cut
            below = column <= cut
            if min(below.sum(), (~below).sum()) >= leaf:
                gained = gain(y[rows], weight[rows], below)
                if gained > 1e-9 and (found is None or gained > found[0]):
                    found = gained, drawn[at], cut, below
        if found is None:
            feature, threshold, child = [*feature, 0], [*threshold, 0.0], [*child, (node, node)]
            continue
        feature, threshold = [*feature, found[1]], [*threshold, found[2]]
        child.append((len(held), len(held) + 1))
        held += [rows[found[3]], rows[~found[3]]]
        steps += [steps[node] + 1] * 2
    value = [np.average(y[rows], axis=0, weights=weight[rows]) for rows in held]
    return np.array(feature), np.array(threshold), np.array(child), np.array(value)


def leaves(x, feature, threshold, child):
    """The leaf of each row, one after the other."""
    found = []
    for row in x:
        node = 0
        while child[node][0] != node:
            node = child[node][0] if row[feature[node]] <= threshold[node] else child[node][1]
        found.append(node)
    return np.array(found)
