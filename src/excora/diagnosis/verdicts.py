"""Verdicts: why the correlation has stopped rising, the numbers that say so, and what to try next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from excora.diagnosis.trend import Plateau, detect_plateau
from excora.errors import InputError

#: name: (what it means, what to try next and which option of Excora that is)
TEXTS = {
    "still improving": (
        "PCC is still rising: there is nothing to explain yet.",
        "Train longer; judge again when `detect_plateau` says 'plateau' or 'converged'.",
    ),
    "overfitting": (
        "PCC still rises on the training part, but no longer on validation.",
        "Training longer will not help: more dropout= or weight_decay=, a smaller model, a lower learning rate, more "
        "data. The best epoch on validation is the one that was kept.",
    ),
    "optimisation-limited": (
        "PCC is flat although the bags hold signal that attention could use: training does not get there.",
        "Raise the learning rate or decay it later. Give the correlation a gradient that does not fade: "
        "JointLoss(DispersionNormalizedPearsonLoss(), weight=1.0); standardise the target.",
    ),
    "capacity-limited": (
        "PCC is flat at what convex attention weights can reach under this head, and the bags hold more.",
        "Let the pool leave the convex hull: ECAPool(dim) in place of the pool, or extrapolate_(model) on the model "
        "as it is. If it is an ECAPool already, raise cap=.",
    ),
    "attention collapsed": (
        "Attention is uniform, as good as a mean, although other weights would do better.",
        "Sharpen the attention: ECAPool(dim, temperature='learned') starts at temperature 1 and learns it; give the "
        "scorer a larger learning rate or more capacity (GatedPool), and check that it receives a gradient.",
    ),
    "attention saturated": (
        "Attention rests on one element a bag, not the right one, where its gradient vanishes.",
        "Soften the attention: ECAPool(dim, temperature='learned') or a start from smaller scorer weights; "
        "dropout= on the pool spreads it while training.",
    ),
    "noise-limited": (
        "PCC is flat, and a linear read-out of the bags finds nothing that the prediction does not use.",
        "More attention will not help: look for better labels or repeats, better features, more data. "
        "CorrelationSummary with groups= shows whether some groups are noisier.",
    ),
    "scale or offset only": (
        "The prediction is right up to scale and offset: an affine fix would do.",
        "Fit slope and intercept on validation data (`diagnose` prints them), or train with ConcordanceLoss or "
        "JointLoss, which see scale and offset; PearsonLoss alone does not.",
    ),
    "healthy": (
        "Converged, and no fault found.",
        "Nothing to repair. Whether another model is better takes a comparison, not a diagnosis.",
    ),
    "cannot tell": (
        "The input does not carry the evidence for a verdict.",
        "Train for 12 epochs or more; in a loop of your own, give PlateauMonitor pooled=, h= and head= at each update.",
    ),
}


class Evidence(NamedTuple):
    """A number, the rule it was held against, and whether it met the rule."""

    value: float | None
    rule: str
    met: bool


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Name, what it means, the evidence by name, and what to try next; ``print`` shows all of it.

    >>> print(make_verdict("healthy", {"pcc": Evidence(0.99, ">= 0.95", True)}))
    healthy: Converged, and no fault found.
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


def make_verdict(name: str, evidence: Mapping[str, Evidence], because: str = "") -> Verdict:
    """The verdict of that name with its standing texts; ``because`` is put in front of the sentence."""
    sentence, advice = TEXTS[name]
    return Verdict(name, f"{because} {sentence}".strip(), dict(evidence), advice)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Where the lines are drawn; chosen on runs with other seeds than the reported ones (docs/diagnose.md)."""

    probe_gain: float = 0.02  #: PCC that a linear read-out must have over the prediction to count as unread signal
    ceiling_used: float = 0.95  #: share of the achievable ceiling from which on it is used up
    ceiling: float = 0.99  #: a ceiling above this limits nobody
    uniform: float = 0.95  #: attention_spread from which on attention is uniform
    saturated: float = 1.2  #: effective_elements up to which attention rests on one
    misfit: float = 0.5  #: share of the MSE from which on offset and scale are what is wrong
    good: float = 0.95  #: PCC from which on little is left to explain


def verdict(
    records: Sequence[Mapping[str, float | int | None]],
    *,
    noise_ceiling: float | None = None,
    thresholds: Thresholds | None = None,
) -> Verdict:
    """Why PCC has stopped rising, from the records of a :class:`excora.PlateauMonitor`.

    The questions, in this order; the first that is answered decides, and docs/diagnose.md has them as a table:

    1. Is PCC still rising (:func:`detect_plateau`)? still improving. Falling, or too few epochs? cannot tell.
    2. Does the probe, a linear read-out of the bags, beat the prediction (``probe_gain``)? If not: scale or offset only
       where these make half of the MSE; healthy where PCC is 0.95 or ``noise_ceiling``; else
       noise-limited.
    3. It does, so signal is left unread. Is the convex ceiling below 1 and used up? capacity-limited.
       Attention uniform? collapsed. On one element? saturated. None of these: optimisation-limited.

    ``noise_ceiling``: the highest PCC that label noise allows, where you know it (from repeats: the square root of
    their correlation). Without ``probe_gain`` in the records (no h= or pooled= at update) only 1 and scale or offset
    can be answered.

    >>> verdict([{"pcc": 0.1 * t, "mse": 1 - 0.01 * t} for t in range(3)]).name
    'cannot tell'
    """
    limits = Thresholds() if thresholds is None else thresholds
    if noise_ceiling is not None and not 0 < noise_ceiling <= 1:
        raise InputError(f"noise_ceiling is a correlation in (0, 1], got {noise_ceiling}")
    found = detect_plateau([r.get("pcc") for r in records], [r.get("mse") for r in records])
    if found.state in ("improving", "worsening", "too short"):
        return moving(found)
    if records[-1].get("pcc") is None or records[-1].get("mse") is None:
        return make_verdict("cannot tell", {}, "PCC of the last epoch is undefined: prediction or target is constant.")
    return _stalled(records[-1], stalled_evidence(found), limits, noise_ceiling)


