"""Verdicts: why the correlation has stopped rising, the numbers that say so, and what to try next."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from excora.diagnosis.case import Case
from excora.diagnosis.evidence import Evidence, Row, Thresholds
from excora.diagnosis.texts import TEXTS, out_of_reach
from excora.errors import InputError
from excora.stats.intervals import Interval

__all__ = ["TEXTS", "Evidence", "Thresholds", "Verdict", "make_verdict", "verdict"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Name, what it means, the evidence by name, and what to try next; ``print`` shows all of it.

    >>> print(make_verdict("healthy", {"pcc": Evidence(0.99, ">= 0.95", True)}))
    healthy: No fault found.
      pcc = 0.99 (>= 0.95: yes)
      next: Nothing to repair. Whether another model is better takes a comparison, not a diagnosis.
    """

    name: str
    sentence: str
    evidence: Mapping[str, Evidence]
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        evidence = {name: item._asdict() for name, item in self.evidence.items()}
        return {"name": self.name, "sentence": self.sentence, "evidence": evidence, "advice": self.advice}

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.sentence}"]
        for name, (value, rule, met) in self.evidence.items():
            shown = "unknown" if value is None else f"{value:.4g}"
            lines.append(f"  {name} = {shown} ({rule}: {'yes' if met else 'no'})")
        return "\n".join([*lines, f"  next: {self.advice}"])


def make_verdict(name: str, evidence: Mapping[str, Evidence], *numbers: str) -> Verdict:
    """The verdict of that name with its standing texts, and ``numbers``, sentences that say what it rests on."""
    meaning, advice, _ = TEXTS[name]
    return Verdict(name, " ".join(filter(None, (meaning, *numbers))), dict(evidence), advice)


def verdict(
    records: Sequence[Row],
    *,
    validation: Sequence[Row] = (),
    kept: int | None = None,
    held: Row | None = None,
    interval: Interval | None = None,
    test: Interval | None = None,
    peers: Iterable[Row] = (),
    noise_ceiling: float | None = None,
    thresholds: Thresholds | None = None,
) -> Verdict:
    """Why PCC has stopped rising, from the records of a :class:`excora.PlateauMonitor` and what else is known.

    ``records``: of the training part. ``validation``: of the validation part, an entry an epoch with ``pcc`` and
    ``mse``. ``kept``: the epoch whose weights are kept, from 0 (default: the best on validation, by MSE + 1 - PCC; the
    last one without). ``held``: the record of the kept epoch on validation, with ``bags`` (default: that of
    ``validation``); ``interval``: of its PCC, where samples are not independent. ``test``: PCC on the test part: where
    its interval holds 0 nothing is claimed. ``peers``: scores of simple models on the same validation part, each
    ``{"name": ..., "validation": {"pcc": ...}}``. ``noise_ceiling``: the highest PCC that label noise allows, where you
    know it (from repeats: the square root of their correlation).

    The questions are asked in the order of :data:`QUESTIONS`; the first that has an answer decides; docs/diagnose.md
    has them all. Without validation all of it is said of the training part, and overfitting, behind a simple model,
    data-limited, no signal found and healthy are not said at all.

    >>> verdict([{"pcc": 0.1 * t, "mse": 1 - 0.01 * t, "bags": 50} for t in range(3)]).name
    'cannot tell'
    """
    check_ceiling(noise_ceiling)
    known: dict[str, Any] = {"kept": kept, "held": held, "interval": interval, "test": test, "peers": peers}
    return judge(Case.of(records, validation, noise_ceiling=noise_ceiling, limits=thresholds or Thresholds(), **known))


def check_ceiling(noise_ceiling: float | None) -> None:
    """A correlation, or none."""
    if noise_ceiling is not None and not 0 < noise_ceiling <= 1:
        raise InputError(f"noise_ceiling is a correlation in (0, 1], got {noise_ceiling}")


def judge(case: Case) -> Verdict:
    """The answer to the first question that has one."""
    answers = (question(case) for question in QUESTIONS)
    return _withdrawn(next(found for found in answers if found is not None), case)  # the last one has always one


#: Verdicts that a better simple model contradicts.
CLAIMS = ("healthy", "data-limited", "no signal found")


def _withdrawn(found: Verdict, case: Case) -> Verdict:
    """A claim that a simple model contradicts on the test part is not made."""
    if (better := case.contested_by) is None or found.name not in CLAIMS:
        return found
    why = f"On the test part {better.name} reaches {better.test:.3f}, the model {case.test}: not {found.name!r}."
    return make_verdict("cannot tell", case.evidence, why, case.lead)


def _undefined(case: Case) -> Verdict | None:
    why = "No PCC to judge by: prediction or target is constant, or fewer than 4 samples (of 2 it is always 1 or -1)."
    return make_verdict("cannot tell", {}, why) if case.fit is None else None


def _too_short(case: Case) -> Verdict | None:
    short = case.plateau if case.plateau is not None and case.plateau.state == "too short" else None
    return make_verdict("cannot tell", case.evidence, short.sentence, case.lead) if short else None


