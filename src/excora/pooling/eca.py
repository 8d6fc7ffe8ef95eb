"""Extrapolative correlation attention pooling: a scaled residual, so that the value may leave the convex hull."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.extrapolation import Extrapolation, Residual, Scale, TemperatureForm
from excora.kernels.attend import attend_beyond
from excora.pooling.base import Pooled, attention_dropout, check_dropout, register_pool
from excora.pooling.heads import HeadedPool, Scorer, Values, scorer_of
from excora.pooling.plain import LinearScorer, scores_of
from excora.ragged import Ragged


class ECAPool(HeadedPool):
    """v = mu + gamma sum_i alpha_i (h_i - mu), alpha = softmax(z / tau), gamma from mu, tau from the dispersion.

    A fresh pool gives what :class:`SoftmaxPool` with the same scorer gives; training then finds gamma (0 to ``cap``)
    and tau. Each component is a switch:

    - ``scorer``: any module from (..., dim) to (..., 1) or (...); by default z = h.w / sqrt(dim) + b, which is fused.
    - ``residual``, ``temperature``, ``cap``, ``hidden``, ``scale``, ``penalty_weight``: see
      :class:`excora.extrapolation.Extrapolation`.
    - ``dropout``: on the attention weights, then renormalised.
    - ``heads``, ``values``: several scorers, each with a gain and a temperature of its own, on parts of the channels or
      all, see :class:`excora.pooling.heads.HeadedPool`; a scorer is then given as a function that makes one.

    >>> pool = ECAPool(4)
    >>> pooled = pool(torch.randn(2, 3, 4), torch.tensor([[True, True, False], [False, False, False]]))
    >>> pooled.value.shape, pooled.details["gamma"].tolist(), pooled.value[1].tolist()
    (torch.Size([2, 4]), [1.0, 1.0], [0.0, 0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        dim: int,
        *,
        scorer: Scorer | None = None,
        residual: Residual = "free",
        temperature: TemperatureForm = "learned",
        cap: float = 4.0,
        hidden: int = 8,
        scale: Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
        dropout: float = 0.0,
        heads: int = 1,
        values: Values = "split",
    ) -> None:
        check_dropout(dropout)
        make = scorer_of(scorer, heads, lambda: LinearScorer(dim))
        form: dict[str, Any] = {
            "residual": residual,
            "temperature": temperature,
            "cap": cap,
            "hidden": hidden,
            "scale": scale,
            "penalty_weight": penalty_weight,
        }
        super().__init__(dim, heads, values, lambda part: ECAPool(part, scorer=make(), dropout=dropout, **form))
        if self.heads is None:
            self.scorer = make()
            self.extrapolation = Extrapolation(dim, **form)
        self.dropout = dropout

    @classmethod
    def paper(
        cls,
        dim: int,
        *,
        scorer: Scorer | None = None,
        t_min: float = 0.5,
        beta: float = 1.0,
        gamma_max: float = 2.0,
        hidden: int = 8,
        penalty_weight: float = 1e-3,
        heads: int = 1,
        values: Values = "split",
    ) -> ECAPool:
        """The paper's form: z = h.w + b, gamma = min(1 + softplus(MLP(mu)), gamma_max), tau = t_min + beta sigma.

        >>> ECAPool.paper(4).extrapolation.temperature
        Temperature(t_min=0.5, beta=1.0)
        """
        return cls(
            dim,
            scorer=(lambda: nn.Linear(dim, 1)) if scorer is None else scorer,
            residual="paper",
            temperature=(t_min, beta),
            cap=gamma_max,
            hidden=hidden,
            scale="paper",
            penalty_weight=penalty_weight,
            heads=heads,
            values=values,
        )

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`; details holds gamma, temperature, dispersion and logits."""
        self.check(h, mask)
        if self.heads is not None:
            return self.together(h, mask)
        return self._with_scores(h, mask, *scores_of(self.scorer, h, mask))

    def _with_scores(self, h: Tensor | Ragged, mask: Tensor | None, scores: tuple[Tensor, ...], scale: float) -> Pooled:
        """One head."""
        elements = h.values if isinstance(h, Ragged) else h
        keep = attention_dropout(h, mask, self.dropout if self.training else 0.0)
        ours = self.extrapolation
        out, value, gamma = attend_beyond(ours, h, scores, mask=mask, keep=keep, scale=scale)
        details = {
            "gamma": gamma,
            "temperature": out.temperature,
            "dispersion": out.dispersion,
            "logits": out.logits,
        }
        real = h.lengths if isinstance(h, Ragged) else mask
        return Pooled(value.to(elements.dtype), out.weights, ours.penalty(gamma, _not_empty(h, mask)), details, real)

    def extrapolation_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of gamma and temperature, which weight decay should leave alone."""
        if self.heads is None:  # heads name theirs themselves
            yield from self.extrapolation.parameters()

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        for part in ("gain.", "temperature."):  # where version 0.1 had them
            for name in [name for name in state_dict if name.startswith(prefix + part)]:
                new = prefix + "extrapolation." + name.removeprefix(prefix)
                state_dict[new] = state_dict.pop(name)  # type: ignore[index, attr-defined]  # it is a copy
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _not_empty(h: Tensor | Ragged, mask: Tensor | None) -> Tensor | None:
    """Which bags have elements, boolean (bags,); None: all."""
    if isinstance(h, Ragged):
        return (h.lengths > 0).to(h.values.device)
    if mask is not None:
        return mask.any(1)
    # A symbolic number of elements (export) has no truth value, and is never 0 without a mask.
    if torch.compiler.is_compiling() or h.shape[1] > 0:
        return None
    return h.new_zeros(h.shape[0], dtype=torch.bool)


register_pool("eca-paper", label="ECA (paper)", convex=False)(ECAPool.paper)
register_pool("eca", label="ECA (ours)", convex=False)(ECAPool)
