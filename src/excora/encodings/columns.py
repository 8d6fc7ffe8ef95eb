"""Rows of a table as tokens, one a column: the front of every model that attends over columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from excora.errors import InputError, MissingExtraError

Embeddings = Literal["linear", "piecewise", "periodic"]
#: What :class:`ColumnTokens` needs to know of the bins: the edges of each numeric column, or only how many there are.
Bins = Sequence[Tensor] | Sequence[int]
#: The parts of a row of a table.
PARTS = ("numeric", "missing", "codes")
#: Rows of a table by the names of their parts.
Rows = Mapping[str, Any]

_NARROWEST = 1e-6  # of the range: a narrower bin has a slope that turns a rounding error into a signal


class ColumnTokens(nn.Module):
    """One token a column, and before them one without a column if ``cls``: the read-out's query.

    ::

        number   E_j(x_j) + b_j,    E_j(x) = x w_j ("linear"), or that of rtdl_num_embeddings
        missing  E_j(0) + m_j + b_j
        category e_j[code] + b_j
        cls      b_0

    w, b and e start uniform in +-1/sqrt(dim), as in the FT-Transformer; m starts at 0, where a missing number is an
    average one, and stays there for a column that never lacks one in training.

    ``embeddings="piecewise"`` (version B: starts linear) needs ``bins``: the edges from :func:`quantile_bins`, or their
    numbers alone, :attr:`edges`, where a state dict will bring the rest. ``"periodic"`` has a learned set of
    ``frequencies`` a column, drawn with the spread ``frequency_scale``.

    ``numeric`` columns, and the number of codes of each categorical one. Called with the inputs of n rows by name,
    ``numeric`` and ``missing`` (n, numeric), ``codes`` (n, categorical), it gives (n, tokens, dim).

    >>> tokens = ColumnTokens(2, (3,), dim=8, cls=True)
    >>> codes = torch.tensor([[0], [1], [2], [2], [0]])
    >>> tokens({"numeric": torch.randn(5, 2), "missing": torch.zeros(5, 2, dtype=torch.bool), "codes": codes}).shape
    torch.Size([5, 4, 8])
    """

    starts: Tensor

    def __init__(
        self,
        numeric: int,
        categories: Sequence[int],
        *,
        dim: int,
        cls: bool = False,
        embeddings: Embeddings = "linear",
        bins: Bins | None = None,
        frequencies: int = 48,
        frequency_scale: float = 0.01,
    ) -> None:
        super().__init__()
        self.numeric, self.categorical, self.cls = numeric, len(categories), int(cls)
        if not self.numeric + self.categorical:
            raise InputError("a table needs at least one numeric or categorical column, got none")
        if (bins is not None) != (embeddings == "piecewise"):
            raise InputError(f"bins go with embeddings='piecewise' and with nothing else, got {embeddings!r}")
        self.edges = None if bins is None else tuple(b if isinstance(b, int) else len(b) for b in bins)
        if self.edges is not None and len(self.edges) != self.numeric:
            raise InputError(
                f"bins must be given for each of the {self.numeric} numeric columns, got {len(self.edges)}"
            )
        self.embed: Any = _embedding(embeddings, self.numeric, dim, bins, frequencies, frequency_scale)
        self.weight = nn.Parameter(torch.empty(self.numeric, dim)) if self.embed is None else None
        self.bias = nn.Parameter(torch.empty(self.cls + self.numeric + self.categorical, dim))
        self.missing = nn.Parameter(torch.zeros(self.numeric, dim))
        self.codes = nn.Embedding(sum(categories), dim) if self.categorical else None
        for parameter in (self.weight, self.bias, None if self.codes is None else self.codes.weight):
            if parameter is not None:
                nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5)
        starts = torch.tensor([0, *categories[:-1]] if categories else [], dtype=torch.long)
        self.register_buffer("starts", starts.cumsum(0), persistent=False)

    def forward(self, x: Rows) -> Tensor:
        """The tokens of each row."""
        if not isinstance(x, Mapping) or not x.keys() >= {*PARTS}:
            found = sorted(x) if isinstance(x, Mapping) else type(x).__name__
            raise InputError(f"rows of a table are read by the names {', '.join(PARTS)}, got {found}")
        codes = None if self.codes is None else self.codes(x["codes"] + self.starts)
        return self._lay(x, self.weight, self.bias, self.missing, codes)

    def project(self, x: Rows, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """What ``F.linear(tokens, weight, bias)`` gives, where ``tokens`` are those of ``x``.

        A linear embedding commutes with a projection, W (x w_j + b_j) = x (W w_j) + W b_j: it is enough to project
        two vectors a column instead of one a row and column.
        """
        if self.weight is None:
            return F.linear(tokens, weight, bias)
        codes = None if self.codes is None else F.linear(self.codes(x["codes"] + self.starts), weight)
        return self._lay(
            x, F.linear(self.weight, weight), F.linear(self.bias, weight, bias), F.linear(self.missing, weight), codes
        )

    def _lay(self, x: Rows, weight: Tensor | None, bias: Tensor, missing: Tensor, codes: Tensor | None) -> Tensor:
        """Content and bias in their places. Columns without a number count as numbers that are 0."""
        numbers = x["numeric"].masked_fill(x["missing"], 0.0)
        if weight is None:
            out = F.pad(self.embed(numbers), (0, 0, self.cls, self.categorical)) + bias
        else:
            places = F.pad(weight, (0, 0, self.cls, self.categorical))
            out = _Affine.apply(F.pad(numbers, (self.cls, self.categorical)).to(weight.dtype), places, bias)
        if codes is not None:
            out[:, self.cls + self.numeric :].add_(codes)
        row, column = x["missing"].nonzero(as_tuple=True)
        # Also without a missing number: every parameter gets a gradient, which data-parallel training insists on.
        return out.index_put_((row, column + self.cls), missing[column].to(out.dtype), accumulate=True)

    def extra_repr(self) -> str:
        """What there is, in ``print(model)``."""
        return f"cls={bool(self.cls)}, numeric={self.numeric}, categorical={self.categorical}"


class _Affine(torch.autograd.Function):
    """y_sj = x_sj w_j + b_j, (n, tokens, dim); backward in one product and without a tensor of the size of y."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addcmul(bias, x.unsqueeze(-1), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        rows = torch.stack([x.T, torch.ones_like(x.T)], 1)  # (tokens, 2, n)
        sums = torch.bmm(rows, grad.transpose(0, 1))
        grad_x = torch.einsum("std,td->st", grad, weight) if ctx.needs_input_grad[0] else None
        return grad_x, sums[:, 0].contiguous(), sums[:, 1].contiguous()  # DDP warns of other strides