def _nothing(case: Case) -> Verdict | None:
    """No correlation that could be explained: is there one to be found?"""
    limits = case.limits
    if case.fit.above_zero.met:
        return None
    if case.ahead:
        return _improving(case, only=True) or _behind(case)  # what still gets better is not compared yet
    if not case.peers or not case.validated or case.found:
        return None
    small = case.fit.high <= limits.nothing
    case.evidence["highest_pcc"] = Evidence(case.fit.high, f"<= {limits.nothing}: larger ones can be excluded", small)
    return make_verdict("no signal found", case.evidence, case.lead) if small else None


def _unestablished(case: Case) -> Verdict | None:
    """Only overfitting, which shows in the error, can be said without a correlation."""
    why = f"No correlation is established: {case.lead}"
    return None if case.fit.above_zero.met else make_verdict("cannot tell", case.evidence, why, case.choices)


def _test(case: Case) -> Verdict | None:
    """The test part does not choose a verdict, but may forbid one."""
    if case.test is None or case.test.low > 0:
        return None
    why = f"On the test part no correlation is established: PCC {case.test}. {case.lead}"
    return make_verdict("cannot tell", case.evidence, why)


def _overfitting(case: Case) -> Verdict | None:
    mse, pcc, training = case.after("mse"), case.after("pcc"), case.training_after
    if mse is None or pcc is None or training is None or case.fit.low <= 0:  # noise: there is nothing to fit well
        return None
    limits, rise, fall = case.limits, mse.after / mse.before - 1.0, pcc.before - pcc.after
    fell = fall >= limits.worse_pcc and pcc.surely and case.fit.above_zero.met  # of one in doubt a fall says nothing
    worse = fell or (rise >= limits.worse_mse and mse.surely)
    learns = training.after < (1 - limits.falls) * training.before
    case.evidence.update({
        "validation_mse_after": Evidence(rise, f"rise after the kept epoch, >= {limits.worse_mse}", worse),
        "validation_pcc_after": Evidence(-fall, f"change after the kept epoch, <= -{limits.worse_pcc}", worse),
        "training_mse_after": Evidence(training.after / training.before - 1.0, "still falls, < -0.02", learns),
    })  # fmt: skip
    if not (worse and learns):
        return None
    numbers = (
        f"Since then validation went from PCC {pcc.before:.3f} to {pcc.after:.3f} and from MSE {mse.before:.3g} to "
        f"{mse.after:.3g}, the training MSE from {training.before:.3g} to {training.after:.3g}."
    )
    return make_verdict("overfitting", case.evidence, case.lead, numbers)


def _improving(case: Case, *, only: bool = False) -> Verdict | None:
    """Is it at rest? ``only``: nothing else is asked."""
    found = case.plateau
    if found is None:
        return None
    assert found.pcc is not None  # it is not too short
    assert found.mse is not None
    pcc, flat = found.pcc, found.state in ("plateau", "converged")
    rule = f"change over the last {found.window} epochs, flat if its interval holds 0 or it is below 0.005"
    case.evidence["pcc_change"] = Evidence(pcc.change, rule, flat)
    change = f"{pcc.change:+.3f} [{pcc.low:+.3f}, {pcc.high:+.3f}] over the last {found.window} epochs"
    late = case.kept >= case.epochs - found.window
    if late and (found.state == "improving" or case.learning):
        also = "" if case.validated else "Whether it does so on other samples takes validation=."
        numbers = f"PCC of the {case.part}: {change}; MSE {found.mse.change:+.3g}."
        return make_verdict("still improving", case.evidence, numbers, case.lead, also)
    if only:
        return None
    if found.state == "improving":
        kept = "after the kept epoch" if case.kept >= 0 else "but none is surely better than the start, which is kept"
        why = f"PCC of the {case.part} rises at the end ({change}), {kept}."
        return make_verdict("cannot tell", case.evidence, why, case.lead)
    if found.state == "worsening" and not case.validated:  # of validation only the kept epoch counts
        why = f"PCC of the {case.part} is falling: {change}; overfitting or divergence."
        return make_verdict("cannot tell", case.evidence, why, case.lead)
    return None


def _behind(case: Case) -> Verdict | None:
    return make_verdict("behind a simple model", case.evidence, case.lead) if case.ahead else None


def _affine(case: Case) -> Verdict | None:
    gain, limit, fit = case.fit.affine_gain, case.limits.affine_gain, case.fit
    if gain is None or fit.mse is None or fit.exact:
        return None
    case.evidence["affine_gain"] = Evidence(gain, f">= {limit}: share of the MSE, cross-validated", gain >= limit)
    if gain < limit:
        return None
    numbers = f"It would take the MSE from {fit.mse:.3g} to {(1 - gain) * fit.mse:.3g}, {gain:.0%} off."
    return make_verdict("scale or offset only", case.evidence, numbers, case.lead)


