"""One regression tree whose thresholds are drawn (Geurts, Ernst and Wehenkel, 2006), grown and read by compiled loops.

    split = argmax  sum_t S_L^2 / W_L + S_R^2 / W_R     over one threshold a column, drawn between least and largest

with W the sum of weights, and S that of weights times labels, on either side. A leaf says S / W of its rows.
Rows of a node are moved next to each other, and their numbers are held as integers of the same order: loops over them
run in vectors, which those over floating-point numbers do not where a least one is sought. Finite numbers are taken for
granted.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from excora.kernels.calls import compile_loop

#: Rows that go down a tree side by side.
TOGETHER = 64


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
    both, both_heavy = _taken(x, rows, label, weight)
    (_, width, count), sums, most = both.shape, both_heavy.shape[1], len(feature)
    drawn, tries, alike = np.arange(width), max(int(share * width), 1), weight.min() == weight.max()
    total, left, order = np.empty(sums), np.empty(sums), np.empty(count, np.uint32)
    begins, ends, steps = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    begins[0], ends[0], steps[0], nodes, node = 0, count, 0, 1, 0
    while node < nodes:
        begin, end, here = begins[node], ends[node], steps[node] % 2
        columns, heavy = both[here], both_heavy[here]
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
            column = columns[drawn[at], begin:end]
            low, high = _ends(column)
            if low == high:
                continue
            looks -= 1
            low, high = _number(low), _number(high)
            cut = np.float32(low + random.random() * (high - low))
            cut = low if cut >= high else cut
            gain, fewer = _gain(column, heavy, begin, total, left, _key(cut), leaf, alike)
            if gain > best:
                best, found, size, threshold[node] = gain, drawn[at], fewer, cut
        if found >= 0:
            _order(columns[found, begin:end], _key(threshold[node]), order)
            if steps[node] + 1 < depth and max(size, end - begin - size) >= 2 * leaf:  # else both sides are leaves
                for c in range(width):
                    _take(columns[c, begin:end], order, both[1 - here, c, begin:end])
            for t in range(sums):
                _take(heavy[t, begin:end], order, both_heavy[1 - here, t, begin:end])
            feature[node], child[node, 0], child[node, 1] = found, nodes, nodes + 1
            begins[nodes], ends[nodes], begins[nodes + 1], ends[nodes + 1] = begin, begin + size, begin + size, end
            steps[nodes] = steps[nodes + 1] = steps[node] + 1
            nodes += 2
        node += 1
    return nodes


@compile_loop(fastmath=True)
def _taken(x, rows, label, weight):
    """The columns of ``rows``, each in one piece and as keys; weights, and weights times labels.

    Of either a first place, and a second that is empty: the rows of a node go from one to the other when it is parted.
    """
    both = np.empty((2, x.shape[1], len(rows)), np.int32)
    both_heavy = np.empty((2, 1 + label.shape[1], len(rows)))
    columns, heavy = both[0], both_heavy[0]
    for k in range(len(rows)):
        for c in range(x.shape[1]):
            columns[c, k] = _key(x[rows[k], c])
        heavy[0, k] = weight[k]
        for t in range(label.shape[1]):
            heavy[1 + t, k] = weight[k] * label[k, t]
    return both, both_heavy


@compile_loop(fastmath=True, inline="always")
def _key(number):
    """Of a 32-bit number: an integer, and of the greater number the greater one; both zeros have 0."""
    bits = np.float32(number).view(np.int32)
    return np.int32(bits if bits >= 0 else np.int32(-0x80000000) - bits)


@compile_loop(fastmath=True, inline="always")
def _number(key):
    """The number of a key."""
    return np.int32(key if key >= 0 else np.int32(-0x80000000) - key).view(np.float32)


@compile_loop(fastmath=True, inline="always")
def _ends(column):
    low = high = column[0]
    for k in range(len(column)):
        low = column[k] if column[k] < low else low
        high = column[k] if column[k] > high else high
    return low, high


@compile_loop(fastmath=True, inline="always")
def _gain(column, heavy, begin, total, left, cut, leaf, alike):
    """sum_t S_L^2 / W_L + S_R^2 / W_R of a cut and the rows that are not above it; 0 where a side is too light."""
    count, part, fewer, summed = len(column), heavy[1, begin : begin + len(column)], 0, 0.0
    for k in range(count):
        below = column[k] <= cut
        fewer += below
        summed += part[k] if below else 0.0
    if min(fewer, count - fewer) < leaf:
        return 0.0, 0
    left[0], left[1] = fewer * heavy[0, begin], summed
    for t in range(len(heavy)):
        if t > 1 or (t == 0 and not alike):
            summed, part = 0.0, heavy[t, begin : begin + count]
            for k in range(count):
                summed += part[k] if column[k] <= cut else 0.0
            left[t] = summed
    if min(left[0], total[0] - left[0]) <= 1e-12 * total[0]:  # rows whose weight is lost beside that of the others
        return 0.0, 0
    gain = 0.0
    for t in range(1, len(heavy)):
        gain += left[t] ** 2 / left[0] + (total[t] - left[t]) ** 2 / (total[0] - left[0])
    return gain, fewer


@compile_loop(fastmath=True, inline="always")
def _order(column, cut, order):
    """Where the rows of a node will come from: first those that are not above the cut, otherwise as they are."""
    place = 0
    for k in range(len(column)):
        order[place] = k
        place += column[k] <= cut
    for k in range(len(column)):
        if place < len(column):
            order[place] = k
        place += column[k] > cut


@compile_loop(fastmath=True, inline="always")
def _take(values, order, into):
    for k in range(len(values)):
        into[k] = values[order[k]]


@compile_loop(fastmath=True)
def add(said, rate, x, feature, threshold, child, value):
    """said (n, targets) += rate value[leaf] of rows x (n, columns).

    Rows go down side by side, as many steps as the longest way has (a leaf is its own child): what one waits for does
    not hold up the others.
    """
    steps, at = np.zeros(len(child), np.int64), np.empty(TOGETHER, np.uint32)
    for node in range(len(child)):
        if child[node, 0] != node:
            steps[child[node, 0]] = steps[child[node, 1]] = steps[node] + 1
    for begin in range(0, len(x), TOGETHER):
        some = x[begin : begin + TOGETHER]
        at[:] = 0
        for _ in range(steps.max()):
            for k in range(len(some)):
                at[k] = child[at[k], np.uint32(some[k, feature[at[k]]] > threshold[at[k]])]
        for k in range(len(some)):
            for t in range(value.shape[1]):
                said[begin + k, t] += rate * value[at[k], t]
