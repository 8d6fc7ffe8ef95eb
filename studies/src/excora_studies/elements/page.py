"""What docs/studies.md shows of the study ``elements``, and its figure."""

from __future__ import annotations

from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table, with_spread

#: Elements that are shown at either end.
SHOWN = 8
#: Pools whose attention is shown by element.
LOOKED_AT = ("softmax", "eca")


def block(contents: Contents) -> str:
    """Scores, differences with their intervals, and the elements that get most and least beyond their share."""
    content = contents["elements"]
    rows = [
        [
            row["split"],
            row["row"],
            with_spread(row, "MAE", 2),
            with_spread(row, "MSE", 1),
            with_spread(row, "PCC", 4),
            "–" if row["rate"] is None else f"{row['rate']:g}",
            number(row["gamma"], 2),
            number(row["seconds"], 0),
        ]
        for row in content["table"]
    ]
    header = ("split", "row", "MAE, K", "MSE, K²", "PCC", "learning rate", "mean γ", "CPU seconds")
    pairs = [
        [split, name.replace(" - ", " − "), *(_interval(found[metric]) for metric in ("PCC", "MSE"))]
        for split, differences in content["summary"]["differences"].items()
        for name, found in differences.items()
    ]
    differences = table(("split", "difference", "PCC [95 %]", "MSE / variance [95 %]"), pairs)
    verdicts = "; ".join(
        f"{split}: {_verdict(found['bags, eca - bags, softmax']['PCC'])}"
        for split, found in content["summary"]["differences"].items()
    )
    parts = (table(header, rows), differences, f"ECA against softmax, in PCC: {verdicts}.")
    return "\n\n".join((*parts, _elements(content["summary"]["elements"])))


def _verdict(bounds: dict[str, float]) -> str:
    if bounds["low"] <= 0 <= bounds["high"]:
        return "**ECA gives nothing over softmax** (the interval contains 0)"
    return f"**ECA is {'above' if bounds['low'] > 0 else 'below'} softmax** (the interval excludes 0)"


def _interval(bounds: dict[str, float]) -> str:
    return f"{bounds['difference']:+.4f} [{bounds['low']:+.4f}, {bounds['high']:+.4f}]"


def _elements(found: dict[str, dict[str, dict[str, float]]]) -> str:
    ours = found["eca"]
    order = sorted(ours, key=lambda name: -ours[name]["weight"] / ours[name]["fraction"])
    known = [name for name in ("Cu", "O", "Fe") if name in ours]
    chosen = dict.fromkeys([*order[:SHOWN], *known, *order[-SHOWN:]])
    rows = [
        [
            name,
            str(int(ours[name]["materials"])),
            f"{ours[name]['fraction']:.3f}",
            *(f"{found[pool][name]['weight']:.3f}" for pool in found),
            *(f"{found[pool][name]['weight'] / found[pool][name]['fraction']:.2f}" for pool in found),
        ]
        for name in sorted(chosen, key=order.index)
    ]
    pools = tuple(found)
    header = ("element", "materials", "fraction", *(f"weight, {pool}" for pool in pools))
    return table((*header, *(f"weight / fraction, {pool}" for pool in pools)), rows)


def figure(elements: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """Elements by what the pool of the last of :data:`LOOKED_AT` gives them beyond their share."""
    last = elements[LOOKED_AT[-1]]
    names = sorted(last, key=lambda name: -last[name]["weight"] / last[name]["fraction"])
    places = list(range(len(names)))
    ticks = dict(zip(map(float, places), names, strict=True))
    shares = [
        Line(
            label=pool,
            x=places,
            y=[elements[pool][n]["weight"] / elements[pool][n]["fraction"] for n in names],
            markers=True,
        )
        for pool in LOOKED_AT
    ]
    weights = [
        Line(label=pool, x=places, y=[elements[pool][n]["weight"] for n in names], markers=True) for pool in LOOKED_AT
    ]
    weights.append(Line(label="fraction", x=places, y=[last[n]["fraction"] for n in names], dashed=True, markers=True))
    title = "attention weight / fraction: above 1 an element gets more than its share"
    panels = [
        Panel(title=title, x="", y="weight / fraction", lines=shares, log_y=True, level=1.0, ticks=ticks),
        Panel(
            title="mean over the test materials that hold it", x="", y="weight, fraction", lines=weights, ticks=ticks
        ),
    ]
    return Figure(title="Attention by chemical element", panels=panels, columns=1, size=(12.0, 3.4))
