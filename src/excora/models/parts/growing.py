"""One regression tree whose thresholds are drawn (Geurts, Ernst and Wehenkel, 2006), grown and read by compiled loops.

    split = argmax  sum_t S_L^2 / W_L + S_R^2 / W_R     over one threshold a column, drawn between least and largest

with W the sum of weights, and S that of weights times labels, on either side. A leaf says S / W of its rows.
Rows of a node are moved next to each other, so that the loops over them run in vectors; finite numbers are taken for
granted.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from excora.kernels.calls import compile_loop


def grow(x, rows, label, weight, random, *, leaf, depth, share):
    """A tree on ``rows`` of x (n, columns): feature, threshold, child (nodes, 2) and value (nodes, targets).

    ``label`` (rows, targets) and ``weight`` (rows,) are in the order of ``rows``. Both sides of a split have ``leaf``
    rows, it looks at ``share`` of the columns that are not constant, and no leaf is more than ``depth`` steps from the
    root. A leaf is its own child, and a child comes after its parent.
    """
    most = max(2 * (len(rows) // leaf) - 1, 1)
    made = np.empty(most, np.int32), np.empty(most, np.float32), np.empty((most, 2), np.int32)
    made = *made, np.empty((most, label.shape[1]))
    nodes = _grow(x, rows, label, weight, random, leaf, depth, share, *made)
    return tuple(part[:nodes] for part in made)


@compile_loop(fastmath=True)
def _grow(x, rows, label, weight, random, leaf, depth, share, feature, threshold, child, value):
    """The number of nodes that were written."""
    columns, heavy = _taken(x, rows, label, weight)
    (width, count), sums, most = columns.shape, len(heavy), len(feature)
    drawn, tries = np.arange(width), max(int(share * width), 1)
    total, left, below = np.empty(sums), np.empty(sums), np.empty(count, np.bool_)
    begins, ends, steps = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    begins[0], ends[0], steps[0], nodes, node = 0, count, 0, 1, 0
    while node < nodes:
        begin, end = begins[node], ends[node]
        best, found, size = 0.0, -1, 0
        for t in range(sums):
            total[t] = heavy[t, begin:end].sum()
        for t in range(1, sums):
            value[node, t - 1] = total[t] / total[0]
            best += total[t] * total[t] / total[0]
        feature[node], threshold[node], child[node, 0], child[node, 1] = 0, 0.0, node, node
        best += 1e-9 * best + 1e-30  # a split that parts nothing is no better than a leaf
        looks = tries if steps[node] < depth and end - begin >= 2 * leaf else 0
        for at in range(width):
            if not looks:
                break
            if tries < width:
                swap = at + int(random.random() * (width - at))
                drawn[at], drawn[swap] = drawn[swap], drawn[at]
            own = columns[drawn[at], begin:end]
            low, high = _ends(own)
            if low == high:
                continue
            looks -= 1
            cut = np.float32(low + random.random() * (high - low))
            cut = low if cut >= high else cut
            gain, fewer = _gain(own, heavy, begin, total, left, cut, leaf)
            if gain > best:
                best, found, size, threshold[node] = gain, drawn[at], fewer, cut
        if found >= 0:
            below[begin:end] = columns[found, begin:end] <= threshold[node]
            for c in range(width if steps[node] + 1 < depth else 0):
                _part(columns[c, begin:end], below[begin:end])
            for t in range(sums):
                _part(heavy[t, begin:end], below[begin:end])
            feature[node], child[node, 0], child[node, 1] = found, nodes, nodes + 1
            begins[nodes], ends[nodes], begins[nodes + 1], ends[nodes + 1] = begin, begin + size, begin + size, end
            steps[nodes] = steps[nodes + 1] = steps[node] + 1
            nodes += 2
        node += 1
    return nodes


@compile_loop(fastmath=True)
def _taken(x, rows, label, weight):
    """The columns of ``rows``, each in one piece; weights, and weights times labels."""
    columns = np.empty((x.shape[1], len(rows)), np.float32)
    heavy = np.empty((1 + label.shape[1], len(rows)))
    for k in range(len(rows)):
        for c in range(x.shape[1]):
            columns[c, k] = x[rows[k], c]
        heavy[0, k] = weight[k]
        for t in range(label.shape[1]):
            heavy[1 + t, k] = weight[k] * label[k, t]
    return columns, heavy


@compile_loop(fastmath=True, inline="always")
def _ends(values):
    low = high = values[0]
    for one in values:
        low, high = min(low, one), max(high, one)
    return low, high


@compile_loop(fastmath=True, inline="always")
def _gain(values, heavy, begin, total, left, cut, leaf):
    """sum_t S_L^2 / W_L + S_R^2 / W_R of a cut and the rows that are not above it; 0 where a side is too light."""
    fewer = 0.0
    for one in values:
        fewer += 1.0 if one <= cut else 0.0
    if min(fewer, len(values) - fewer) < leaf:
        return 0.0, 0
    for t in range(len(heavy)):
        summed, part = 0.0, heavy[t, begin : begin + len(values)]
        for k in range(len(values)):
            summed += part[k] if values[k] <= cut else 0.0
        left[t] = summed
    if min(left[0], total[0] - left[0]) <= 1e-12 * total[0]:  # rows whose weight is lost beside that of the others
        return 0.0, 0
    gain = 0.0
    for t in range(1, len(heavy)):
        gain += left[t] ** 2 / left[0] + (total[t] - left[t]) ** 2 / (total[0] - left[0])
    return gain, int(fewer)


@compile_loop(fastmath=True)
def _part(values, below):
    """Those that are ``below`` first, both in the order they had."""
    rest, a, b = np.empty_like(values), 0, 0
    for k in range(len(values)):
        one, yes = values[k], below[k]
        values[a] = rest[b] = one
        a += yes
        b += 1 - yes
    values[a:] = rest[:b]


@compile_loop(fastmath=True)
def add(said, rate, x, feature, threshold, child, value):
    """said (n, targets) += rate value[leaf] of rows x (n, columns)."""
    for row in range(len(x)):
        node = 0
        while child[node, 0] != node:
            node = child[node, int(x[row, feature[node]] > threshold[node])]
        for t in range(value.shape[1]):
            said[row, t] += rate * value[node, t]
