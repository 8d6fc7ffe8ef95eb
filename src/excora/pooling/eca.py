"""Extrapolative correlation attention pooling: a scaled residual, so that the value may leave the convex hull."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora import functional
from excora.errors import InputError
from excora.functional import (
    blank_padding,
    check_form,
    free_gain,
    linear_temperature,
    paper_gain,
    power_temperature,
)
from excora.fused import attend, extrapolate
from excora.pooling.base import Pool, Pooled, attention_dropout
from excora.pooling.plain import constant_temperature, scores_of
from excora.ragged import Ragged
from excora.reduce import Penalty
from excora.tiles import Law


class Gain(nn.Module):
    """gamma of each bag from its mean embedding, by an MLP with one hidden layer: (bags, dim) to (bags,).

    ``form="free"``: gamma in (0, cap), exactly 1 at the start. ``form="paper"``: min(1 + softplus(MLP(mu)), cap).
    """

    def __init__(self, dim: int, *, form: str, cap: float, hidden: int) -> None:
        super().__init__()
        self.form, self.cap = form, cap
        # DIFF: tanh instead of the paper's unnamed activation in our form: a bag far from zero must not blow gamma up.
        self.hidden = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)
        if form == "free":  # DIFF: starts as plain attention
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

    def forward(self, mean: Tensor) -> Tensor:
        """Gamma, (bags,), in float32 or better."""
        hidden = self.hidden(mean.to(self.hidden.weight.dtype))
        raw = self.out(torch.tanh(hidden) if self.form == "free" else torch.relu(hidden)).squeeze(-1).to(mean.dtype)
        return free_gain(raw, self.cap) if self.form == "free" else paper_gain(raw, self.cap)

    def extra_repr(self) -> str:
        """Form and cap, in ``print(pool)``."""
        return f"form={self.form!r}, cap={self.cap}"


class Temperature(nn.Module):
    """The law tau = law(spread) and its parameters: learned, tau = T (1 + spread)^beta from T = 1, beta = 0; or fixed.

    ``fixed=(t_min, beta)`` is the paper's tau = T_min + beta * spread.
    """

    def __init__(self, *, fixed: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.fixed = fixed
        if (
            fixed is None
        ):  # DIFF: learned, and one with the plain softmax at the start; the paper searches a grid of constants
            self.log_base = nn.Parameter(torch.zeros(()))
            self.slope = nn.Parameter(torch.zeros(()))

    def law(self, like: Tensor) -> tuple[Law, tuple[Tensor, ...]]:
        """The law and its parameters, on the device of ``like`` and in float32 or better."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        if self.fixed is not None:
            return linear_temperature, tuple(torch.tensor(x, dtype=dtype, device=like.device) for x in self.fixed)
        return power_temperature, (self.log_base.to(dtype).exp(), self.slope.to(dtype))

    def extra_repr(self) -> str:
        """The fixed constants, if any."""
        return "" if self.fixed is None else f"t_min={self.fixed[0]}, beta={self.fixed[1]}"


