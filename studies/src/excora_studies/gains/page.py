"""What docs/gains.md shows of the study ``gains``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread

Content = dict[str, Any]
SMALL = "small table: "
#: Directions that trials on subsamples gave before the study: task, first, second, the difference in PCC from - to.
EXPECTED = (
    ("MOSI tokens, frozen", "eca", "softmax", 0.011, 0.011),
    ("MOSI tokens, frozen", "eca-paper", "softmax", 0.012, 0.013),
    ("MOSI tokens, frozen", "eca-paper without SRA", "softmax", 0.002, 0.002),
    ("MOSI tokens, frozen", "eca-paper without DATS", "softmax", -0.011, -0.011),
    ("MOSI tokens, frozen", "mean", "softmax", -0.017, -0.017),
    ("MOSI tokens, frozen", "softmax, 4 heads", "softmax", 0.002, 0.010),
    ("MOSI tokens, frozen", "softmax, moments", "softmax", -0.003, -0.003),
    ("MOSI tokens, with encoder", "eca", "softmax", 0.003, 0.006),
    ("MOSI tokens, with encoder", "gated", "softmax", 0.0075, 0.0075),
    ("her2st sub-patches", "softmax, moments", "softmax", 0.029, 0.029),
    ("superconductor bags, random", "softmax, moments", "softmax", 0.003, 0.003),
    ("Superconductivity, grouped", "local-linear", "softmax", 0.005, 0.010),
    ("Appliances, random", "local-linear", "softmax", 0.009, 0.015),
)


def scores(content: Content) -> str:
    """A table for each task, but the small ones, with what stands beside each arm."""
    parts = []
    pairs = content["summary"]["pairs"]
    for task in dict.fromkeys(row["task"] for row in content["table"] if not row["task"].startswith(SMALL)):
        own = [row for row in content["table"] if row["task"] == task]
        if len(own) < 2:  # nothing to compare it with yet
            continue
        against = next((pair["second"] for pair in pairs if pair["task"] == task), "")
        found = {pair["first"]: pair for pair in pairs if (pair["task"], pair["second"]) == (task, against)}
        others = [pair for pair in pairs if pair["task"] == task and pair["second"] != against]
        rows = [
            [row["arm"], with_spread(row, "PCC", 4), number(row["validation"], 4),
             _interval(found.get(row["arm"])), with_spread(row, "MSE", 3),
             _tuned(row), _percent(row["outside"]), _ceiling(row), number(row["gamma"], 2), _epoch(row)]
            for row in own
        ]  # fmt: skip
        header = ("arm", "PCC", "on validation",
                  f"− {against}, PCC [95 %]", "MSE / variance", "rate, decay", "outside", "ceiling", "γ",
                  "best epoch")  # fmt: skip
        about = f"{own[0]['host']}; encoder: {own[0]['encoder']}"
        if size := content["summary"]["sizes"].get(task):
            about += f"; {' / '.join(map(str, size))} samples"
        shown = [f"### {task}", f"{about}, {len(content['configuration']['seeds'])} seeds.", table(header, rows)]
        shown += [f"{pair['first']} − {pair['second']}: {_interval(pair)}." for pair in others]
        parts.append("\n\n".join(shown))
    return "\n\n".join(parts)


def _interval(pair: dict[str, Any] | None) -> str:
    if pair is None:
        return ""
    text = f"{pair['PCC difference']:+.4f} [{pair['PCC low']:+.4f}, {pair['PCC high']:+.4f}]"
    return f"**{text}**" if pair["PCC low"] > 0 or pair["PCC high"] < 0 else text


def _tuned(row: dict[str, Any]) -> str:
    return "" if row["rate"] is None else f"{row['rate']:g}, {row['decay']:g}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _ceiling(row: dict[str, Any]) -> str:
    if row["ceiling"] is None:
        return "–"
    return f"{row['ceiling']:.3f}, {'binds' if row['binds'] else 'does not bind'}"


def _epoch(row: dict[str, Any]) -> str:
    if row["epoch"] is None:
        return ""
    return f"{row['epoch']:.0f}" + (f" (the last in {row['edges']})" if row["edges"] else "")


def small(content: Content) -> str:
    """The default for tables and its peers on each small table, their mean and mean rank."""
    rows = [row for row in content["table"] if row["task"].startswith(SMALL)]
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    by_task: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(row["task"].removeprefix(SMALL), {})[row["arm"]] = row
    whole = {name: found for name, found in by_task.items() if len(found) == len(arms)}
    if not whole:
        return "Not computed yet."
    lines = [[name, *(with_spread(found[arm], "PCC", 3) for arm in arms)] for name, found in whole.items()]
    means = [statistics.fmean(found[arm]["PCC"] for found in whole.values()) for arm in arms]
    ranks = [
        [1 + sum(o["PCC"] > found[arm]["PCC"] for o in found.values()) for found in whole.values()] for arm in arms
    ]
    lines.append(["**mean**", *(f"**{mean:.3f}**" for mean in means)])
    lines.append(["mean rank", *(f"{statistics.fmean(rank):.2f}" for rank in ranks)])
    return table(("set", *arms), lines)


def expected(content: Content) -> str:
    """The directions and what was found of them."""
    found = {(pair["task"], pair["first"], pair["second"]): pair for pair in content["summary"]["pairs"]}
    rows = []
    for task, first, second, low, high in EXPECTED:
        pair = found.get((task, first, second))
        said = f"{low:+.3f}" if low == high else f"{low:+.3f} to {high:+.3f}"
        rows.append([task, f"{first} − {second}", said, _interval(pair) or "–", _verdict(low, pair)])
    return table(("task", "difference", "expected, PCC", "found [95 %]", "the direction"), rows)


def _verdict(direction: float, pair: dict[str, Any] | None) -> str:
    if pair is None:
        return "not computed yet"
    low, high = sorted(side * (1 if direction > 0 else -1) for side in (pair["PCC low"], pair["PCC high"]))
    if low > 0:
        return "**holds**"
    if high < 0:
        return "**the other way**"
    same = pair["PCC difference"] * direction > 0
    return "the same, but the interval contains 0" if same else "does not hold up: the other sign, and within chance"


def missing(content: Content) -> str:
    """What has not been computed."""
    absent = content["summary"]["missing"]
    if not absent:
        return "Every part is computed."
    whole = content["configuration"]["tasks"]
    lines = [
        f"- {task}: {'all arms' if len(arms) == len(whole[task]['arms']) else ', '.join(arms)}"
        for task, arms in absent.items()
    ]
    return "\n".join(["Not computed yet; the same command goes on with them:", "", *lines])


def _block(make: Callable[[Content], str]) -> Callable[[Contents], str]:
    return lambda contents: make(contents["gains"])


BLOCKS = {
    "gains": _block(scores),
    "gains small": _block(small),
    "gains expected": _block(expected),
    "gains missing": _block(missing),
}
