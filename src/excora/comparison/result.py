"""What a comparison found: a row for each model, paired differences, and the conclusion in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from excora.console import aligned, table
from excora.stats.paired import Bounds

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["better", "worse", "no difference"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A model: mean and standard deviation over runs (seeds x folds), each scored on its own test part.

    None where undefined: a correlation of constants, the deviation of a single run.
    """

    model: str
    label: str
    pcc: float | None
    pcc_sd: float | None
    mse: float
    mse_sd: float | None
    mae: float
    mae_sd: float | None
    seconds: float  #: mean of a run
    pooled_pcc: float  #: over all samples of a seed, mean over seeds: what the differences are taken of
    pooled_mse: float
    runs: list[dict[str, Any]]  #: seed, fold, pcc, mse, mae, seconds, details


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two models: pooled PCC of ``model`` minus that of ``against``, 95 % interval of this pair alone; MSE likewise."""

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
    def of(cls, model: str, against: str, pcc: Bounds, mse: Bounds) -> Pair:
        """From the intervals of both scores."""
        return cls(
            model=model, against=against,
            difference=pcc.difference, low=pcc.low, high=pcc.high, verdict=_VERDICTS[pcc.side],
            mse_difference=mse.difference, mse_low=mse.low, mse_high=mse.high, mse_verdict=_VERDICTS[-mse.side],
        )  # fmt: skip


_VERDICTS: dict[int, Verdict] = {1: "better", -1: "worse", 0: "no difference"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Headline:
    """The model with the highest pooled PCC, and what holds of it with 95 % for all pairs of models at once."""

    best: str
    better_than: list[str]
    tied_with: list[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of :func:`excora.comparison.compare`; ``print`` shows it, :meth:`to_dict` is comparison.json."""

    reference: str
    rows: list[Row]
    pairs: list[Pair]
    headline: Headline
    sentence: str
    notes: list[str]
    setup: dict[str, Any]
    rerun: str

    @property
    def best(self) -> str:
        """The model with the highest pooled PCC; whether that is more than chance is in :attr:`headline`."""
        return self.headline.best

    def row(self, model: str) -> Row:
        """The row of a model."""
        return next(row for row in self.rows if row.model == model)

    def pair(self, model: str, against: str | None = None) -> Pair | None:
        """The pair of a model against another (the reference, unless given), if it was looked at."""
        against = against or self.reference
        return next((pair for pair in self.pairs if (pair.model, pair.against) == (model, against)), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    def frame(self) -> pd.DataFrame:
        """The rows as a table, with the difference to the reference."""
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
        reference = self.row(self.reference).label
        lines: list[tuple[str, ...]] = [
            ("model", "PCC", "MSE", "MAE", "seconds", f"PCC - {reference}", "95 % interval", "verdict")
        ]
        for row in self.rows:
            pair = self.pair(row.model)
            scores = (
                _spread(row.pcc, row.pcc_sd, "{:.3f}"), _spread(row.mse, row.mse_sd, "{:.4g}"),
                _spread(row.mae, row.mae_sd, "{:.4g}"), f"{row.seconds:.1f}",
            )  # fmt: skip
            if pair is None:
                lines.append((row.label, *scores, "", "", "reference"))
            else:
                between = f"{pair.low:+.3f} to {pair.high:+.3f}"
                lines.append((row.label, *scores, f"{pair.difference:+.3f}", between, pair.verdict))
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
        fits = max(map(len, str(self).splitlines()[: len(lines) + 1])) <= options.max_width
        shown = [k for k in range(len(header)) if fits or header[k] not in ("MAE", "seconds")]
        styles = {"better": "green", "worse": "red"}
        rows = [[*(cells[k] for k in shown[:-1]), Text(cells[-1], styles.get(cells[-1], ""))] for cells in lines]
        right = {place for place, k in enumerate(shown) if k in _RIGHT}
        made = table(rows, [header[k] for k in shown], right=right)
        made.columns[0].no_wrap = True
        yield made
        yield Text()
        yield Text(self.sentence, "bold")
        for note in self.notes:
            yield Text(f"Note: {note}")


_RIGHT = range(1, 7)


def _spread(mean: float | None, deviation: float | None, form: str) -> str:
    if mean is None:
        return "undefined"
    return form.format(mean) + ("" if deviation is None else f" ± {form.replace('.4g', '.2g').format(deviation)}")


def conclude(labels: dict[str, str], focus: Pair | None, headline: Headline, pcc: float) -> str:
    """The conclusion in plain words: the pair one asks about first, then the best model."""
    names = [labels[model] for model in headline.tied_with]
    best, count = labels[headline.best], 1 + len(names) + len(headline.better_than)
    # Of pooled out-of-fold predictions, as the differences: not the mean over folds, which the table shows.
    found = f"{best} has the highest PCC over all samples ({pcc:.3f})"
    for_all = f"by intervals that hold for all pairs of the {count} models at once"
    if count == 1:
        found = f"{best} has a PCC of {pcc:.3f} over all samples."
    elif not names:
        found += f" and is better than {'the other' if count == 2 else f'all {count - 1} others'}, {for_all}."
    else:
        found += f", but cannot be told apart from {_listed(names)}, {for_all}."
    return found if focus is None else f"{_pair_sentence(labels, focus)} {found}"


def _pair_sentence(labels: dict[str, str], pair: Pair) -> str:
    model, against = labels[pair.model], labels[pair.against]
    figures = f"PCC differs by {pair.difference:+.3f}, 95 % interval {pair.low:+.3f} to {pair.high:+.3f}."
    if pair.verdict == "no difference":
        return f"{model} and {against} cannot be told apart here: {figures}"
    return f"{model} is {pair.verdict} than {against} here: {figures}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
