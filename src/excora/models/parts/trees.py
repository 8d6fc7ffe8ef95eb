"""Regression trees as plain tensors: what a file keeps of them, how they read rows, and what a file may not hold.

A node has a channel and a threshold; a row goes on to its second child where its channel is above the threshold, else
to the first. A leaf is its own child, so :data:`DEPTH` steps from a root end at a leaf, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

#: Steps from a root to a leaf, at most.
DEPTH = 10
#: Cells (rows x trees) in memory at a time.
CELLS = 2**21


class Trees(NamedTuple):
    """Their sum is a function of rows.

    >>> child = [[1, 2], [1, 1], [2, 2]]
    >>> step = Trees(*map(torch.tensor, ([0], [0, 0, 0], [0.5, 0.0, 0.0], child, [[0.0], [3.0], [7.0]])))
    >>> step(torch.tensor([[0.2], [0.9]]))
    tensor([[3.],
            [7.]], dtype=torch.float64)
    """

    root: Tensor  #: (trees,) the number of the first node of each
    feature: Tensor  #: (nodes,) the channel that is compared
    threshold: Tensor  #: (nodes,)
    child: Tensor  #: (nodes, 2) numbers of nodes; of a leaf its own
    value: Tensor  #: (nodes, targets)

    def __call__(self, x: Tensor) -> Tensor:
        """sum_t value[leaf of tree t] of rows (n, channels): (n, targets), in double precision."""
        trees, value = len(self.root), self.value.double()
        # Places in a part are numbers of 32 bits, which are read from memory in half the time of longer ones.
        step = max(min(CELLS // max(trees, 1), 2**30 // max(x.shape[1], 1)), 1)
        found = []
        for part in x.split(step):
            each = value.index_select(0, self.leaves(part).flatten())
            found.append(each.view(len(part), trees, value.shape[1]).sum(1))
        return torch.cat(found)

    def leaves(self, x: Tensor) -> Tensor:
        """The number of the leaf of each row in each tree, (n, trees)."""
        cells, threshold, child = x.flatten(), self.threshold.to(x.dtype), self.child.int().flatten()
        first = (torch.arange(len(x), dtype=torch.int32, device=x.device) * x.shape[1]).unsqueeze(1)
        first = first.expand(-1, len(self.root)).flatten()
        node = self.root.int().expand(len(x), -1).flatten()
        for _ in range(DEPTH):
            above = cells.index_select(0, first + self.feature.int().index_select(0, node))
            node = child.index_select(0, 2 * node + (above > threshold.index_select(0, node)))
        return node.view(len(x), len(self.root))

    def broken(self, channels: int) -> list[str]:
        """The names of what would lead out of the nodes or the channels, or back."""
        nodes = len(self.feature)
        number = torch.arange(nodes)
        leaf = (self.child == number.unsqueeze(1)).all(1)
        within = {
            "root": (self.root >= 0) & (self.root < nodes),
            "feature": (self.feature >= 0) & (self.feature < channels),
            "child": leaf | ((self.child > number.unsqueeze(1)) & (self.child < nodes)).all(1),
        }
        return [name for name, fine in within.items() if not bool(fine.all())]


def joined(fitted: Sequence[Any], offset: int = 0) -> Trees:
    """Fitted trees of scikit-learn, by their ``tree_``, as one set; their columns are channels from ``offset`` on.

    Rows are float32, thresholds float64 there: x <= t is x <= t', with t' the largest float32 that is not above t.
    """
    parts = [one.tree_ for one in fitted]
    counts = [part.node_count for part in parts]
    roots = np.cumsum([0, *counts])[:-1]
    exact = np.concatenate([part.threshold for part in parts])
    threshold = exact.astype(np.float32)
    threshold = np.where(threshold > exact, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    own = np.arange(sum(counts))[:, None]
    pairs = [np.stack([part.children_left, part.children_right], 1) for part in parts]
    child = np.concatenate([np.where(pair < 0, -1, pair + root) for pair, root in zip(pairs, roots, strict=True)])
    feature = np.maximum(np.concatenate([part.feature for part in parts]), 0) + offset
    value = np.concatenate([part.value[:, :, 0] for part in parts])
    whole = (torch.from_numpy(array).int() for array in (roots, feature, np.where(child < 0, own, child)))
    root, channel, children = whole
    return Trees(root, channel, torch.from_numpy(threshold), children, torch.from_numpy(value).float())
