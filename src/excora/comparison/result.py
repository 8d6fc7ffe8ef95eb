"""What a comparison found: a row for each model, paired differences, and the conclusion in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from excora.console import aligned, table
from excora.stats.paired import Bounds

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["better", "worse", "no difference", "cannot tell"]
#: Differences in PCC below this are of no interest: an interval inside it on both sides is "no difference".
MARGIN = 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A model: scores over all test samples of a seed together, mean over seeds. An undefined correlation counts as 0.

    ``runs`` has the scores of each (seed, fold) by itself, where an undefined correlation is None.
    """

    model: str
    label: str
    pcc: float
    mse: float
    mae: float
    seconds: float  #: mean of a run
    runs: list[dict[str, Any]]  #: seed, fold, pcc, mse, mae, seconds, details

    @property
    def folds(self) -> tuple[float, float] | None:
        """The lowest and the highest PCC of a run; None if all are undefined."""
        known = [run["pcc"] for run in self.runs if run["pcc"] is not None]
        return (min(known), max(known)) if known else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """PCC of ``model`` minus that of ``against``, its interval, and what the steps over all pairs say; MSE likewise."""

    model: str
    against: str
    difference: float
    low: float
    high: float
    verdict: Verdict
    mse_difference: float
    mse_low: float
    mse_high: float
    mse_verdict: Verdict  #: a lower MSE is better

    @classmethod
    def of(cls, model: str, against: str, pcc: Bounds, mse: Bounds, margin: float) -> Pair:
        """From the intervals of both scores."""
        mirrored = Bounds(-mse.difference, -mse.high, -mse.low)
        return cls(
            model=model, against=against,
            difference=pcc.difference, low=pcc.low, high=pcc.high, verdict=judged(pcc, margin),
            mse_difference=mse.difference, mse_low=mse.low, mse_high=mse.high, mse_verdict=judged(mirrored, 0.0),
        )  # fmt: skip

    def turned(self) -> Pair:
        """The same, from the other model's side."""
        other = {name: -getattr(self, name) for name in ("difference", "mse_difference")}
        other |= {"low": -self.high, "high": -self.low, "mse_low": -self.mse_high, "mse_high": -self.mse_low}
        words = {name: _TURNED.get(getattr(self, name), getattr(self, name)) for name in ("verdict", "mse_verdict")}
        return Pair(model=self.against, against=self.model, **other, **words)


_TURNED: dict[str, Verdict] = {"better": "worse", "worse": "better"}


