"""The synthetic plateau task: bags whose label needs one element's deviation stretched beyond the bag's hull.

With orthonormal directions w*, w_perp in R^D, a bag of K elements around its centre mu_s ~ N(0, B^2 I):

    background (K-1 of them)   h_si = mu_s + N(0, f^2 I)
    key (the last one)         h_sK = mu_s + eta s_s w* + nu w_perp + N(0, f^2 I)
    label                      y_s  = w*.mu_s + kappa s_s + N(0, l^2)

``form="strength"``: the key strength s_s ~ N(0, 1) differs by bag. ``form="literal"``: s_s = 1, as the paper's
App. G.1 is written (kappa = gamma* eta); the key term is then a constant that the bias absorbs, and mean pooling
is already optimal. nu w_perp is the marker by which a linear scorer finds the key.

Why extrapolation is needed: a pool that gives the key the weight a sees w*.mu_s + a eta s_s, and the label wants
w*.mu_s + kappa s_s. Convex weights have a <= 1, so for kappa > eta a head can only overweight w*.mu_s.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task, orthonormal_pair
from excora.theory import achievable_ceiling

LEVELS = (0.10, 0.24, 0.42, 0.73)
"""The paper's homogeneity levels, as values of sigma~."""


@tasks.named("plateau")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PlateauTask(Task):
    """One setting of the task; symbols as in the module's docstring. Elements are i.i.d. given the bag but for the key.

    The key always stands last: pools do not see positions. The directions are random, drawn from
    ``direction_seed``, because Adam works by coordinate and would find axis-aligned ones too easily.

    >>> task = PlateauTask(kappa=2.0).with_dispersion(0.24)
    >>> h, y = task.sample(300, seed=0)
    >>> h.shape, y.shape, round(task.dispersion, 6)
    (torch.Size([300, 10, 16]), torch.Size([300]), 0.24)
    >>> round(task.best_softmax_pcc, 3), round(task.bayes_pcc, 3)
    (0.837, 1.0)
    """

    says: ClassVar[str] = "bags whose label needs one element's deviation stretched beyond the bag's hull"
    form: Literal["strength", "literal"] = "strength"
    dim: int = 16
    elements: int = 10
    eta: float = 0.6
    nu: float = 0.55
    kappa: float = 1.0
    centre_std: float = 1.0
    floor_std: float = 0.01
    label_std: float = 0.01
    direction_seed: int = 0

    def __post_init__(self) -> None:
        if self.form not in ("strength", "literal"):
            raise InputError(f"form must be 'strength' or 'literal', got {self.form!r}")
        if self.dim < 2 or self.elements < 2:
            raise InputError(f"dim and elements must be at least 2, got {self.dim} and {self.elements}")
        if min(self.centre_std, self.floor_std, self.label_std) < 0:
            raise InputError("centre_std, floor_std and label_std are standard deviations: they must not be negative")

    def directions(self) -> tuple[Tensor, Tensor]:
        """(w*, w_perp), orthonormal, float64, (dim,) each; the same for every sample of this task."""
        return orthonormal_pair(self.dim, self.direction_seed)

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Bags h (bags, elements, dim) and labels y (bags,); equal for equal seeds, in any dtype up to rounding."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        along, across = self.directions()
        centre = self.centre_std * normal(bags, self.dim)
        strength = normal(bags) if self.form == "strength" else torch.ones(bags, dtype=torch.float64)
        h = centre.unsqueeze(1) + self.floor_std * normal(bags, self.elements, self.dim)
        h[:, -1] += self.eta * strength.unsqueeze(1) * along + self.nu * across
        y = centre @ along + self.kappa * strength + self.label_std * normal(bags)
        return h.to(dtype), y.to(dtype)

    @property
    def dispersion(self) -> float:
        """sigma~ in expectation, sqrt(((K-1)/K^2)(eta^2 + nu^2) + ((K-1)/K) D f^2): exact for the mean square."""
        k = self.elements
        return math.sqrt((k - 1) / k**2 * (self.eta**2 + self.nu**2) + (k - 1) / k * self.dim * self.floor_std**2)

    def with_dispersion(self, wanted: float) -> PlateauTask:
        """The task with sigma~ = ``wanted``: eta and nu times one factor, all else (kappa included) as it is."""
        k = self.elements
        floor = (k - 1) / k * self.dim * self.floor_std**2
        signal = (k - 1) / k**2 * (self.eta**2 + self.nu**2)
        if not wanted**2 > floor or signal == 0:
            raise InputError(
                f"a dispersion of {wanted} cannot be reached: it must exceed that of the floor noise, "
                f"{math.sqrt(floor):.4g}, and eta or nu must not be 0; lower floor_std or ask for more"
            )
        factor = math.sqrt((wanted**2 - floor) / signal)
        return dataclasses.replace(self, eta=factor * self.eta, nu=factor * self.nu)

    @property
    def _strength_variance(self) -> float:
        return 1.0 if self.form == "strength" else 0.0

    @property
    def _label_variance(self) -> float:
        return self.centre_std**2 + self._strength_variance * self.kappa**2 + self.label_std**2

    @property
    def bayes_pcc(self) -> float:
        """Best PCC of any function of the bag, closed form: sqrt(c' C^-1 c / var(y)).

        All is Gaussian, so E[y | bag] is linear in x = (mean background, key) along w*, with covariance C and
        c = cov(x, y). Assumes that the key is recognised, which the marker grants for nu well above the floor.
        """
        weights = self._bayes_weights()
        key = self.centre_std**2 + self._strength_variance * self.kappa * self.eta
        explained = weights[0] * self.centre_std**2 + weights[1] * key
        return math.sqrt(explained / self._label_variance) if explained > 0 else 0.0

    def _bayes_weights(self) -> tuple[float, float]:
        """C^-1 c: E[y | bag] = weights . (mean background, key) along w*."""
        b2, f2, v = self.centre_std**2, self.floor_std**2, self._strength_variance
        c00, c01, c11 = b2 + f2 / (self.elements - 1), b2, b2 + v * self.eta**2 + f2
        c0, c1 = b2, b2 + v * self.kappa * self.eta
        det = c00 * c11 - c01 * c01
        if det <= 1e-15 * c00 * c11:  # Background and key say the same: either one will do.
            return (c0 / c00 if c00 else 0.0), 0.0
        return (c11 * c0 - c01 * c1) / det, (c00 * c1 - c01 * c0) / det

    def _key_weight_pcc(self, a: float) -> float:
        """PCC(y, w*.sum_i a_i h_si) for the weight a on the key and (1-a)/(K-1) on each background element."""
        v, noise = self._strength_variance, a**2 + (1 - a) ** 2 / (self.elements - 1)
        covariance = self.centre_std**2 + v * self.kappa * a * self.eta
        variance = self.centre_std**2 + v * (a * self.eta) ** 2 + noise * self.floor_std**2
        return covariance / math.sqrt(variance * self._label_variance) if variance * self._label_variance else 0.0

    def _best_key_weight(self, gain: float) -> float:
        """The weight on the key, within reach of ``gain``, that gives the highest PCC.

        PCC(a) = (u + v a)/sqrt(q0 + q1 a + q2 a^2) up to a constant: its derivative has one zero.
        """
        if not (0 <= gain < math.inf):
            raise InputError(f"gain must be finite and at least 0, got {gain}")
        k, f2, s2 = self.elements, self.floor_std**2, self._strength_variance
        lower, upper = (1 - gain) / k, (1 + gain * (k - 1)) / k
        u, v = self.centre_std**2, s2 * self.kappa * self.eta
        q0, q1, q2 = u + f2 / (k - 1), -2 * f2 / (k - 1), s2 * self.eta**2 + f2 * k / (k - 1)
        slope = u * q2 - v * q1 / 2
        candidates = [lower, upper, 1 / k]
        if slope > 0:
            candidates.append(min(max((v * q0 - u * q1 / 2) / slope, lower), upper))
        return max(candidates, key=self._key_weight_pcc)

    def attention_pcc(self, gain: float) -> float:
        """Best PCC of v = mu + gain (sum_i alpha_i h_i - mu) with one gain, a linear scorer and a linear head.

        Closed form: the key's total weight a can be anything in [(1-gain)/K, (1+gain(K-1))/K], and
        PCC(a) = (B^2 + kappa a eta) / sqrt((B^2 + a^2 eta^2 + f^2(a^2 + (1-a)^2/(K-1))) var(y)), at its best a.
        gain 0 is mean pooling, 1 softmax attention; from (K kappa/eta - 1)/(K-1) on it is the Bayes optimum.
        That a weight which varies with s_s, as a linear scorer's may, does not do better is shown by a test
        (numerically, over scorers and heads), not proven.

        >>> task = PlateauTask(eta=0.6, kappa=1.2, floor_std=0.0, label_std=0.0)
        >>> [round(task.attention_pcc(gain), 4) for gain in (0.0, 1.0, 2.0, 4.0)]
        [0.685, 0.9442, 0.9997, 1.0]
        """
        return self._key_weight_pcc(self._best_key_weight(gain))

    @property
    def mean_pcc(self) -> float:
        """Best PCC of mean pooling with a linear head, closed form: ``attention_pcc`` at gain 0."""
        return self.attention_pcc(0.0)

    @property
    def best_softmax_pcc(self) -> float:
        """Best PCC of softmax attention with a linear scorer and head, closed form: ``attention_pcc`` at gain 1.

        For kappa >= eta, B = 1 and no floor noise: (1 + kappa eta)/sqrt((1 + kappa^2 + l^2)(1 + eta^2)); for
        0 <= kappa <= eta the key's weight kappa/eta is optimal and the Bayes optimum is reached.
        """
        return self.attention_pcc(1.0)

    def best_convex_pcc(self, *, bags: int = 100_000, seed: int = 0) -> float:
        """Best PCC of convex weights of any kind (any function of the bag), head along w*, by Monte-Carlo.

        Each prediction may lie anywhere between the extreme elements along w*; :func:`achievable_ceiling` against
        E[y | bag] is the best of these on a sample. The closed form of softmax on the same sample serves as control
        variate, so the standard error is below 0.001 at 100,000 bags. A head that leans on w_perp trades noise of
        the centres for reach; it does not pay unless nu is well above the centres' deviation.
        """
        generator = torch.Generator().manual_seed(seed)
        draw = torch.randn(bags, self.elements + 2, generator=generator, dtype=torch.float64)
        strength = draw[:, 1] if self.form == "strength" else torch.ones_like(draw[:, 1])
        along = self.centre_std * draw[:, :1] + self.floor_std * draw[:, 2:]
        along[:, -1] += self.eta * strength
        background, key = along[:, :-1].mean(1), along[:, -1]
        wanted = self._bayes_weights()[0] * background + self._bayes_weights()[1] * key
        a = self._best_key_weight(1.0)
        pair = torch.stack([wanted, (1 - a) * background + a * key])
        ceiling = achievable_ceiling(along.amin(1), along.amax(1), wanted)
        if not bool(ceiling.applies):
            return self.best_softmax_pcc
        advantage = self.bayes_pcc * float(ceiling.value - torch.corrcoef(pair)[0, 1])
        return min(self.best_softmax_pcc + advantage, self.bayes_pcc)
