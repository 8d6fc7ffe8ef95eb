"""Real runs with a cause that is made: what each cause does to a set, when it is clear, and what is then said.

A verdict is given what ``fit`` gives it: the curves, four simple models on validation and on test, and the interval of
the test PCC, which may withdraw a claim but never makes one. Whether a cause is clear is settled by these rules:

- labels permuted: always. Below 80 validation samples "cannot tell" is right as well, here and in the last line;
- rescaled and shifted: the PCC of the test part is 3 standard errors above 0, and no simple model is 0.02 ahead there;
- far past the best epoch: the same PCC, 20 epochs or more after the kept one, and from that to the last five epochs the
  squared error rose by 15 % and by 2 paired standard errors, on validation and on test alike;
- stopped early: the same PCC, and the long run is 0.05 ahead of it on validation and on test;
- attention frozen: the same PCC;
- half of the columns gone: the same PCC; simple models lost 0.05 by it, and the run is within 0.02 of them, on test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.diagnosis import Verdict, diagnose
from excora.diagnosis.report import diagnose_run
from excora.stats.intervals import Interval, fisher
from excora_studies.verdicts.fresh import FRESH, LOOKED
from excora_studies.verdicts.newest import NEWEST
from excora_studies.verdicts.seen import SEEN
from excora_studies.verdicts.sets import Samples, split
from excora_studies.verdicts.simple import GIVEN, Simple, simple
from excora_studies.verdicts.training import Parts, Recording, train

LONG, USUAL, SHORT = 80, 40, 16  #: epochs: far past the best one, enough, stopped early
SLOW = 2e-4
ENOUGH = 80  #: validation samples from which on "no signal found" is asked for
#: Verdicts that accuse nobody.
INNOCENT = ("healthy", "data-limited", "cannot tell", "still improving")
#: Causes whose verdict is true by construction, whatever a simple model reaches by chance.
MADE = ("labels permuted", "rescaled and shifted")
#: Verdicts that a better simple model would contradict.
CLAIMS = ("healthy", "data-limited", "no signal found", "scale or offset only")


class Variants(NamedTuple):
    """A set as it is, with its labels permuted, and without half of its informative columns; and its parts."""

    whole: Samples
    permuted: Samples
    half: Samples
    parts: Parts


def variants(name: str, seed: int, data: Path | None) -> Variants:
    """Of one set."""
    samples = (SEEN | LOOKED | FRESH | NEWEST)[name](data).standardised()
    parts = split(len(samples.target), seed)
    order = np.random.default_rng(50 + seed).permutation(len(samples.target))
    mixed, half = samples._replace(target=samples.target[order]), samples.without_informative_half(parts[0])
    return Variants(samples, mixed, half, parts)


def reached(name: str, seed: int, data: Path | None) -> dict[str, Any]:
    """What simple models reach on one set and its variants."""
    whole, permuted, half, parts = variants(name, seed, data)
    known = {"whole": simple(whole, parts), "permuted": simple(permuted, parts, GIVEN), "half": simple(half, parts)}
    return {key: one._asdict() for key, one in known.items()}


def record(name: str, seed: int, data: Path | None) -> dict[str, Any]:
    """Every training of one set, in plain numbers: what takes time."""
    samples, mixed, half, parts = variants(name, seed, data)
    long, predicted = train(samples, parts, epochs=LONG, seed=seed)
    made = {
        "long": long,
        "slow": train(samples, parts, epochs=SHORT, seed=seed, rate=SLOW)[0],
        "frozen": train(samples, parts, epochs=USUAL, seed=seed, frozen=True)[0],
        "permuted": train(mixed, parts, epochs=USUAL, seed=seed)[0],
        "half": train(half, parts, epochs=USUAL, seed=seed)[0],
    }
    return {
        "set": name, "seed": seed, "runs": {key: run.to_dict() for key, run in made.items()},
        "validation": {"prediction": _short(predicted), "target": _short(samples.target[parts[1]])},
    }  # fmt: skip


def _short(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]


class Judged(NamedTuple):
    """A run, its made cause, whether that is clear, and the answers that are right (none: any but a fault)."""

    cause: str
    clear: bool
    right: tuple[str, ...]
    verdict: Verdict
    run: Recording
    simple: Simple

    def row(self, name: str, seed: int) -> dict[str, Any]:
        """What is shown of it."""
        pcc, test = self.run.pcc, self.simple.test
        limit = max(pcc + 0.05, fisher(pcc, self.run.tested)[1])
        others = [peer for peer, reached in test.items() if reached > limit]
        true = self.cause in MADE and self.verdict.name in self.right
        return {
            "set": name, "seed": seed, "cause": self.cause, "clear": self.clear, "right": list(self.right),
            "verdict": self.verdict.name, "sentence": self.verdict.sentence, "test PCC": pcc,
            "level": pcc >= max(test.values()) - 0.01,
            **{f"test PCC, {peer}": reached for peer, reached in test.items()},
            "contradicted by": others if self.verdict.name in CLAIMS and not true else [],
        }  # fmt: skip


def judge(stored: dict[str, Any], others: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said of all causes on one set, beside what simple models reach, by the rules as they are."""
    runs = {key: Recording.from_dict(run) for key, run in stored["runs"].items()}
    known = {key: Simple(**one) for key, one in others.items()}
    long, slow, frozen, half = runs["long"], runs["slow"], runs["frozen"].rested(), runs["half"].rested()
    whole, bags = known["whole"], long.validation[0]["bags"]
    rose = all(share >= 0.15 and errors >= 2 for share, errors in long.rise.values())
    ahead = min(long.pcc - slow.pcc, long.validation[long.kept]["pcc"] - slow.validation[slow.kept]["pcc"])
    lost = whole.best - known["half"].best >= 0.05 and abs(half.pcc - known["half"].best) <= 0.02
    nothing = ("no signal found",) if bags >= ENOUGH else ("no signal found", "cannot tell")
    found = [
        _of_run("far past the best epoch", long, whole, rose and long.kept < LONG - 20 and _sure(long), "overfitting"),
        _of_run("as it should be", long.rested(), whole, True),
        *_rescaled(stored, long, whole),
        _of_run("stopped early", slow, whole, ahead >= 0.05 and _sure(slow), "still improving"),
        _of_run("attention frozen", frozen, whole, _sure(frozen), "attention collapsed"),
        _of_run("labels permuted", runs["permuted"], known["permuted"], True, *nothing),
        _of_run("half of the columns gone", half, known["half"], lost and _sure(half), "data-limited", *nothing[1:]),
    ]
    return [one.row(stored["set"], stored["seed"]) for one in found]


