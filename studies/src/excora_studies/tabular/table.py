"""The table of the study: scores of every row with their spread, the paper's beside them, and paired differences."""

from __future__ import annotations

import statistics
from typing import Any

from excora.errors import ExcoraError
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Report, Results
from excora_studies.tabular.scores import pack, paired, scores, unpack, unpack_codes

PEERS = ("ridge", "ridge, log target", "nearest neighbours", "ExtraTrees", "LightGBM", "TabM")
#: What a user has who sets nothing, and several attentions over neighbours that validation picks, averaged.
DEFAULT, SEVERAL = "TabularRegressor()", "retrieval, several"
#: The row that is compared with peers: half of each, as :class:`excora.TabularEnsemble`; in time order its own rule.
EXCORA = "Excora"
#: A row made of two others, of equal weight and not declared in advance: what trees and attention know together.
BOTH, TREES = "Excora and ExtraTrees, mean", "ExtraTrees"
#: Same host, same settings, same start: what the pool or attention changes.
PAIRS = (
    ("retrieval, ECA", "retrieval, softmax"),
    ("FT + ECA (ours)", "FT-Transformer"),
    ("FT + ECA (paper)", "FT-Transformer"),
    ("FT + ECA (ours)", "FT + PCC loss"),
)
#: MAE, MSE, PCC of Table 1. Its splits and tuning are not given, its News is the full set; see docs/studies.md.
PAPER = {
    ("Appliances", "FT-Transformer"): (39.333, 6108.0, 0.556),
    ("Appliances", "FT + ECA (paper)"): (38.665, 5790.0, 0.598),
    ("Appliances", "FT + ECA w/o SRA"): (39.208, 5994.0, 0.575),
    ("Appliances", "FT + ECA w/o DATS"): (38.906, 6037.0, 0.561),
    ("Appliances", "FT + ECA w/o DNPL"): (39.742, 5910.0, 0.583),
    ("News (partial)", "FT-Transformer"): (0.641, 0.724, 0.408),
    ("News (partial)", "FT + ECA (paper)"): (0.631, 0.712, 0.420),
    ("Superconductivity", "FT-Transformer"): (8.793, 177.2, 0.920),
    ("Superconductivity", "FT + ECA (paper)"): (7.976, 158.2, 0.930),
    ("Superconductivity", "FT + ECA w/o SRA"): (8.377, 169.5, 0.920),
    ("Superconductivity", "FT + ECA w/o DATS"): (8.630, 170.9, 0.927),
    ("Superconductivity", "FT + ECA w/o DNPL"): (8.466, 167.1, 0.922),
}
Place = tuple[str, str]
Fits = list[dict[str, Any]]  # by seed


def make(configuration: dict[str, Any], results: Results) -> Report:
    """From the parts that are there; a row counts once all its seeds are."""
    fits = _fits(configuration, results)
    rows = [_row(place, name, parts, results) for place, by_row in fits.items() for name, parts in by_row.items()]
    pairs = [pair for place, by_row in fits.items() for pair in _pairs(place, by_row, configuration["seeds"], results)]
    notes = [
        "mean and standard deviation over seeds; a seed changes the split too, but for the split in time order.",
        "paper: Table 1, whose splits and tuning are not given; its News is the full set.",
    ]
    notes += [f"{pair['set']}, {pair['split']}: {_words(pair)}" for pair in pairs]
    columns = ("set", "split", "row", "MAE", "MSE", "PCC", "paper PCC", "seconds", "trials")
    return Report(rows, {"pairs": pairs}, _figures(fits, pairs), notes, columns)


def _fits(configuration: dict[str, Any], results: Results) -> dict[Place, dict[str, Fits]]:
    """The fits by place and row, if there is one for every seed; all of a place and seed saw the same data."""
    found: dict[Place, dict[str, Fits]] = {}
    for name, split, row in configuration["rows"]:
        parts = [results.get(f"{name} | {split} | {row} | seed {seed}") for seed in configuration["seeds"]]
        fits = [part for part in parts if part is not None]
        if len(fits) < len(parts):
            continue
        for seed, fit in zip(configuration["seeds"], fits, strict=True):
            if fit["fingerprint"] != results[f"{name} | {split} | test part | seed {seed}"]["fingerprint"]:
                raise ExcoraError(f"{name}, {split}, {row}, seed {seed} was fitted to other data than the other rows")
        found.setdefault((name, split), {})[row] = fits
    for (name, split), by_row in found.items():
        tests = [results[f"{name} | {split} | test part | seed {seed}"] for seed in configuration["seeds"]]
        for made, first, second in () if split == "time" else ((EXCORA, SEVERAL, DEFAULT), (BOTH, EXCORA, TREES)):
            if first in by_row and second in by_row:
                by_row[made] = [_mean(*each) for each in zip(by_row[first], by_row[second], tests, strict=True)]
    return found


