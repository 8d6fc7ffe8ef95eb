"""Regression trees as plain tensors: what a file keeps of them, how they read rows, and what a file may not hold.

A node has a channel and a threshold; a row goes on to its second child where its channel is above the threshold, else
to the first. A leaf is its own child, so :data:`DEPTH` steps from a root end at a leaf, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Steps from a root to a leaf, at most.
DEPTH = 14
#: Feature, threshold, child and value of the nodes of one tree, its root first.
Grown = tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], NDArray[np.float64]]
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


def joined(grown: Sequence[Grown], offset: int = 0) -> Trees:
    """Trees of :mod:`excora.models.parts.growing` as one set; their columns are channels from ``offset`` on."""
    feature, threshold, child, value = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*grown, strict=True))
    counts = torch.tensor([len(tree[0]) for tree in grown])
    root = (counts.cumsum(0) - counts).int()
    return Trees(root, feature + offset, threshold, child + root.repeat_interleave(counts).unsqueeze(1), value.float())
