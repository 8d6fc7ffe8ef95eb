"""What a verdict rests on: numbers with their rules, how well a part is predicted, and what simple models reach."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from excora.errors import InputError
from excora.stats.intervals import Interval

Row = Mapping[str, Any]
#: Validation has picked the epoch, the best of many: to be above 0 its PCC must be so by this many standard errors.
CHOSEN = 3.0
#: A simple model has been tuned there, the best of many settings, and of several models the best one counts.
TUNED = 4.0
USUAL = 1.959964


class Evidence(NamedTuple):
    """A number, the rule it was held against, and whether it met the rule."""

    value: float | None
    rule: str
    met: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Where the lines are drawn; set on some data sets and measured on others (docs/diagnose.md)."""

    probe_gain: float = 0.02  #: PCC that a linear read-out must have over the prediction to count as unread signal
    ceiling_used: float = 0.95  #: share of the achievable ceiling from which on it is used up
    ceiling: float = 0.99  #: a ceiling above this limits nobody
    uniform: float = 0.95  #: attention_spread from which on attention is uniform, if signal is left unread
    frozen: float = 1 - 1e-6  #: and, in every epoch, in any case: attention that learns does not stay so even
    saturated: float = 1.2  #: effective_elements up to which attention rests on one
    affine_gain: float = 0.25  #: share of the MSE that the best affine map must remove
    good: float = 0.95  #: PCC from which on little is left to explain
    level: float = 0.02  #: PCC by which a simple model may be ahead and still be level
    level_most: float = 0.05  #: where half a standard error of the PCC is more, that, up to this
    nothing: float = 0.4  #: no signal is found if a PCC above this can be excluded
    few: int = 60  #: independent rows below which "level with the simple models" is not said
    kinds: int = 3  #: simple models that must be known for it: two were level where a third was far ahead
    contested: float = 0.05  #: PCC by which a simple model must be ahead on the test part to withdraw a claim
    falls: float = 0.02  #: share of the training MSE by which it must fall to be falling
    worse_mse: float = 0.15  #: share by which the validation MSE must rise after the kept epoch
    worse_pcc: float = 0.03  #: or its PCC fall
    learning: float = 0.1  #: share of the validation MSE by which it must fall in the last third to be on its way


@dataclasses.dataclass(frozen=True)
class Fit:
    """How well one part is predicted: PCC of ``rows`` samples, the standard error of its atanh, and the MSE.

    ``affine``: the MSE after the best affine map, in sample. ``chosen``: this part has picked the epoch.
    """

    part: str
    rows: int
    pcc: float
    error: float
    mse: float | None = None
    affine: float | None = None
    chosen: bool = False

    @classmethod
    def of(cls, record: Row, part: str, *, interval: Interval | None = None, chosen: bool = False) -> Fit | None:
        """From a monitor's record, or None where its PCC is undefined or its samples fewer than 4.

        ``interval``: of the PCC, where samples are not independent; else Fisher's 1 / sqrt(n - 3).
        """
        pcc, rows = record.get("pcc"), int(record.get("bags") or 0)
        if pcc is None or math.isnan(pcc) or rows < 4:
            return None
        error = 1.0 / math.sqrt(rows - 3)
        if interval is not None and not math.isnan(interval.low) and not math.isnan(interval.high):
            error = max(error, (fisher_z(interval.high) - fisher_z(interval.low)) / (2 * USUAL))
        return cls(part, rows, float(pcc), error, record.get("mse"), record.get("mse_affine"), chosen)

    @property
    def low(self) -> float:
        """Of the 95 % interval."""
        return math.tanh(fisher_z(self.pcc) - USUAL * self.error)

    @property
    def high(self) -> float:
        """Of the 95 % interval."""
        return math.tanh(fisher_z(self.pcc) + USUAL * self.error)

    @property
    def above_zero(self) -> Evidence:
        """Whether there is a correlation at all."""
        errors = CHOSEN if self.chosen else USUAL
        why = f"3 standard errors above 0, as {self.part} chose the epoch" if self.chosen else "interval above 0"
        shown = f"[{self.low:.3f}, {self.high:.3f}] of {self.rows} samples; {why}"
        return Evidence(self.pcc, shown, self.beyond(errors))

    @property
    def independent(self) -> float:
        """As many independent, normal samples would have this standard error."""
        return 3.0 + self.error**-2

    @property
    def exact(self) -> bool:
        """Whether the MSE of 20 rows and more is below a millionth of the target's variance, affine / (1 - PCC^2)."""
        if self.mse is None or self.affine is None or self.rows < 20:
            return False
        return 0 < self.mse * (1.0 - self.pcc**2) <= 1e-6 * self.affine

    def beyond(self, errors: float) -> bool:
        """Whether it is so many standard errors above 0."""
        return fisher_z(self.pcc) > errors * self.error

    @property
    def affine_gain(self) -> float | None:
        """Share of the MSE that the best affine map removes on samples it was not fitted to.

        1 - sigma_y^2 (1 - rho^2) / (1 - 2 / n)^2 / MSE: generalised cross-validation of a line, two parameters. A
        prediction that is shrunk as it should be gains nothing.
        """
        if self.mse is None or self.affine is None or not self.mse > 0:
            return None
        return 1.0 - self.affine / (1.0 - 2.0 / self.rows) ** 2 / self.mse

    def __str__(self) -> str:
        return f"{self.pcc:.3f} [{self.low:.3f}, {self.high:.3f}]"


def fisher_z(pcc: float) -> float:
    """Fisher's z."""
    return math.atanh(min(max(pcc, -1 + 1e-12), 1 - 1e-12))


class Simple(NamedTuple):
    """A simple model, its PCC on the validation part and, where that is known, on the test part."""

    name: str
    pcc: float
    test: float | None = None


def simple_models(peers: Iterable[Row]) -> tuple[Simple, ...]:
    """The records ``{"name": ..., "validation": {"pcc": ...}, "test": {"pcc": ...}}`` of simple models, best first.

    >>> simple_models([{"name": "ridge", "validation": {"pcc": 0.5}}, {"name": "mean", "validation": {"pcc": None}}])
    (Simple(name='ridge', pcc=0.5, test=None),)
    """
    found = []
    for peer in peers:
        scores = peer.get("validation") if isinstance(peer, Mapping) else None
        if not isinstance(scores, Mapping) or "name" not in peer:
            raise InputError(f"a peer is {{'name': ..., 'validation': {{'pcc': ...}}}}, got {peer!r}")
        pcc = scores.get("pcc")
        test = (peer.get("test") or {}).get("pcc")
        if pcc is not None and not math.isnan(pcc):
            found.append(Simple(str(peer["name"]), float(pcc), None if test is None else float(test)))
    return tuple(sorted(found, key=lambda one: -one.pcc))


def in_words(peers: Sequence[Simple]) -> str:
    """ "ridge reaches 0.979, LightGBM 0.950"."""
    first, *rest = (f"{one.name}{' reaches' if not k else ''} {one.pcc:.3f}" for k, one in enumerate(peers))
    return ", ".join([first, *rest])