def _of_run(cause: str, run: Recording, found: Simple, clear: bool, *right: str) -> Judged:
    test = Interval(run.pcc, *fisher(run.pcc, run.tested), "Fisher")
    verdict = diagnose_run(run.training, run.validation, peers=found.given, test=test).verdict
    return Judged(cause, clear, right, verdict, run, found)


def _sure(run: Recording) -> bool:
    """A correlation on the test part that leaves no doubt, three standard errors above 0."""
    return fisher(run.pcc, 3 + (run.tested - 3) * (1.96 / 3) ** 2)[0] > 0


def _rescaled(stored: dict[str, Any], long: Recording, found: Simple) -> list[Judged]:
    x, y = (np.array(stored["validation"][name]) for name in ("prediction", "target"))
    generator = np.random.default_rng(stored["seed"])
    factor, shift = generator.choice([0.25, 3.0]), generator.choice([-1.5, 1.5])
    clear = _sure(long) and long.pcc >= found.best - 0.02
    made = []
    for cause, values in (("rescaled and shifted", factor * x + shift), ("as predicted", x)):
        verdict = diagnose(values, y, peers=found.given).verdict
        right = ("scale or offset only",) if cause == "rescaled and shifted" else ()
        made.append(Judged(cause, clear or not right, right, verdict, long, found))
    return made