def _drifted(case: Case) -> Verdict | None:
    """PCC went on rising after the kept epoch, and a line would mend the error: only scale or offset got worse."""
    pcc = case.after("pcc")
    rises = pcc is not None and pcc.surely and pcc.after - pcc.before >= 0.005
    return _affine(case) if rises else None


def _healthy(case: Case) -> Verdict | None:
    """Validated, and high, or clearly ahead of every simple model."""
    if not case.validated:
        return None
    fit, limits, best = case.fit, case.limits, case.peers[0] if case.peers else None
    ahead = len(case.peers) > 1 and best is not None and best.pcc < fit.low
    level = best is None or best.pcc <= fit.pcc + case.level
    good = fit.pcc >= limits.good
    case.evidence["high"] = Evidence(fit.pcc, f">= {limits.good}, or its interval above every simple model", good)
    if not (ahead or (good and level and (case.enough or fit.exact))):
        return None
    unknown = "" if best is not None else "What a simple model reaches is not known."
    return make_verdict("healthy", case.evidence, case.lead, unknown, case.surprise)


def _frozen(case: Case) -> Verdict | None:
    """Attention that is even to the last digit from the first epoch to the last, whatever else is true."""
    least, limit = case.least_spread, case.limits.frozen
    if least is None or least < limit:
        return None
    case.evidence["least_spread"] = Evidence(least, f">= {limit} in every epoch: its scorer is not trained", True)
    return make_verdict("attention collapsed", case.evidence, case.attention, case.lead)


def _unread(case: Case) -> Verdict | None:
    """Signal is left unread: capacity, attention, or optimisation?"""
    record, limits = case.geometry, case.limits
    gain, error = record.get("probe_gain"), case.probe_error
    if gain is None:
        return None
    sure = gain >= limits.probe_gain and gain > 1.96 * error
    rule = f">= {limits.probe_gain} and 1.96 standard errors of {error:.3f}"
    case.evidence["probe_gain"] = Evidence(gain, rule, sure)
    if not sure:
        return None
    top, used = record.get("achievable_ceiling"), record.get("achievable_used")
    spread, effective, ratio = (record.get(k) for k in ("attention_spread", "effective_elements", "gradient_ratio"))
    read = f"A linear read-out of the bags is {gain:.3f} ahead, out of fold."
    if top is not None and used is not None:
        low, full = top <= limits.ceiling, used >= limits.ceiling_used
        case.evidence["achievable_ceiling"] = Evidence(top, f"<= {limits.ceiling}", low)
        case.evidence["achievable_used"] = Evidence(used, f">= {limits.ceiling_used}", full)
        if low and full:
            return make_verdict("capacity-limited", case.evidence, f"The ceiling is {top:.3f}.", read, case.lead)
    if spread is not None and effective is not None:
        even, one = spread >= limits.uniform, effective <= limits.saturated
        case.evidence["attention_spread"] = Evidence(spread, f">= {limits.uniform} is uniform", even)
        case.evidence["effective_elements"] = Evidence(effective, f"<= {limits.saturated} is one element", one)
        if even or one:
            name = "attention collapsed" if even else "attention saturated"
            return make_verdict(name, case.evidence, case.attention, read, case.lead)
    if spread is None and effective is not None:
        why = f"{read} Training does not get there, or a pool without attention, as a mean is, cannot."
        return _behind(case) or make_verdict("cannot tell", case.evidence, why, case.lead)
    if ratio is not None:
        case.evidence["gradient_ratio"] = Evidence(ratio, "< 0.1: MSE drowns the PCC gradient", ratio < 0.1)
    return make_verdict("optimisation-limited", case.evidence, read, case.lead)


def _data(case: Case) -> Verdict | None:
    fit, limits = case.fit, case.limits
    if case.noise_ceiling is not None:
        reached = fit.pcc >= case.noise_ceiling - limits.level
        case.evidence["noise_ceiling"] = Evidence(fit.pcc, f">= {case.noise_ceiling} - {limits.level}", reached)
        if reached:
            given = f"PCC has reached the noise ceiling given, {case.noise_ceiling}."
            return Verdict("data-limited", f"{given} {case.lead}", dict(case.evidence), TEXTS["data-limited"].advice)
    if len(case.peers) < limits.kinds or not case.enough or case.peers[0].pcc > fit.pcc + case.level:
        return None
    return make_verdict("data-limited", case.evidence, case.lead)


def _cannot_tell(case: Case) -> Verdict:
    said = ("Neither a fault nor its absence is established.", case.lead, case.few)
    found = make_verdict("cannot tell", case.evidence, *said)
    return dataclasses.replace(found, advice=" ".join(out_of_reach(*case.missing)) or found.advice)


#: In this order; each answers or leaves it to the next.
QUESTIONS = (_undefined, _too_short, _frozen, _nothing, _test, _overfitting, _unestablished, _improving, _drifted,
             _unread, _behind, _affine, _healthy, _data, _cannot_tell)  # fmt: skip
