"""The FT-Transformer of Gorishniy et al. (2021) for tables, with softmax attention or ECA in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.data.dataset import Input, Inputs, TableInput
from excora.errors import InputError
from excora.extrapolation import Extrapolation, extrapolate, sharpness
from excora.functional import at_least_float32
from excora.models.blocks import Attention, Block, FeedForward, statistics
from excora.models.network import Network, Output
from excora.models.tokens import Bins, ColumnTokens, Embeddings
from excora.pooling import Pool, Pooled
from excora.ragged import Ragged
from excora.reduce import Penalty

#: The options of :class:`Extrapolation` that each kind of attention starts from; None: it has none.
_FORMS: dict[str, dict[str, Any] | None] = {
    "softmax": None,
    "eca": {},
    "eca-paper": {"residual": "paper", "temperature": (0.5, 1.0), "cap": 2.0},
}


class Encoder(nn.Module):
    """Tokens of a row, CLS first, after all blocks but the last."""

    def __init__(self, tokens: ColumnTokens, blocks: list[Block]) -> None:
        super().__init__()
        self.tokens, self.blocks = tokens, nn.ModuleList(blocks)

    def forward(self, x: TableInput) -> tuple[Tensor, list[Penalty]]:
        """(n, tokens, dim), and the penalties of the blocks that have a gain."""
        t: Tensor = self.tokens(x)
        kept: list[Penalty] = []
        for number, block in enumerate(cast(Iterable[Block], self.blocks)):
            qkv = None if number else self.tokens.project(x, t, *block.attention.projection())
            t, penalty = block(t, qkv)
            kept += [] if penalty is None else [penalty]
        return t, kept


class ReadOut(Pool):
    """The attention of the last block, where CLS alone asks: value = t_cls + drop(W_out [m + gamma (a - m)] + b_out).

    With u_i = LayerNorm(t_i) and v_i = W_v u_i + b_v, m is the mean of all v_i and a = sum_i alpha_i v_i, head by head.
    One query needs neither keys nor values of its own for every token: z_i = (W_k^T q).u_i + q.b_k, and
    a = W_v (sum_i alpha_i u_i) + b_v sum_i alpha_i. Only the temperature asks for every v_i, for their dispersion.

    :class:`Pooled`: value (n, dim) is the CLS token as the last feed-forward gets it, weights (n, tokens) and
    details["logits"] are means over heads; gamma, temperature and (where a temperature asks for it) dispersion are
    those of the sample.

    >>> pooled = ReadOut(8, 2)(torch.randn(3, 5, 8))
    >>> pooled.value.shape, pooled.weights.shape
    (torch.Size([3, 8]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        first: bool = False,
        attention_dropout: float = 0.0,
        residual_dropout: float = 0.0,
        extrapolation: Extrapolation | None = None,
    ) -> None:
        super().__init__(dim)
        self.norm = nn.Identity() if first else nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, attention_dropout, extrapolation)
        self.dropout = nn.Dropout(residual_dropout)

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Read h (n, tokens, dim), CLS first; every row has every token, so there is no mask."""
        self.check(h, mask)
        if isinstance(h, Ragged) or mask is not None:
            raise InputError("the read-out takes all tokens of a row, (n, tokens, dim): pass no Ragged and no mask")
        u: Tensor = self.norm(h)
        logits = self._logits(u)
        penalty = Penalty(logits.new_zeros(()), logits.new_zeros(()))
        details = {"logits": logits.mean(1)}
        ours = self.attention.extrapolation
        if ours is None:
            attended, weights = self._attend(u, logits)
        else:
            mean, sigma = self._statistics(u, ours)
            gamma, tau = ours.gamma(mean), ours.tau(sigma)
            attended, weights = self._attend(u, logits * sharpness(tau).view(-1, 1, 1))
            attended = extrapolate(mean, attended, gamma.unsqueeze(1)).to(attended.dtype)
            details |= {"gamma": gamma, "temperature": tau}
            details |= {} if ours.temperature is None else {"dispersion": sigma}
            penalty = ours.penalty(gamma)
        value = h[:, 0] + self.dropout(self.attention.outer(attended))
        return Pooled(value, weights.mean(1), penalty, details)

    def elements(self, h: Tensor) -> Tensor:
        """What the value is made of, for a monitor: t_cls + W_out v_i + b_out for each token of h, (n, tokens, dim).

        Where gamma is 1 and the heads agree on their weights, value = sum_i weights_i elements_i.

        >>> pool, h = ReadOut(8, 1), torch.randn(3, 5, 8)
        >>> pooled = pool(h)
        >>> torch.allclose(pooled.value, torch.bmm(pooled.weights[:, None], pool.elements(h))[:, 0], atol=1e-6)
        True
        """
        weight, bias = (x.chunk(3)[2] for x in self.attention.projection())
        return h[:, :1] + self.attention.outer(F.linear(self.norm(h), weight, bias))

    def _by_head(self) -> tuple[Tensor, Tensor]:
        """Weights (3, heads, head dim, dim) and biases (3, heads, 1, head dim) of q, k and v."""
        (weight, bias), heads = self.attention.projection(), self.attention.heads
        return weight.view(3, heads, -1, self.dim), bias.view(3, heads, 1, -1)

    def _logits(self, u: Tensor) -> Tensor:
        """z of the CLS query, (n, heads, tokens), in float32 or better."""
        weight, bias = self._by_head()
        heads, width = weight.shape[1:3]
        q = torch.baddbmm(bias[0], u[:, 0].expand(heads, -1, -1), weight[0].mT) * width**-0.5  # (heads, n, head dim)
        asked = torch.bmm(q, weight[1]).transpose(0, 1)
        return at_least_float32(torch.bmm(asked, u.mT) + (q * bias[1]).sum(-1).T.unsqueeze(-1))

    def _attend(self, u: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """a, (n, dim), under dropout, and the weights without it, (n, heads, tokens)."""
        weight, bias = self._by_head()
        weights = torch.softmax(logits, -1)
        left = F.dropout(weights, self.attention.dropout, self.training).to(u.dtype)
        seen = torch.bmm(left, u).transpose(0, 1)  # (heads, n, dim)
        attended = torch.bmm(seen, weight[2].mT) + left.sum(-1).T.unsqueeze(-1) * bias[2]
        return attended.transpose(0, 1).flatten(1), weights

    def _statistics(self, u: Tensor, ours: Extrapolation) -> tuple[Tensor, Tensor]:
        """Mean m, (n, dim), and dispersion, (n,), of the value vectors; the latter 0 where no temperature asks."""
        weight, bias = (x.chunk(3)[2] for x in self.attention.projection())
        if ours.temperature is not None:
            return statistics(F.linear(u, weight, bias))
        mean = at_least_float32(F.linear(u.mean(1), weight, bias))
        return mean, mean.new_zeros(len(mean))


class Head(nn.Module):
    """The rest of the last block, on CLS alone, and the output: t = v + drop(feedforward(v)), W relu(LayerNorm(t)) + c.

    Shapes: (n, dim) to (n, targets).
    """

    def __init__(self, dim: int, targets: int, *, feedforward_dropout: float, residual_dropout: float) -> None:
        super().__init__()
        self.feedforward = FeedForward(dim, feedforward_dropout)
        self.dropout = nn.Dropout(residual_dropout)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, targets)

    def forward(self, value: Tensor) -> Tensor:
        """Predictions."""
        return self.out(torch.relu(self.norm(value + self.dropout(self.feedforward(value)))))


class FTTransformer(Network):
    """Columns as tokens, transformer blocks over them, a CLS token that reads the result: encoder ─► pool ─► head.

    - ``attention``: ``"softmax"``; ``"eca"``, which starts as softmax; ``"eca-paper"``, the paper's gain and its
      temperature 0.5 + sigma / sqrt(dim). ``where``: ``"last"`` puts it into the read-out, the last block, where the
      softmax makes the embedding of the row; ``"all"`` into every block.
    - ``options`` are those of :class:`excora.extrapolation.Extrapolation`: ``residual=None`` and ``temperature=None``
      switch a component off, ``scale="paper"`` takes the literal dispersion (sigma is about 8 here, so it flattens the
      attention), ``cap``, ``hidden``, ``penalty_weight``.
    - ``embeddings`` and ``bins``: of numbers, see :class:`excora.models.tokens.ColumnTokens`.
    - ``attention_dropout`` on attention weights, ``feedforward_dropout`` after ReGLU, ``residual_dropout`` on what a
      block adds.

    With softmax, or at the start of ``"eca"``, this is ``rtdl_revisiting_models.FTTransformer`` to rounding, faster:
    the last block computes what CLS reads and nothing else, and block 0 projects columns instead of cells.

    Saving: the arguments, with ``bins=model.encoder.tokens.edges``, as JSON, and the state dict.

    >>> model = FTTransformer(Inputs(targets=1, numeric=3), dim=16, attention="eca", heads=2)
    >>> x = TableInput(torch.randn(5, 3), torch.zeros(5, 3, dtype=torch.bool), torch.zeros(5, 0, dtype=torch.long))
    >>> output = model(x)
    >>> output.prediction.shape, output.pooled.weights.shape, output.pooled.details["gamma"].unique().tolist()
    (torch.Size([5, 1]), torch.Size([5, 4]), [1.0])
    """

    def __init__(
        self,
        inputs: Inputs,
        *,
        dim: int = 64,
        blocks: int = 2,
        heads: int = 4,
        attention: Literal["softmax", "eca", "eca-paper"] = "softmax",
        where: Literal["last", "all"] = "last",
        embeddings: Embeddings = "linear",
        bins: Bins | None = None,
        attention_dropout: float = 0.1,
        feedforward_dropout: float = 0.1,
        residual_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        rates = {"attention_dropout": attention_dropout, "residual_dropout": residual_dropout}
        later = {"feedforward_dropout": feedforward_dropout, "residual_dropout": residual_dropout}
        _check(inputs, dim, blocks, heads, attention, where, rates | later, options)
        form = _FORMS[attention]
        options = {name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}  # a pair from JSON

        def extrapolation(number: int) -> Extrapolation | None:
            here = where == "all" or number == blocks - 1
            return Extrapolation(dim, **(form | options)) if form is not None and here else None

        tokens = ColumnTokens(inputs, dim, cls=True, embeddings=embeddings, bins=bins)
        body = [
            Block(dim, heads, first=number == 0, extrapolation=extrapolation(number), **(rates | later))
            for number in range(blocks - 1)
        ]
        last = ReadOut(dim, heads, first=blocks == 1, extrapolation=extrapolation(blocks - 1), **rates)
        super().__init__(Encoder(tokens, body), last, Head(dim, inputs.targets, **later))

    def forward(self, x: Input) -> Output:
        """Predictions (n, targets), and what the read-out did; its penalty is that of all blocks."""
        if not isinstance(x, TableInput):
            raise InputError(f"the FT-Transformer reads rows of a table, a TableInput, got {type(x).__name__}")
        t, earlier = self.encoder(x)
        pooled = self.pool(t)
        total = sum((penalty.sum for penalty in earlier), pooled.penalty.sum)
        return Output(self.head(pooled.value), pooled._replace(penalty=pooled.penalty._replace(sum=total)))

    def element_names(self, columns: list[str]) -> list[str]:
        """The token that reads stands before those of the columns."""
        return ["CLS", *columns]

    def decay_free(self) -> Iterator[nn.Parameter]:
        """What weight decay should leave alone: tokens, LayerNorms, gamma and temperature, and every bias."""
        kinds = (ColumnTokens, nn.LayerNorm, Extrapolation)
        whole = {id(p) for module in self.modules() if isinstance(module, kinds) for p in module.parameters()}
        yield from (p for name, p in self.named_parameters() if id(p) in whole or name.endswith("bias"))


def _check(
    inputs: Inputs,
    dim: int,
    blocks: int,
    heads: int,
    attention: str,
    where: str,
    rates: dict[str, float],
    options: dict[str, Any],
) -> None:
    if inputs.width:
        raise InputError(f"the FT-Transformer reads rows of a table, got bags of elements of width {inputs.width}")
    for name, value in (("dim", dim), ("blocks", blocks), ("heads", heads)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if dim % heads:
        raise InputError(f"dim must be a multiple of heads, got dim={dim} and heads={heads}")
    for name, given, allowed in (("attention", attention, tuple(_FORMS)), ("where", where, ("last", "all"))):
        if given not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed)}, got {given!r}")
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise InputError(f"{name} must be in [0, 1), got {rate}")
    if attention == "softmax" and options:
        raise InputError(f"softmax attention has no {', '.join(options)}: they go with attention='eca' or 'eca-paper'")