def judged(bounds: Bounds, margin: float) -> Verdict:
    """In words: which side of 0 the interval is on, or whether it is inside the margin, or that one cannot tell.

    >>> [judged(Bounds(0.0, *ends), 0.02) for ends in ((0.001, 0.01), (-0.3, -0.1), (-0.01, 0.015), (-0.68, 1.26))]
    ['better', 'worse', 'no difference', 'cannot tell']
    """
    if bounds.side:
        return "better" if bounds.side > 0 else "worse"
    return "no difference" if -margin < bounds.low and bounds.high < margin else "cannot tell"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Headline:
    """The model with the highest PCC, and what its pairs with the others say."""

    best: str
    better_than: list[str]
    tied_with: list[str]  #: of which one cannot tell, or
    equal_to: list[str]  #: from which it does not differ by more than the margin


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of :func:`excora.comparison.compare`; ``print`` shows it, :meth:`to_dict` is comparison.json."""

    reference: str  #: the best model: what the table takes differences from
    rows: list[Row]  #: the best first
    pairs: list[Pair]  #: every pair of models once, the lower against the higher PCC
    headline: Headline
    sentence: str
    notes: list[str]
    setup: dict[str, Any]
    rerun: str

    @property
    def best(self) -> str:
        """The model with the highest PCC; whether that is more than chance is in :attr:`headline`."""
        return self.headline.best

    def row(self, model: str) -> Row:
        """The row of a model."""
        return next(row for row in self.rows if row.model == model)

    def pair(self, model: str, against: str | None = None) -> Pair | None:
        """A model against another (the best one, unless given); None for a model against itself."""
        against = against or self.reference
        for pair in self.pairs:
            if (pair.model, pair.against) == (model, against):
                return pair
            if (pair.against, pair.model) == (model, against):
                return pair.turned()
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def frame(self) -> pd.DataFrame:
        """The rows as a table, with the difference to the best."""
        import pandas as pd

        lines = []
        for row in self.rows:
            line = {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if f.name != "runs"}
            pair = self.pair(row.model)
            names = ("difference", "low", "high", "verdict")
            lines.append(line | {name: None if pair is None else getattr(pair, name) for name in names})
        return pd.DataFrame(lines)

    def _table(self) -> list[tuple[str, ...]]:
        """Header and cells."""
        lines: list[tuple[str, ...]] = [
            ("model", "PCC", "folds", "PCC - best", "95 % interval", "verdict", "MSE", "MAE", "seconds")
        ]
        for row in self.rows:
            pair, ends = self.pair(row.model), row.folds
            spread = "undefined" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"
            told = ("", "", "best" if len(self.rows) > 1 else "")
            if pair is not None:
                told = (f"{pair.difference:+.3f}", f"{pair.low:+.3f} to {pair.high:+.3f}", pair.verdict)
            scores = f"{row.mse:.4g}", f"{row.mae:.4g}", f"{row.seconds:.1f}"
            lines.append((row.label, f"{row.pcc:.3f}", spread, *told, *scores))
        return lines

    def __str__(self) -> str:
        return "\n".join(
            [*aligned(self._table(), right=_RIGHT), "", self.sentence, *(f"Note: {note}" for note in self.notes)]
        )

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        if not console.is_terminal:
            yield Text(str(self))
            return
        header, *lines = self._table()
        widths = [max(map(len, column)) + 2 for column in zip(header, *lines, strict=True)]
        shown = list(range(len(header)))
        for name in ("seconds", "MAE", "MSE", "folds"):
            if sum(widths[k] for k in shown) > options.max_width:
                shown.remove(header.index(name))
        styles = {"better": "green", "worse": "red", "best": "bold"}
        rows = [
            [Text(cells[k], styles.get(cells[k], "")) if k == _VERDICT else cells[k] for k in shown] for cells in lines
        ]
        right = {place for place, k in enumerate(shown) if k in _RIGHT}
        made = table(rows, [header[k] for k in shown], right=right)
        made.columns[0].no_wrap = True
        yield made
        yield Text()
        yield Text(self.sentence, "bold")
        for note in self.notes:
            yield Text(f"Note: {note}")


_VERDICT = 5
_RIGHT = {1, 2, 3, 4, 6, 7, 8}


def conclude(labels: dict[str, str], headline: Headline, pcc: float, margin: float, focus: Pair | None) -> str:
    """The conclusion in plain words: the best model first, then a pair that one asks about, if it is not in it."""
    best, count = labels[headline.best], 1 + len(headline.better_than) + len(headline.tied_with)
    if count == 1:
        return f"{best} has a PCC of {pcc:.3f}."
    equal = [labels[name] for name in headline.equal_to]
    unclear = [labels[name] for name in headline.tied_with if name not in headline.equal_to]
    beaten = _listed([labels[name] for name in headline.better_than])
    if not headline.tied_with:
        beaten = "the other" if count == 2 else f"all {count - 1} others"
    said = [f"is better than {beaten}"] if beaten else []
    said += [f"does not differ from {_listed(equal)} by {margin:g} or more"] if equal else []
    found = f"{best} has the highest PCC, {pcc:.3f}" + "".join(f", and {one}" for one in said)
    if unclear:
        found += f"{'; ' if said else ', but '}one cannot tell whether it is better than {_listed(unclear)}"
    if count > 2:
        found += f". All {count * (count - 1) // 2} pairs are judged at once, with at most 5 % for a false win"
    return f"{found}." if focus is None else f"{found}. {_pair_sentence(labels, focus, margin)}"


def _pair_sentence(labels: dict[str, str], pair: Pair, margin: float) -> str:
    model, against = labels[pair.model], labels[pair.against]
    figures = f"PCC differs by {pair.difference:+.3f}, interval {pair.low:+.3f} to {pair.high:+.3f}."
    if pair.verdict == "cannot tell":
        return f"One cannot tell whether {model} is better than {against}: {figures}"
    if pair.verdict == "no difference":
        return f"{model} and {against} do not differ by {margin:g} or more: {figures}"
    return f"{model} is {pair.verdict} than {against}: {figures}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
