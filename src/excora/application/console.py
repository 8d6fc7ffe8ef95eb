"""A run and its predictions on a console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from excora.console import table
from excora.errors import InputError

if TYPE_CHECKING:
    from excora.application.predicting import Predictions
    from excora.application.run import Run


def table_of(run: Run) -> Any:
    """Scores of each target, why training ended, the verdict, notes, and where to look further."""
    try:
        return _table(run, run.results)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{run.path / 'results.json'}: this is not what `excora fit` writes: {type(error).__name__} {error}"
        ) from None


def _table(run: Run, results: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.text import Text

    rows = []
    for part in ("validation", "test"):
        for name, score in fewer(results[part]).items():
            rows.append((name, part, str(results["counts"][part]), *_cells(score)))
    verdict = results["verdict"]
    pool = getattr(run.setup.options, "pool", None)
    model = f"model {run.setup.model}{'' if pool is None else f' with pool {pool}'}: "
    epoch = f"best epoch {results['best_epoch'] + 1} of {results['epochs']}, {results['seconds']:.0f} s"
    if results["stopped"] == "fitted":
        limit = getattr(run.setup.options, "seconds", None)
        epoch = f"fitted in {results['seconds']:.0f} s" + ("" if limit is None else f" (budget {limit:.0f} s)")
    lines = [model + epoch + _ENDS.get(results["stopped"], ""), *_baselines(results), *results["notes"]]
    lines += [f"{verdict['name']}: {verdict['sentence']}", f"next: {verdict['advice']}"]
    lines.append(f"report: {run.path / 'report.html'}")
    if run.state == "interrupted":
        lines.append(f"to go on: {run.config['rerun']} --resume")
    return Group(table(rows, ("target", "part", "samples", *SCORES)), *map(Text, lines))


SCORES = ("PCC", "95 % interval", "MSE", "MAE")


#: Targets that have a line each, and columns of predictions that are shown.
MOST = 12


def fewer(scores: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of many targets their mean, and the three of the highest and of the lowest PCC; of a few all.

    >>> many = {f"g{k}": {"pcc": k / 100, "mse": 1.0, "mae": 0.5} for k in range(50)}
    >>> list(fewer(many)), round(fewer(many)["mean of 50"]["pcc"], 3)
    (['mean of 50', 'g49', 'g48', 'g47', 'g2', 'g1', 'g0'], 0.245)

    An undefined PCC is left out of the mean.
    """
    if len(scores) <= MOST:
        return scores
    defined = sorted(
        (name for name in scores if scores[name]["pcc"] is not None), key=lambda name: -scores[name]["pcc"]
    )
    means = {
        what: sum(scores[name][what] for name in names) / len(names) if names else None
        for what, names in (("pcc", defined), ("mse", list(scores)), ("mae", list(scores)))
    }
    ends = defined if len(defined) <= 6 else [*defined[:3], *defined[-3:]]
    return {f"mean of {len(scores)}": means} | {name: scores[name] for name in ends}


def _cells(score: dict[str, Any]) -> tuple[str, ...]:
    interval = f"{_number(score['low'])} to {_number(score['high'])}" if "low" in score else ""
    return (_number(score["pcc"]), interval, f"{score['mse']:.4g}", f"{score['mae']:.4g}")


def _baselines(results: dict[str, Any]) -> list[str]:
    """What simple models reach on the same split; nothing for runs that were not asked."""
    found = []
    for one in results.get("baselines", ()):
        parts = [f"{part} PCC {_number(one[part]['pcc'])}" for part in ("validation", "test") if part in one]
        found.append(f"{one['name']} on the same split: {', '.join(parts)}")
    return found


_ENDS = {
    "patience": ", then no better one",
    "interrupted": "; interrupted: scores of the best epoch so far on validation, the test part waits for the end",
    "diverged": ", then it diverged",
}


def _number(value: float | None) -> str:
    return "undefined" if value is None or value != value else f"{value:.3f}"  # noqa: PLR0124 (NaN)


def summary_of(predictions: Predictions) -> Any:
    """The first rows, how many there are, and the notes."""
    from rich.console import Group
    from rich.text import Text

    frame = predictions.frame
    first = frame.iloc[:5, :MOST].itertuples(index=False)
    rows = [[f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row] for row in first]
    shown = table(rows, [str(name) for name in frame.columns[:MOST]])
    more: list[Any] = [Text(f"{len(frame):,} predictions")]
    if predictions.scores:
        labels = [f"{frame[name].notna().sum():,}" for name in frame if str(name).partition(":")[0] == "target"]
        count = dict(zip(predictions.scores, labels, strict=True))
        scored = [(name, count.get(name, ""), *_cells(score)) for name, score in fewer(predictions.scores).items()]
        more.append(table(scored, ("target", "labels", *SCORES)))
    return Group(shown, *more, *map(Text, predictions.notes))