def _mean(first: dict[str, Any], second: dict[str, Any], test: dict[str, Any]) -> dict[str, Any]:
    """The fit whose prediction is the mean of two."""
    prediction = (unpack(first["prediction"]) + unpack(second["prediction"])) / 2
    found = scores(prediction * test["std"], unpack(test["target"]) * test["std"])
    return {**found, "seconds": first["seconds"] + second["seconds"], "prediction": pack(prediction)}


def _row(place: Place, name: str, parts: Fits, results: Results) -> dict[str, Any]:
    row: dict[str, Any] = {"set": place[0], "split": place[1], "row": name}
    for score in ("MAE", "MSE", "PCC"):
        values = [part[score] for part in parts]
        row |= {score: statistics.fmean(values), f"{score} sd": statistics.stdev(values) if len(values) > 1 else None}
    paper = PAPER.get((place[0], name), (None,) * 3) if place[1] == "random" else (None,) * 3
    row |= dict(zip(("paper MAE", "paper MSE", "paper PCC"), paper, strict=True))
    tuned = results.get(f"{place[0]} | {place[1]} | {name} | tuning")
    row["seconds"] = statistics.fmean(part["seconds"] for part in parts)
    return row | {"trials": None if tuned is None else len(tuned["trials"])}


def _pairs(place: Place, by_row: dict[str, Fits], seeds: list[int], results: Results) -> list[dict[str, Any]]:
    """Our rows against every peer and each other, ECA against softmax in a host, two rows together against one."""
    wanted = [(own, peer) for own in (EXCORA, DEFAULT) for peer in PEERS]
    wanted += [(EXCORA, DEFAULT), (EXCORA, SEVERAL), *PAIRS, (BOTH, TREES)]
    tests = [results[f"{place[0]} | {place[1]} | test part | seed {seed}"] for seed in seeds]
    target = [unpack(test["target"]) for test in tests]
    unit = [unpack_codes(test["unit"]) for test in tests]
    found = []
    for first, second in wanted:
        if first in by_row and second in by_row:
            a, b = ([unpack(part["prediction"]) for part in by_row[row]] for row in (first, second))
            named = {
                f"{score} {what}": value
                for score, one in paired(a, b, target, unit).items()
                for what, value in one.items()
            }
            found.append({"set": place[0], "split": place[1], "first": first, "second": second, **named})
    return found


def _words(pair: dict[str, Any]) -> str:
    return (
        f"{pair['first']} - {pair['second']}: PCC {pair['PCC difference']:+.4f} "
        f"[{pair['PCC low']:+.4f}, {pair['PCC high']:+.4f}]"
    )


def _figures(fits: dict[Place, dict[str, Fits]], pairs: list[dict[str, Any]]) -> dict[str, Figure]:
    panels = []
    for place, by_row in fits.items():
        x = list(range(len(by_row)))
        lines = [
            Line(label=f"seed {seed}", x=x, y=[parts[seed]["PCC"] for parts in by_row.values()], joined=False)
            for seed in range(len(next(iter(by_row.values()))))
        ]
        ticks = {float(i): name for i, name in enumerate(by_row)}
        panels.append(Panel(title=", ".join(place), x="", y="test PCC", lines=lines, ticks=ticks))
    found = {"scores": Figure(title="Test PCC of every row", panels=panels, columns=2, size=(6.2, 4.2))}
    panels = []
    for place in fits:
        own = [pair for pair in pairs if (pair["set"], pair["split"]) == place and pair["first"] == EXCORA]
        if not own:
            continue
        x = list(range(len(own)))
        y, low, high = ([pair[f"PCC {what}"] for pair in own] for what in ("difference", "low", "high"))
        ticks = {float(i): pair["second"] for i, pair in enumerate(own)}
        line = Line(label="Excora - peer, 95 % interval", x=x, y=y, low=low, high=high, joined=False)
        panels.append(Panel(title=", ".join(place), x="", y="PCC", lines=[line], ticks=ticks, level=0.0))
    if panels:
        found["peers"] = Figure(title="Excora against what users would pick instead", panels=panels, columns=3)
    return found
