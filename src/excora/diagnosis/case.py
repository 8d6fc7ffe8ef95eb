"""A run as its verdict sees it: the kept epoch, the part it is judged on, and everything that is known beside."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from excora.diagnosis.evidence import (
    TUNED,
    USUAL,
    Evidence,
    Fit,
    Row,
    Simple,
    Thresholds,
    fisher_z,
    in_words,
    simple_models,
)
from excora.diagnosis.trend import Change, Plateau, change_after, detect_plateau, last_change
from excora.stats.intervals import Interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """What :func:`excora.diagnosis.verdict` was given, brought together; ``evidence`` grows as questions are asked."""

    records: Sequence[Row]  #: of the training part
    curve: Sequence[Row]  #: of the part that is judged
    validated: bool  #: that part is the validation part
    kept: int  #: from 0; -1: what the network started from
    fit: Any  #: a Fit; None only where PCC is undefined, which is asked first
    geometry: Row  #: of the kept epoch: attention, ceilings, the probe
    test: Interval | None
    peers: tuple[Simple, ...]  #: best first; none where nothing can be compared with them
    noise_ceiling: float | None
    limits: Thresholds
    evidence: dict[str, Evidence]
    plateau: Plateau | None  #: of the judged curve; None for predictions without one

    @classmethod
    def of(
        cls,
        records: Sequence[Row],
        validation: Sequence[Row] = (),
        *,
        kept: int | None = None,
        held: Row | None = None,
        interval: Interval | None = None,
        test: Interval | None = None,
        peers: Iterable[Row] = (),
        noise_ceiling: float | None = None,
        limits: Thresholds | None = None,
    ) -> Case:
        """The arguments are those of :func:`excora.diagnosis.verdict`."""
        curve = validation or records
        place = _best(curve, validated=bool(validation)) if kept is None else kept
        here = held if held is not None else curve[place] if 0 <= place < len(curve) else {}
        validated = bool(validation) or held is not None
        name = "validation" if validated else "training part"
        fit = Fit.of(here, name, interval=interval, chosen=validated)
        seen = [here, records[place] if 0 <= place < len(records) else {}]
        geometry = next((row for row in seen if row.get("probe_gain") is not None), None)
        if geometry is None:
            geometry = next((row for row in seen if row.get("attention_spread") is not None), here)
        known = simple_models(peers) if validated else ()
        case = cls(
            records=records, curve=curve, validated=validated, kept=place, fit=fit, geometry=geometry,
            test=None if test is None or math.isnan(test.low) else test, peers=known, noise_ceiling=noise_ceiling,
            limits=limits or Thresholds(), evidence={},
            plateau=None if held is not None and not curve
            else detect_plateau([row.get("pcc") for row in curve], [row.get("mse") for row in curve]),
        )  # fmt: skip
        case._begin()
        return case

    @classmethod
    def of_predictions(
        cls, fit: Fit | None, plateau: Plateau | None, epochs: int, peers: Iterable[Row], noise_ceiling: float | None
    ) -> Case:
        """Predictions of samples that the model was not fitted to, in the last of ``epochs``, 0 for not known."""
        case = cls(
            records=(), curve=[{}] * epochs, validated=True, kept=max(epochs - 1, 0), fit=fit,
            geometry={}, test=None, peers=simple_models(peers), noise_ceiling=noise_ceiling, limits=Thresholds(),
            evidence={}, plateau=None if plateau is None or plateau.pcc is None else plateau,
        )  # fmt: skip
        case._begin()
        return case

    def _begin(self) -> None:
        """The evidence that every verdict shows."""
        if self.fit is None:
            return
        self.evidence["pcc"] = self.fit.above_zero
        if self.epochs:
            self.evidence["kept_epoch"] = Evidence(self.kept + 1.0, f"of {self.epochs}, from 1", True)
        if self.test is not None:
            rule = f"[{self.test.low:.3f}, {self.test.high:.3f}]; interval above 0"
            self.evidence["test_pcc"] = Evidence(self.test.value, rule, self.test.low > 0)
        for one in self.peers:
            rule = f"ahead: above {self.fit.high:.3f} and by {self.limits.level}"
            self.evidence[f"{one.name}_pcc"] = Evidence(one.pcc, rule, one in self.ahead)

    @property
    def epochs(self) -> int:
        """How many there were."""
        return max(len(self.curve), len(self.records))

    @property
    def part(self) -> str:
        """The part whose curve is judged."""
        if self.fit.part == "predictions":
            return "predictions"
        return "validation part" if self.curve is not self.records else "training part"

    @property
    def lead(self) -> str:
        """The numbers that stand in every sentence."""
        where = {"validation": "Validation PCC", "predictions": "PCC"}.get(self.fit.part, "PCC of the training part")
        when = f" at the kept epoch, {self.kept + 1} of {self.epochs}" if self.epochs else f" of {self.fit.rows} rows"
        when = f" before the first of {self.epochs} epochs, which is kept" if self.kept < 0 else when
        simple = f"; {in_words(self.peers)}" if self.peers else ""
        return f"{where} is {self.fit}{when}{simple}."

    @property
    def attention(self) -> str:
        """Attention in numbers."""
        spread, effective = (self.geometry.get(name) for name in ("attention_spread", "effective_elements"))
        return f"Of 0, one element, to 1, uniform, it is at {spread:.4f}: {effective:.1f} effective elements a bag."

    @property
    def learning(self) -> bool:
        """PCC is flat, but the validation MSE is still falling: by much, or with the training MSE to the last epoch."""
        return self._by_much or self._to_the_end

    @property
    def _to_the_end(self) -> bool:
        """The last epoch is the best one, and both errors surely fall up to it."""
        if self.curve is self.records or not self.records or self.kept < self.epochs - 1:
            return False
        window = self.plateau.window if self.plateau is not None else len(self.records)
        held, seen = (last_change([r.get("mse") for r in rows], window) for rows in (self.curve, self.records))
        if held is None or seen is None:
            return False
        return held.high < 0 and seen.high < 0 and seen.change <= -self.limits.falls * float(self.records[-1]["mse"])

    @property
    def _by_much(self) -> bool:
        found = self.plateau
        if found is None or found.state != "plateau" or found.mse is None or not self.validated or not self.fit.mse:
            return False
        return found.mse.change <= -self.limits.learning * self.fit.mse

    @cached_property
    def ahead(self) -> tuple[Simple, ...]:
        """The simple models that are clearly better: above the interval of the PCC, and by what would matter."""
        if self.fit is None:
            return ()
        limit = max(self.fit.high, self.fit.pcc + self.limits.level)
        return tuple(one for one in self.peer_scores if one.pcc > limit and not self._overtaken(one))

    @property
    def peer_scores(self) -> tuple[Simple, ...]:
        """Those whose own correlation is beyond doubt."""
        pairs = zip(self.peers, self.peer_fits, strict=True)
        return tuple(one for one, fit in pairs if fit.beyond(TUNED) and not self._by_chance(one))

    @property
    def found(self) -> tuple[Simple, ...]:
        """Those that may have found a correlation: validation has tuned them, the test part may say it was chance."""
        pairs = zip(self.peers, self.peer_fits, strict=True)
        return tuple(one for one, fit in pairs if fit.above_zero.met and not self._by_chance(one))

    def _by_chance(self, one: Simple) -> bool:
        """Whether the test part does not bear it out: its interval, as wide as the model's there, holds 0."""
        if self.test is None or one.test is None:
            return False
        return fisher_z(one.test) <= (fisher_z(self.test.high) - fisher_z(self.test.low)) / 2

    def _overtaken(self, one: Simple) -> bool:
        """Whether it is not ahead on the test part by what would matter: then the model is not behind it."""
        return self.test is not None and one.test is not None and one.test <= self.test.value + self.limits.level

    @property
    def contested_by(self) -> Simple | None:
        """The best simple model on the test part, if it is ahead there beyond doubt: the page shows both numbers."""
        if self.test is None:
            return None
        error = (fisher_z(self.test.high) - fisher_z(self.test.low)) / (2 * USUAL)
        limit = max(self.test.high, self.test.value + self.limits.contested, math.tanh(TUNED * error))
        ahead = [one for one in self.peers if one.test is not None and one.test > limit]
        return max(ahead, key=lambda one: one.test or 0.0, default=None)

    @cached_property
    def peer_fits(self) -> tuple[Fit, ...]:
        """The simple models on the same rows; validation has tuned them."""
        return tuple(dataclasses.replace(self.fit, pcc=one.pcc, chosen=True) for one in self.peers)

    @property
    def enough(self) -> bool:
        """Whether as good as so many independent rows are there that a draw with simple models means something."""
        return bool(self.fit.independent >= self.limits.few - 0.5)

    @property
    def few(self) -> str:
        """Said where there are not enough."""
        worth = f"These rows are worth {self.fit.independent:.0f} independent ones"
        return "" if self.enough else f"{worth}: of fewer than {self.limits.few} a draw with simple models says little."

    @property
    def surprise(self) -> str:
        """Said where nothing is left to explain."""
        why = "The error is below a thousandth of the target's deviation: if that is a surprise, look for the label"
        return f"{why} among the features." if self.fit.exact else ""

    @property
    def choices(self) -> str:
        """Said where the interval lies above 0 and that is not enough."""
        why = "Validation makes choices: to be sure takes 3 standard errors above 0, not the 2 of the interval."
        return why if self.fit.chosen and self.fit.low > 0 else ""

    @property
    def level(self) -> float:
        """By how much a simple model may be ahead and still be level: 0.02, or what the rows do not resolve, to 0.05.

        On the same rows a difference of two PCCs scatters by about half the standard error of either.
        """
        error = (1.0 - self.fit.pcc**2) * self.fit.error / 2
        return float(min(max(self.limits.level, error), self.limits.level_most))

    @property
    def least_spread(self) -> float | None:
        """How even attention was when it was least so, over all epochs; None unless 2 of them say."""
        rows = [*self.records, *(self.curve if self.curve is not self.records else ()), self.geometry]
        found = [row["attention_spread"] for row in rows if row.get("attention_spread") is not None]
        return min(found) if len(found) > 2 else None

    def after(self, name: str) -> Change | None:
        """What became of the validation curve after the kept epoch."""
        if self.curve is self.records:
            return None
        return change_after([row.get(name) for row in self.curve], self.kept)

    @cached_property
    def training_after(self) -> Change | None:
        """And of the training MSE."""
        return change_after([row.get("mse") for row in self.records], self.kept) if self.records else None

    @property
    def probe_error(self) -> float:
        """Standard error of the probe's gain; of a record that has none, that of the PCC itself."""
        error = self.geometry.get("probe_error")
        return (1.0 - self.fit.pcc**2) * self.fit.error if error is None else float(error)

    @property
    def missing(self) -> tuple[str, ...]:
        """What was not given, by its name in :data:`excora.diagnosis.texts.GIVEN`."""
        fitted = self.epochs == 0 and self.fit is not None and self.fit.part == "validation"  # in one go
        lacks = {
            "epochs": not self.epochs and not fitted,
            "validation": not self.validated,
            "training": self.validated and not self.records and not fitted,
            "peers": self.validated and not self.peers,
            "kinds": self.validated and len(self.peers) < self.limits.kinds,
            "pool": self.geometry.get("probe_gain") is None and not fitted,
        }
        return tuple(name for name, gone in lacks.items() if gone)


def _best(curve: Sequence[Row], *, validated: bool) -> int:
    """The epoch of the lowest MSE + 1 - PCC on validation; of the training part the last one."""
    if not validated or not curve:
        return max(len(curve) - 1, 0)

    def criterion(row: Row) -> float:
        mse, pcc = row.get("mse"), row.get("pcc")
        return math.inf if mse is None or math.isnan(mse) else mse + 1.0 - (pcc or 0.0)

    return min(range(len(curve)), key=lambda epoch: criterion(curve[epoch]))
