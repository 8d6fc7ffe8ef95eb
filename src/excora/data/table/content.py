"""A table in memory: as the user has it, as a model needs to know it, and prepared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from excora.data.dataset import Index, Inputs, Spec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Table:
    """The feature columns, one row a sample."""

    kind: ClassVar[str] = "table"
    frame: pd.DataFrame
    #: Columns that no model could read, so they are not in the frame, and why: a problem if training had them.
    unusable: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, index: Index) -> Table:
        """The rows of ``index``, in that order."""
        return Table(self.frame.iloc[index].reset_index(drop=True), self.unusable)

    def mark(self, found: Any) -> None:
        """Names and cells."""
        import pandas as pd

        found.update("\0".join(map(str, self.frame.columns)).encode())
        found.update(pd.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes())

    @property
    def columns(self) -> dict[str, pd.Series[Any]]:
        """The columns by name, which is text."""
        return {str(name): self.frame[name] for name in self.frame.columns}


@dataclass(frozen=True, kw_only=True)
class TableSpec(Spec):
    """What a network reads of a table's rows: ``numeric`` (n, c), ``missing`` (n, c) and ``codes`` (n, columns)."""

    kind: ClassVar[str] = "table"
    numeric: int = 0  #: numeric columns
    categories: tuple[int, ...] = ()  #: codes of each categorical column, 0 (unseen) included

    @property
    def summary(self) -> int:
        """Numbers, whether they are missing, and a column for each category."""
        return 2 * self.numeric + sum(self.categories)

    def summarise(self, inputs: Inputs) -> Tensor:
        """[numeric, missing, one-hot codes], (n, summary); a category that training has not seen is its column 0.

        >>> rows = {"numeric": torch.tensor([[0.5]]), "missing": torch.tensor([[False]]), "codes": torch.tensor([[1]])}
        >>> TableSpec(targets=1, numeric=1, categories=(2,)).summarise(rows)
        tensor([[0.5000, 0.0000, 0.0000, 1.0000]])
        """
        x: Any = inputs
        numbers = x["numeric"].masked_fill(x["missing"], 0.0)
        hot = [F.one_hot(x["codes"][:, k], n) for k, n in enumerate(self.categories)]
        return torch.cat([numbers, *(part.to(numbers.dtype) for part in (x["missing"], *hot))], 1)


class TableFeatures:
    """Rows of a table in memory, standardised.

    ``numeric`` (n, c) float32, 0 where missing; ``missing`` (n, c) bool; ``codes`` (n, columns) int64, 0 for a
    category that training has not seen.
    """

    def __init__(self, numeric: NDArray[np.float32], missing: NDArray[np.bool_], codes: NDArray[np.int64]) -> None:
        self._rows = {
            "numeric": torch.from_numpy(numeric),
            "missing": torch.from_numpy(missing),
            "codes": torch.from_numpy(codes),
        }
        self.sizes: Index = np.full(len(numeric), numeric.shape[1] + codes.shape[1], np.intp)

    def read(self, index: Index) -> Inputs:
        """The rows of ``index``."""
        rows = torch.as_tensor(index, dtype=torch.long)
        return {name: part[rows] for name, part in self._rows.items()}
