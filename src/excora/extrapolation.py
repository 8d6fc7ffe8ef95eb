"""Gain, temperature and penalty, once: what makes any attention extrapolative, in pools, heads, read-outs and hosts.

Attention over elements with mean m, dispersion sigma and attended value a becomes

    v = m + gamma (a - m),   alpha = softmax(z / tau),   gamma = gain(m),   tau = law(sigma)

Shapes: a *bag* has one gain and one temperature (pools, read-outs), or, with ``heads``, one a head and query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError
from excora.reduce import Penalty

#: The components' switches, the same wherever they are used; None switches one off.
Residual = Literal["free", "paper"] | None
TemperatureForm = Literal["learned"] | tuple[float, float] | None  # a pair is the paper's fixed (T_min, beta)
Scale = Literal["sqrt_dim", "paper"]
#: tau = law(spread, *parameters), elementwise over bags.
Law = Callable[..., Tensor]

#: A temperature up to this counts as 0: the weights are uniform by definition, and nothing moves them.
COLD = 1e-30


def free_gain(raw: Tensor, cap: float) -> Tensor:
    """Our gain: gamma = cap / (1 + (cap - 1) exp(-raw)), in (0, cap), exactly 1 at raw = 0.

    Written as 1 - x / (x + cap) with x = (cap - 1)(exp(-raw) - 1), so that raw = 0 gives 1 to the last bit.

    >>> free_gain(torch.tensor([0.0, 30.0]), 4.0)
    tensor([1., 4.])
    """
    # DIFF: the paper's gain cannot go below 1, so it cannot shrink toward the mean where attention over-reacts.
    less = (cap - 1.0) * torch.expm1(-raw.clamp(-30.0, 30.0))
    return 1.0 - less / (less + cap)


def paper_gain(raw: Tensor, cap: float = math.inf) -> Tensor:
    """The paper's gain: gamma = min(1 + softplus(raw), cap); 1.69 at raw = 0.

    >>> paper_gain(torch.tensor([-50.0, 50.0]), 2.0)
    tensor([1., 2.])
    """
    return (1.0 + F.softplus(raw)).clamp_max(cap)


def power_temperature(spread: Tensor, base: Tensor, slope: Tensor) -> Tensor:
    """Our temperature: tau = T (1 + spread)^beta; beta = 0 is one temperature for all, beta = 1 the paper's line.

    >>> power_temperature(torch.tensor([0.0, 3.0]), torch.tensor(1.0), torch.tensor(0.5))
    tensor([1., 2.])
    """
    # DIFF: the paper's T_min + beta * spread turns negative when beta is learned freely; this one cannot.
    return base * torch.exp(slope * torch.log1p(spread))


def learned_temperature(spread: Tensor, log_base: Tensor, slope: Tensor) -> Tensor:
    """:func:`power_temperature` by the logarithm of T, which may be any number.

    >>> learned_temperature(torch.tensor([0.0, 3.0]), torch.tensor(0.0), torch.tensor(0.5))
    tensor([1., 2.])
    """
    return power_temperature(spread, log_base.exp(), slope)


def linear_temperature(spread: Tensor, base: Tensor, slope: Tensor) -> Tensor:
    """The paper's temperature: tau = T_min + beta * spread; 0 only for a constant bag with T_min = 0.

    >>> linear_temperature(torch.tensor([0.0, 3.0]), torch.tensor(0.5), torch.tensor(2.0))
    tensor([0.5000, 6.5000])
    """
    return base + slope * spread


def given_temperature(spread: Tensor, temperature: Tensor) -> Tensor:
    """tau as it is given, one a bag, whatever the spread.

    >>> given_temperature(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return temperature.to(spread.dtype)


def sharpness(tau: Tensor) -> Tensor:
    """1 / tau, and 0 where tau is 0: the weights are uniform there.

    >>> sharpness(torch.tensor([2.0, 0.0]))
    tensor([0.5000, 0.0000])
    """
    warm = tau > COLD
    return torch.where(warm, torch.where(warm, tau, 1.0).reciprocal(), 0.0)


def extrapolate(mean: Tensor, attended: Tensor, gamma: Tensor) -> Tensor:
    """v = m + gamma (a - m), the attended value to the last bit at gamma = 1; shapes broadcast.

    >>> extrapolate(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]))
    tensor([4.])
    """
    return torch.lerp(mean, attended.to(mean.dtype), gamma.to(mean.dtype))


def mlp_gain(
    mean: Tensor, first: Tensor, first_bias: Tensor, last: Tensor, last_bias: Tensor, *, form: str, cap: float
) -> Tensor:
    """gamma = gain(last . act(first mean + first_bias) + last_bias), act = tanh or, in the paper's form, relu.

    >>> mlp_gain(torch.zeros(2, 3), *Gain(3, form="free", cap=4.0, hidden=5).weights(), form="free", cap=4.0).tolist()
    [1.0, 1.0]
    """
    hidden = F.linear(mean.to(first.dtype), first, first_bias)
    # DIFF: tanh instead of the paper's unnamed activation in our form: a bag far from zero must not blow gamma up.
    hidden = torch.tanh(hidden) if form == "free" else torch.relu(hidden)
    raw = F.linear(hidden, last, last_bias).squeeze(-1).to(mean.dtype)
    return free_gain(raw, cap) if form == "free" else paper_gain(raw, cap)


class Gain(nn.Module):
    """gamma of each bag from its mean embedding, by an MLP with one hidden layer: (..., dim) to (...).

    ``form="free"``: gamma in (0, cap), exactly 1 at the start. ``form="paper"``: min(1 + softplus(MLP(mu)), cap).
    """

    def __init__(self, dim: int, *, form: str, cap: float, hidden: int) -> None:
        super().__init__()
        self.form, self.cap = form, cap
        self.hidden = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)
        if form == "free":  # DIFF: starts as plain attention
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

    def forward(self, mean: Tensor) -> Tensor:
        """Gamma, in float32 or better."""
        return mlp_gain(mean, *self.weights(), form=self.form, cap=self.cap)

    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Those of :func:`mlp_gain`."""
        hidden, out = self.hidden, self.out  # asking a module for a part takes long
        return hidden.weight, hidden.bias, out.weight, out.bias

    def extra_repr(self) -> str:
        """Form and cap, when printed."""
        return f"form={self.form!r}, cap={self.cap}"


class HeadGain(nn.Module):
    """gamma = gain(w_h . m + b_h) of each head from its mean value: (bags, heads, queries, dim) to (..., queries).

    Weights start at 0, so that our form starts at exactly 1.
    """

    def __init__(self, dim: int, heads: int, *, form: str, cap: float) -> None:
        super().__init__()
        self.form, self.cap = form, cap
        self.weight = nn.Parameter(torch.zeros(heads, dim))
        self.bias = nn.Parameter(torch.zeros(heads))

    def forward(self, mean: Tensor) -> Tensor:
        """Gamma, in float32 or better."""
        raw = (mean * self.weight.to(mean.dtype).unsqueeze(1)).sum(-1) + self.bias.to(mean.dtype).unsqueeze(1)
        return free_gain(raw, self.cap) if self.form == "free" else paper_gain(raw, self.cap)

    def extra_repr(self) -> str:
        """Form and cap, when printed."""
        return f"form={self.form!r}, cap={self.cap}"


class Temperature(nn.Module):
    """The law tau = law(spread) and its parameters: learned, tau = T (1 + spread)^beta from T = 1, beta = 0; or fixed.

    ``fixed=(t_min, beta)`` is the paper's tau = T_min + beta * spread. With ``heads`` one pair (T, beta) a head.
    """

    def __init__(self, *, fixed: tuple[float, float] | None = None, heads: int | None = None) -> None:
        super().__init__()
        self.fixed, self.heads = fixed, heads
        if fixed is None:
            # DIFF: learned, and one with the plain softmax at the start; the paper searches a grid of constants.
            # One number is a vector of one: sharded training (FSDP) refuses scalars.
            self.log_base = nn.Parameter(torch.zeros(heads or 1))
            self.slope = nn.Parameter(torch.zeros(heads or 1))

    def law(self, like: Tensor) -> tuple[Law, tuple[Tensor, ...]]:
        """The law and its parameters, (1,) or (heads, 1), on the device of ``like`` and in float32 or better."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        if self.fixed is not None:
            return linear_temperature, tuple(torch.tensor([x], dtype=dtype, device=like.device) for x in self.fixed)
        parameters = self.log_base.to(dtype), self.slope.to(dtype)
        return learned_temperature, tuple(x if self.heads is None else x.unsqueeze(1) for x in parameters)

    def forward(self, spread: Tensor) -> Tensor:
        """tau, of the shape of the spread: (bags,), or (bags, heads, queries) with heads."""
        law, parameters = self.law(spread)
        return law(spread, *parameters)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        for name in ("log_base", "slope"):  # files of 0.1 hold scalars
            if (old := state_dict.get(prefix + name)) is not None and old.dim() == 0:
                state_dict[prefix + name] = old.view(1)  # type: ignore[index]  # torch hands a copy of the mapping
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """The fixed constants, if any."""
        return "" if self.fixed is None else f"t_min={self.fixed[0]}, beta={self.fixed[1]}"


