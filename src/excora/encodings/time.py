"""Times as vectors whose inner product depends on the time between two events alone: phi(s).phi(t) = K(s - t).

``Bochner`` and ``InverseCDF`` sample the spectrum of K, ``Mercer`` expands K in the harmonics of a few periods. For
irregular events: concatenate phi(t) to what is known of an event and attend over the events. Xu, Ruan, Korpeoglu,
Kumar and Achan, "Self-attention with functional time representation learning" (NeurIPS 2019).
DIFF: cosine and sine share their frequencies; the published code has a set for each, and its kernel is not
invariant to translation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError

#: Where :func:`time_encoding` begins to tell times apart, and where it ends, in deviations.
SHORTEST, LONGEST = 0.05, 5.0


class TimeEncoding(nn.Module):
    """Base: times of any shape (...) to (..., dim), in the time's precision, float32 at least.

    ``shortest`` and ``longest``: the time differences between which it begins to tell events apart, in the unit of t.
    """

    dim: int

    def __init__(self, dim: int, shortest: float, longest: float) -> None:
        super().__init__()
        if dim < 2 or not 0 < shortest <= longest < math.inf:
            raise InputError(
                f"dim must be at least 2 and 0 < shortest <= longest, finite, got {dim}, {shortest} and {longest}"
            )
        self.dim, self.shortest, self.longest = dim, shortest, longest

    def _angles(self, t: Tensor, frequency: Tensor) -> Tensor:
        """t times each frequency, (..., frequencies). In float64: a late time must not cost the digits of its phase."""
        if not torch.is_floating_point(t):
            t = t.to(torch.get_default_dtype())
        return t.double().unsqueeze(-1) * frequency.double()

    def _spaced(self, count: int) -> Tensor:
        """Frequencies from 1/longest to 1/shortest, evenly in their logarithm, as logarithms."""
        return torch.linspace(-math.log(self.longest), -math.log(self.shortest), count)

    def extra_repr(self) -> str:
        """The width and the range, when printed."""
        return f"{self.dim}, shortest={self.shortest:g}, longest={self.longest:g}"


def _waves(angles: Tensor, like: Tensor) -> Tensor:
    """[cos, sin] in the dtype of the times."""
    dtype = like.dtype if torch.is_floating_point(like) else torch.get_default_dtype()
    dtype = torch.promote_types(dtype, torch.float32)
    return torch.cat([torch.cos(angles), torch.sin(angles)], -1).to(dtype)


class Bochner(TimeEncoding):
    """phi(t) = sqrt(2 / dim) [cos(w_k t), sin(w_k t)], w learned: K(s) = mean_k cos(w_k s), K(0) = 1.

    >>> phi = Bochner(8)
    >>> early, late = phi(torch.tensor([3.0, 4.5])), phi(torch.tensor([103.0, 104.5]))
    >>> torch.allclose(early @ early.T, late @ late.T, atol=1e-5)
    True
    """

    def __init__(self, dim: int, *, shortest: float = 0.1, longest: float = 100.0) -> None:
        super().__init__(dim, shortest, longest)
        if dim % 2:
            raise InputError(f"dim must be even, a cosine and a sine a frequency, got {dim}")
        self.log_frequency = nn.Parameter(self._spaced(dim // 2))

    def frequency(self) -> Tensor:
        """w (dim / 2,)."""
        return self.log_frequency.exp()

    def forward(self, t: Tensor) -> Tensor:
        """(...) to (..., dim)."""
        return _waves(self._angles(t, self.frequency()), t) * math.sqrt(2.0 / self.dim)


class InverseCDF(TimeEncoding):
    """As :class:`Bochner` with w_k = F^-1(u_k), F^-1 a learned increasing function, u the midpoints of (0, 1).

    log F^-1(u) is a line between the logarithms of 1/longest and 1/shortest plus a small network of logit(u), which
    starts at 0: as many frequencies as wanted from few parameters.

    >>> InverseCDF(16)(torch.tensor([0.0, 1.0])).shape
    torch.Size([2, 16])
    """

    u: Tensor

    def __init__(self, dim: int, *, shortest: float = 0.1, longest: float = 100.0, hidden: int = 16) -> None:
        super().__init__(dim, shortest, longest)
        if dim % 2:
            raise InputError(f"dim must be even, a cosine and a sine a frequency, got {dim}")
        self.register_buffer("u", (torch.arange(dim // 2) + 0.5) / (dim // 2), persistent=False)
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.body = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), last)

    def frequency(self) -> Tensor:
        """w (dim / 2,)."""
        start = -math.log(self.longest) + self.u * math.log(self.longest / self.shortest)
        return (start + self.body(torch.logit(self.u).unsqueeze(1)).squeeze(1)).exp()

    def forward(self, t: Tensor) -> Tensor:
        """(...) to (..., dim)."""
        return _waves(self._angles(t, self.frequency()), t) * math.sqrt(2.0 / self.dim)


class Mercer(TimeEncoding):
    """Harmonics of a few periods: K(s) = sum_i [c_i0 + sum_(j=1..J) c_ij cos(j w_i s)], c >= 0 and w learned.

    phi(t) holds sqrt(c_i0), sqrt(c_ij) cos(j w_i t) and sqrt(c_ij) sin(j w_i t): ``periods`` * (2 ``harmonics`` + 1)
    entries. c starts alike for all, with K(0) = 1.

    >>> Mercer(periods=3, harmonics=2)(torch.zeros(5)).shape
    torch.Size([5, 15])
    """

    def __init__(self, *, periods: int = 4, harmonics: int = 3, shortest: float = 0.1, longest: float = 100.0) -> None:
        if periods < 1 or harmonics < 1:
            raise InputError(f"periods and harmonics must be at least 1, got {periods} and {harmonics}")
        super().__init__(periods * (2 * harmonics + 1), shortest, longest)
        self.periods, self.harmonics = periods, harmonics
        self.log_frequency = nn.Parameter(self._spaced(periods))
        # softplus(raw) = 1 / (periods (harmonics + 1))
        self.raw = nn.Parameter(
            torch.full((periods, harmonics + 1), math.log(math.expm1(1 / (periods * (harmonics + 1)))))
        )

    def coefficients(self) -> Tensor:
        """c (periods, harmonics + 1), at least 0."""
        return F.softplus(self.raw)

    def forward(self, t: Tensor) -> Tensor:
        """(...) to (..., dim)."""
        order = torch.arange(1, self.harmonics + 1, device=self.raw.device, dtype=self.raw.dtype)
        frequency = (self.log_frequency.exp().unsqueeze(1) * order).reshape(-1)
        root = self.coefficients().sqrt()
        waves = _waves(self._angles(t, frequency), t)
        level = root[:, 0].expand(*t.shape, self.periods)
        return torch.cat([level.to(waves.dtype), waves * root[:, 1:].reshape(-1).repeat(2)], -1)


def time_encoding(name: str) -> TimeEncoding | None:
    """The encoding of a name, for times in units of their deviation over a data set; None for "none".

    >>> time_encoding("bochner").dim, time_encoding("mercer").dim, time_encoding("none")
    (16, 20, None)
    """
    made: dict[str, Callable[[], TimeEncoding | None]] = {
        "bochner": lambda: Bochner(16, shortest=SHORTEST, longest=LONGEST),
        "mercer": lambda: Mercer(periods=4, harmonics=2, shortest=SHORTEST, longest=LONGEST),
        "inverse-cdf": lambda: InverseCDF(16, shortest=SHORTEST, longest=LONGEST),
        "none": lambda: None,
    }
    if name not in made:
        raise InputError(f"a time encoding is one of {', '.join(made)}, got {name!r}")
    return made[name]()
