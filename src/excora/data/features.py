"""Prepared features: what batches are read from."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data.dataset import Bags, Index, TableInput
from excora.data.elements import Elements
from excora.ragged import Ragged

#: Standardised values stop here: no training set is large enough to hold one, and float32 does not overflow.
CLIP = 1e6


class TableFeatures:
    """Rows of a table in memory, standardised."""

    def __init__(self, numeric: NDArray[np.float32], missing: NDArray[np.bool_], codes: NDArray[np.int64]) -> None:
        self._rows = TableInput(torch.from_numpy(numeric), torch.from_numpy(missing), torch.from_numpy(codes))
        self.sizes: Index = np.full(len(numeric), numeric.shape[1] + codes.shape[1], np.intp)

    def read(self, index: Index) -> TableInput:
        """The rows of ``index``."""
        rows = torch.as_tensor(index, dtype=torch.long)
        return TableInput(*(part[rows] for part in self._rows))


class BagFeatures:
    """Bags, standardised as they are read: (bag - mean) / std, feature by feature."""

    def __init__(self, bags: Bags, elements: Elements) -> None:
        self._bags = bags
        self._mean = np.array(elements.mean, np.float32)
        self._factor = np.minimum(1 / np.array(elements.std), 1e30).astype(np.float32)
        self.sizes: Index = np.asarray(bags.lengths, np.intp)

    def read(self, index: Index) -> torch.Tensor | Ragged:
        """The bags of ``index``: one tensor if they have one size, ragged otherwise."""
        elements, sizes = self._bags.gather(index), self.sizes[index]
        with np.errstate(over="ignore"):
            elements -= self._mean
            elements *= self._factor
        values = torch.from_numpy(np.clip(elements, -CLIP, CLIP, out=elements))
        if (sizes == sizes[0]).all():
            return values.view(len(sizes), int(sizes[0]), values.shape[1])
        return Ragged(values, torch.from_numpy(sizes))