class Extrapolation(nn.Module):
    """Gain gamma and temperature tau from the mean and the dispersion of what is attended, and the penalty on gamma.

    - ``residual``: the scaled residual (SRA): ``"free"``, ``"paper"`` or None for gamma = 1.
    - ``temperature``: the dispersion-aware temperature (DATS): ``"learned"``, ``(t_min, beta)`` for the paper's fixed
      line, or None for tau = 1.
    - ``cap``: the largest gamma. ``hidden``: width of the gain's MLP; with ``heads`` the gain is linear, one a head.
    - ``scale``: what divides the dispersion: ``"sqrt_dim"``, or ``"paper"`` for the literal dispersion.
    - ``penalty_weight``: lambda of the regulariser (lambda / S) sum_s (gamma_s - 1)^2.

    In our form both start at exactly 1. A constant bag with T_min = 0 has tau = 0: uniform weights.

    >>> extrapolation = Extrapolation(8)
    >>> extrapolation.gamma(torch.randn(2, 8)).tolist(), extrapolation.tau(torch.rand(2)).tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int | None = None,
        residual: Residual = "free",
        temperature: TemperatureForm = "learned",
        cap: float = 4.0,
        hidden: int = 8,
        scale: Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
    ) -> None:
        super().__init__()
        _check_form(residual, temperature, cap, scale)
        self.gain: Gain | HeadGain | None = None
        if residual is not None and heads is None:
            self.gain = Gain(dim, form=residual, cap=cap, hidden=hidden)
        elif residual is not None and heads is not None:
            self.gain = HeadGain(dim, heads, form=residual, cap=cap)
        fixed = temperature if isinstance(temperature, tuple) else None
        self.temperature = None if temperature is None else Temperature(fixed=fixed, heads=heads)
        # DIFF: the literal dispersion grows with the width and flattens the attention of deep hosts.
        self.divisor = math.sqrt(dim) if scale == "sqrt_dim" else 1.0
        self.penalty_weight = penalty_weight

    def extrapolation_parameters(self) -> Iterator[nn.Parameter]:
        """All of them: weight decay would pull gamma and tau off their start."""
        yield from self.parameters()

    def gamma(self, mean: Tensor) -> Tensor:
        """The gain, (...), from the mean, (..., dim): (bags, dim), or (bags, heads, queries, dim) with heads."""
        return mean.new_ones(mean.shape[:-1]) if self.gain is None else self.gain(mean)

    def law(self, like: Tensor) -> tuple[Law, tuple[Tensor, ...]]:
        """tau = law(sigma / divisor, *parameters)."""
        return (_constant_temperature, ()) if self.temperature is None else self.temperature.law(like)

    def tau(self, sigma: Tensor) -> Tensor:
        """The temperature from the dispersion, of equal shape: (bags,), or (bags, heads, queries) with heads."""
        return torch.ones_like(sigma) if self.temperature is None else self.temperature(sigma / self.divisor)

    def penalty(self, gamma: Tensor, real: Tensor | None = None) -> Penalty:
        """lambda sum_s (gamma_s - 1)^2 and the number of terms, over those that ``real`` (boolean) says there are."""
        squares = (gamma - 1.0).square()
        if real is None:
            return Penalty(squares.sum() * self.penalty_weight, gamma.new_full((), gamma.numel()))
        squares = torch.where(real, squares, 0.0)
        return Penalty(self.penalty_weight * squares.sum(), real.expand_as(gamma).sum().to(gamma.dtype))


def _constant_temperature(spread: Tensor) -> Tensor:
    return torch.ones_like(spread)


def _check_form(residual: Residual, temperature: TemperatureForm, cap: float, scale: Scale) -> None:
    """Raise unless the switches of gain and temperature are among those that exist."""
    if residual not in ("free", "paper", None):
        raise InputError(f"residual must be 'free', 'paper' or None, got {residual!r}")
    if isinstance(temperature, tuple):
        if len(temperature) != 2 or min(temperature) < 0.0:
            raise InputError(f"a fixed temperature is a pair (t_min, beta) of numbers >= 0, got {temperature}")
    elif temperature not in ("learned", None):
        raise InputError(f"temperature must be 'learned', a pair (t_min, beta) or None, got {temperature!r}")
    if not cap > 1.0:
        raise InputError(f"cap, the largest gamma, must be above 1, got {cap}")
    if scale not in ("sqrt_dim", "paper"):
        raise InputError(f"scale must be 'sqrt_dim' or 'paper', got {scale!r}")