class ECAPool(Pool):
    """v = mu + gamma sum_i alpha_i (h_i - mu), alpha = softmax(z / tau), gamma from mu, tau from the dispersion.

    A fresh pool gives what :class:`SoftmaxPool` with the same scorer gives; training then finds gamma (0 to ``cap``)
    and tau. Each component is a switch:

    - ``scorer``: any module from (..., dim) to (..., 1) or (...); linear by default (then it is fused).
    - ``residual``: the scaled residual (SRA): ``"free"``, ``"paper"`` or None for gamma = 1.
    - ``temperature``: the dispersion-aware temperature (DATS): ``"learned"``, ``(t_min, beta)`` for the paper's fixed
      line, or None for tau = 1.
    - ``scale``: what divides the dispersion: ``"sqrt_dim"``, or ``"paper"`` for the literal dispersion.
    - ``penalty_weight``: lambda of the regulariser (lambda / S) sum_s (gamma_s - 1)^2.
    - ``dropout``: on the attention weights, then renormalised.

    >>> pool = ECAPool(4)
    >>> pooled = pool(torch.randn(2, 3, 4), torch.tensor([[True, True, False], [False, False, False]]))
    >>> pooled.value.shape, pooled.details["gamma"].tolist(), pooled.value[1].tolist()
    (torch.Size([2, 4]), [1.0, 1.0], [0.0, 0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        dim: int,
        *,
        scorer: nn.Module | None = None,
        residual: functional.Residual = "free",
        temperature: functional.Temperature = "learned",
        cap: float = 4.0,
        hidden: int = 8,
        scale: functional.Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dim)
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), got {dropout}")
        check_form(residual, temperature, cap, scale)
        self.scorer = nn.Linear(dim, 1) if scorer is None else scorer
        self.gain = None if residual is None else Gain(dim, form=residual, cap=cap, hidden=hidden)
        fixed = temperature if isinstance(temperature, tuple) else None
        self.temperature = None if temperature is None else Temperature(fixed=fixed)
        # DIFF: the literal dispersion grows with the width and flattens the attention of deep hosts.
        self.divisor = math.sqrt(dim) if scale == "sqrt_dim" else 1.0
        self.penalty_weight = penalty_weight
        self.dropout = dropout

    @classmethod
    def paper(
        cls,
        dim: int,
        *,
        scorer: nn.Module | None = None,
        t_min: float = 0.5,
        beta: float = 1.0,
        gamma_max: float = 2.0,
        hidden: int = 8,
        penalty_weight: float = 1e-3,
    ) -> ECAPool:
        """The paper's form exactly: gamma = min(1 + softplus(MLP(mu)), gamma_max), tau = t_min + beta sigma.

        >>> ECAPool.paper(4).temperature
        Temperature(t_min=0.5, beta=1.0)
        """
        return cls(
            dim,
            scorer=scorer,
            residual="paper",
            temperature=(t_min, beta),
            cap=gamma_max,
            hidden=hidden,
            scale="paper",
            penalty_weight=penalty_weight,
        )

    def forward(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag: see :class:`Pooled`; details holds gamma, temperature, dispersion, radius and logits."""
        self.check(h, mask)
        elements = h.values if isinstance(h, Ragged) else h
        keep = attention_dropout(h, mask, self.dropout if self.training else 0.0)
        scores = scores_of(self.scorer, elements if isinstance(h, Ragged) else blank_padding(elements, mask))
        law, parameters = (constant_temperature, ()) if self.temperature is None else self.temperature.law(elements)
        out = attend(h, scores, law, parameters, mask=mask, keep=keep, divisor=self.divisor)
        gamma = torch.ones_like(out.dispersion) if self.gain is None else self.gain(out.mean)
        value = extrapolate(out, gamma).to(elements.dtype)
        details = {
            "gamma": gamma,
            "temperature": out.temperature,
            "dispersion": out.dispersion,
            "radius": out.radius,
            "logits": out.logits,
        }
        return Pooled(value, out.weights, self._penalty(gamma, h, mask), details)

    def _penalty(self, gamma: Tensor, h: Tensor | Ragged, mask: Tensor | None) -> Penalty:
        """(lambda sum_s (gamma_s - 1)^2, number of bags), over the bags that are not empty."""
        if isinstance(h, Ragged):
            real = (h.lengths > 0).to(gamma.device, gamma.dtype)
        else:
            # A symbolic number of elements (export) has no truth value, and is never 0 without a mask.
            some = torch.compiler.is_compiling() or h.shape[1] > 0
            real = torch.full_like(gamma, float(some)) if mask is None else mask.any(1).to(gamma.dtype)
        return Penalty(self.penalty_weight * (real * (gamma - 1.0).square()).sum(), real.sum())

    def extrapolation_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of gamma and temperature, which weight decay should leave alone."""
        for module in (self.gain, self.temperature):
            if module is not None:
                yield from module.parameters()