def moving(found: Plateau) -> Verdict:
    """The verdict on a series that has not come to rest, or is too short to say."""
    evidence = {}
    if found.pcc is not None:
        rule = f"change over {found.window} epochs, flat if its interval holds 0 or it is below 0.005"
        evidence["pcc_change"] = Evidence(found.pcc.change, rule, False)
    if found.state == "improving":
        return make_verdict("still improving", evidence)
    why = "PCC is falling: overfitting or divergence." if found.state == "worsening" else found.sentence
    return make_verdict("cannot tell", evidence, why)


def with_validation(found: Verdict, stopped: str, epochs: int, best_epoch: int) -> Verdict:
    """The verdict of the training part in view of validation: what still improves there, but not here, overfits.

    ``stopped``: why training ended; ``best_epoch``, from 0, of ``epochs`` is the one that validation picked.

    >>> with_validation(make_verdict("still improving", {}), "patience", 20, 4).name
    'overfitting'
    """
    if found.name != "still improving" or stopped != "patience":
        return found
    waited = Evidence(float(epochs - 1 - best_epoch), "epochs without a better validation score: the patience", True)
    return make_verdict("overfitting", {**found.evidence, "epochs after the best": waited})


def stalled_evidence(found: Plateau) -> dict[str, Evidence]:
    """That PCC is flat, as evidence."""
    assert found.pcc is not None
    assert found.mse is not None
    rule = f"change over {found.window} epochs, flat if its interval holds 0 or it is below 0.005"
    return {
        "pcc_change": Evidence(found.pcc.change, rule, True),
        "mse_change": Evidence(found.mse.change, "falls significantly", found.state == "plateau"),
    }


def misfit_evidence(mse: float, offset: float, scale: float, limit: float) -> Evidence:
    """Share of the MSE in (mean yhat - mean y)^2 + (sigma_yhat - sigma_y)^2.

    Not the gain of the best affine fix: that one also shrinks a noisy prediction, however well its scale fits.
    """
    share = (offset + scale) / mse if mse > 0 else 0.0
    return Evidence(share, f">= {limit}", share >= limit)


def _stalled(
    last: Mapping[str, float | int | None],
    evidence: dict[str, Evidence],
    limits: Thresholds,
    noise_ceiling: float | None,
) -> Verdict:
    rho, gain = last.get("pcc"), last.get("probe_gain")
    mse, offset, scale = last.get("mse"), last.get("mse_offset"), last.get("mse_scale")
    assert rho is not None  # verdict() has looked
    assert mse is not None
    if offset is not None and scale is not None:
        evidence["offset_and_scale_share"] = misfit_evidence(mse, offset, scale, limits.misfit)
    if noise_ceiling is not None:
        evidence["pcc"] = Evidence(rho, f">= noise ceiling {noise_ceiling} - 0.02", rho >= noise_ceiling - 0.02)
        if evidence["pcc"].met and not _met(evidence, "offset_and_scale_share"):
            return make_verdict("noise-limited", evidence, "PCC has reached the noise ceiling given.")
    if gain is None:
        return make_verdict(
            "scale or offset only" if _met(evidence, "offset_and_scale_share") else "cannot tell", evidence
        )
    evidence["probe_gain"] = Evidence(gain, f">= {limits.probe_gain}", gain >= limits.probe_gain)
    if not _met(evidence, "probe_gain"):
        if _met(evidence, "offset_and_scale_share"):
            return make_verdict("scale or offset only", evidence)
        evidence["pcc"] = Evidence(rho, f">= {limits.good}", rho >= limits.good)
        return make_verdict("healthy" if rho >= limits.good else "noise-limited", evidence)
    return _unread(last, evidence, limits)


def _unread(last: Mapping[str, float | int | None], evidence: dict[str, Evidence], limits: Thresholds) -> Verdict:
    """Signal is left unread: capacity, attention, or optimisation?"""
    top, used = last.get("achievable_ceiling"), last.get("achievable_used")
    spread, effective, ratio = (last.get(k) for k in ("attention_spread", "effective_elements", "gradient_ratio"))
    if top is not None and used is not None:
        evidence["achievable_ceiling"] = Evidence(top, f"<= {limits.ceiling}", top <= limits.ceiling)
        evidence["achievable_used"] = Evidence(used, f">= {limits.ceiling_used}", used >= limits.ceiling_used)
        if _met(evidence, "achievable_ceiling") and _met(evidence, "achievable_used"):
            return make_verdict("capacity-limited", evidence)
    if spread is not None and effective is not None:
        evidence["attention_spread"] = Evidence(spread, f">= {limits.uniform} is uniform", spread >= limits.uniform)
        if _met(evidence, "attention_spread"):
            return make_verdict("attention collapsed", evidence)
        one = effective <= limits.saturated
        evidence["effective_elements"] = Evidence(effective, f"<= {limits.saturated} is one element", one)
        if one:
            return make_verdict("attention saturated", evidence)
    if ratio is not None:
        evidence["gradient_ratio"] = Evidence(ratio, "< 0.1: MSE drowns the PCC gradient", ratio < 0.1)
    return make_verdict("optimisation-limited", evidence)


def _met(evidence: Mapping[str, Evidence], name: str) -> bool:
    return name in evidence and evidence[name].met