def quantile_bins(
    numeric: NDArray[np.floating[Any]] | Tensor, missing: NDArray[np.bool_] | Tensor | None = None, *, bins: int = 48
) -> list[Tensor]:
    """Edges of at most ``bins`` bins for each column of the *training* rows, with about as many values in each.

    ``numeric`` (n, columns), ``missing`` likewise, True where there is no value. Repeated quantiles become one edge.
    Every column gets 3 edges or more: a two-valued one a bin on each side of the middle, a constant or empty one a
    bin on each side of its value (or of 0).

    >>> [edges.tolist() for edges in quantile_bins(torch.tensor([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]), bins=2)]
    [[1.0, 2.0, 3.0], [0.0, 5.0, 10.0]]
    """
    if bins < 2:
        raise InputError(f"bins must be at least 2, got {bins}")
    x = np.asarray(numeric, dtype=np.float64)
    hidden = np.zeros(x.shape, dtype=bool) if missing is None else np.asarray(missing, dtype=bool)
    if x.ndim != 2 or hidden.shape != x.shape:
        raise InputError(
            f"numeric must be (rows, columns) and missing of the same shape, got {x.shape} and {hidden.shape}"
        )
    if not np.isfinite(x[~hidden]).all():
        raise InputError("numeric must be finite wherever it is not missing: mark NaN and infinity as missing")
    return [_edges(x[~hidden[:, j], j], bins) for j in range(x.shape[1])]


def _edges(values: NDArray[np.float64], bins: int) -> Tensor:
    if not len(values):
        values = np.zeros(1)
    edges = np.quantile(values, np.linspace(0.0, 1.0, bins + 1)).astype(np.float32).astype(np.float64)
    reach = edges[-1] - edges[0]
    edges = edges[np.diff(edges, prepend=-np.inf) > _NARROWEST * reach]  # a repeated quantile goes as well
    middle = edges.mean()
    if len(edges) == 2 and edges[0] < np.float32(middle) < edges[1]:
        edges = np.insert(edges, 1, middle)
    if len(edges) < 3:
        half = max(1.0, abs(middle), reach)
        edges = np.array([middle - half, middle, middle + half])
    return torch.from_numpy(edges.astype(np.float32))


def _embedding(
    name: Embeddings, numeric: int, dim: int, bins: Bins | None, frequencies: int, frequency_scale: float
) -> nn.Module | None:
    """E of a name; None for the linear one, and where there are no numbers."""
    if name not in ("linear", "piecewise", "periodic"):
        raise InputError(f"embeddings must be 'linear', 'piecewise' or 'periodic', got {name!r}")
    if name == "linear" or not numeric:
        return None
    try:
        import rtdl_num_embeddings as rtdl
    except ImportError:
        raise MissingExtraError("rtdl_num_embeddings", "app") from None
    if name == "periodic":
        return rtdl.PeriodicEmbeddings(
            numeric, dim, n_frequencies=frequencies, frequency_init_scale=frequency_scale, lite=False
        )
    known = [b for b in bins or () if not isinstance(b, int)]
    if len(known) == numeric:
        return rtdl.PiecewiseLinearEmbeddings(known, dim, activation=False, version="B")
    # A number of edges stands for edges that a state dict will overwrite: any that rise. They are looked at, which
    # the device "meta" does not allow.
    with torch.device("cpu"):
        edges = [torch.arange(float(b if isinstance(b, int) else len(b))) for b in bins or ()]
        return rtdl.PiecewiseLinearEmbeddings(edges, dim, activation=False, version="B")
