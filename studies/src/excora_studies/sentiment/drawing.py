"""Figures of the study: PCC by arm, predicted against true, validation over epochs, what attention looks at."""

from __future__ import annotations

from typing import Any

from excora.diagnosis import detect_plateau
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Results
from excora_studies.tabular.scores import unpack

Table = list[dict[str, Any]]
Runs = dict[str, dict[str, list[dict[str, Any]]]]
#: Curves of a panel, and words or frames of a clip, at most.
CURVES, STEPS = 6, 40


def figures(results: Results, rows: Table, runs: Runs, looked: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """By file name; ``runs`` by part and arm, seed by seed."""
    if not rows:
        return {}
    found = {"scores": _scores(rows)}
    panels = {"predicted": _predicted(results, rows, runs), "epochs": _curves(runs), "attention": _attention(looked)}
    titles = {
        "predicted": "Predicted against true, the row of each part that is best on validation",
        "epochs": "Validation over epochs, first seed; dashed where PCC has stopped rising",
        "attention": "What is looked at: effective weights, negative ones included",
    }
    sizes = {"predicted": (4.2, 3.2), "epochs": (5.6, 3.2), "attention": (6.4, 2.6)}
    return found | {
        name: Figure(title=titles[name], panels=own, columns=2, size=sizes[name]) for name, own in panels.items() if own
    }


def _scores(rows: Table) -> Figure:
    """Test PCC by arm and part, with the spread over seeds."""
    panels = []
    for part in dict.fromkeys(row["part"] for row in rows):
        own = [row for row in rows if row["part"] == part]
        low, high = ([row["PCC"] + sign * (row["PCC sd"] or 0.0) for row in own] for sign in (-1, 1))
        ticks = {float(k): row["arm"].replace("streams, ", "") for k, row in enumerate(own)}
        line = Line(
            label="PCC", x=list(range(len(own))), y=[row["PCC"] for row in own], low=low, high=high, joined=False
        )
        panels.append(Panel(title=part, x="", y="test PCC", lines=[line], ticks=ticks))
    return Figure(title="MOSI: test PCC by arm", panels=panels, columns=1, size=(12.0, 3.2))


def _predicted(results: Results, rows: Table, runs: Runs) -> list[Panel]:
    """Of the row of each part that is best on validation, with the first seed."""
    panels = []
    for part in dict.fromkeys(row["part"] for row in rows):
        own = [row for row in rows if row["part"] == part and row["validation"] is not None]
        if own:
            arm = max(own, key=lambda row: row["validation"])["arm"]
            label = unpack(results[f"{part} | test part"]["target"])
            guess = unpack(runs[part][arm][0]["prediction"])
            clips = Line(label="test clips", x=label.tolist(), y=guess.tolist(), joined=False)
            ends = [float(label.min()), float(label.max())]
            equal = Line(label="equal", x=ends, y=ends, dashed=True)
            panels.append(Panel(title=f"{part}: {arm}", x="label", y="predicted", lines=[clips, equal]))
    return panels


def _curves(runs: Runs) -> list[Panel]:
    """PCC, and MAE beside it (of runs that have no MAE the squared error of standardised labels)."""
    panels = []
    for part, arms in runs.items():
        kept = _kept(arms)
        second = ("mae", "MAE") if all(curves.get("mae") for curves in kept.values()) else ("mse", "MSE, standardised")
        for name, word in (("pcc", "PCC"), second) if kept else ():
            called = _short(list(kept))
            lines = [line for arm, c in kept.items() for line in _with_plateau(called[arm], c, c[name])]
            panels.append(Panel(title=f"{part}: {word}", x="epoch", y=f"validation {word}", lines=lines))
    return panels


def _kept(arms: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Curves of the plain, the tuned and the ALMT arms; if some have a MAE, of those."""
    shown = {arm: own[0] for arm, own in arms.items() if own and arm.startswith(("streams", "tuned", "ALMT"))}
    found = {arm: run["curves"] for arm, run in shown.items() if run.get("curves")}
    having = {arm: curves for arm, curves in found.items() if curves.get("mae")}
    return dict(list((having or found).items())[:CURVES])


def _short(arms: list[str]) -> dict[str, str]:
    """A pool by its name alone, which then has one colour in all panels, unless two rows of a panel share it.

    >>> _short(["streams, linear: ECA", "ALMT"])
    {'streams, linear: ECA': 'ECA', 'ALMT': 'ALMT'}
    """
    names = {arm: arm.partition(": ")[2] or arm for arm in arms}
    return names if len({*names.values()}) == len(arms) else {arm: arm for arm in arms}


def _with_plateau(arm: str, curves: dict[str, Any], values: list[float]) -> list[Line]:
    """The curve, dashed from where its PCC is flat by the rule of :func:`excora.diagnosis.detect_plateau`."""
    epochs = list(range(1, len(values) + 1))
    start = detect_plateau(curves["pcc"], curves["mse"]).start
    if start is None:
        return [Line(label=arm, x=epochs, y=values)]
    rising = Line(label=arm, x=epochs[: start + 1], y=values[: start + 1])
    return [rising, Line(label=arm, x=epochs[start:], y=values[start:], dashed=True)]


def _attention(looked: dict[str, dict[str, Any]]) -> list[Panel]:
    """The words of the clips with the lowest and the highest prediction, and the frames of every modality."""
    panels = []
    for part, arms in looked.items():
        for arm, clips in arms.items():
            for clip in (clips[0], clips[-1]):
                title = f"{part}, {arm}: label {clip['label']:+.1f}, predicted {clip['predicted']:+.2f}"
                if clip.get("words"):
                    names, weights = zip(*clip["words"][:STEPS], strict=True)
                    panels.append(_weights(title, "word", weights, dict(enumerate(map(str, names)))))
                for modality, steps in clip.get("frames", {}).items():
                    panels.append(_weights(title, f"frame of {modality}", steps[:STEPS], None))
    return panels


def _weights(title: str, x: str, weights: Any, names: dict[int, str] | None) -> Panel:
    """A point a step, with a bar from zero."""
    values = [100.0 * float(weight) for weight in weights]
    low, high = [min(value, 0.0) for value in values], [max(value, 0.0) for value in values]
    line = Line(label="weight", x=list(range(len(values))), y=values, low=low, high=high, joined=False)
    ticks = None if names is None else {float(k): name for k, name in names.items()}
    return Panel(title=title, x="" if names else x, y="weight in %", lines=[line], level=0.0, ticks=ticks)
