"""What docs/gains.md shows of the study ``gains``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread

Content = dict[str, Any]
SMALL = "small table: "


def scores(content: Content) -> str:
    """A table for each task, but the small ones, with what stands beside each arm."""
    parts = []
    pairs = content["summary"]["pairs"]
    for task in dict.fromkeys(row["task"] for row in content["table"] if not row["task"].startswith(SMALL)):
        own = [row for row in content["table"] if row["task"] == task]
        found = {pair["first"]: pair for pair in pairs if pair["task"] == task}
        against = next((pair["second"] for pair in pairs if pair["task"] == task), "")
        rows = [
            [row["arm"], with_spread(row, "PCC", 4), _interval(found.get(row["arm"])), with_spread(row, "MSE", 3),
             _tuned(row), _percent(row["outside"]), _ceiling(row), number(row["gamma"], 2), _epoch(row)]
            for row in own
        ]  # fmt: skip
        header = ("arm", "PCC", f"− {against}, PCC [95 %]", "MSE / variance", "rate, decay", "outside", "ceiling", "γ",
                  "best epoch")  # fmt: skip
        train, validation, test = content["summary"]["sizes"][task]
        about = f"{own[0]['host']}; encoder: {own[0]['encoder']}; {train} / {validation} / {test} samples"
        parts.append(f"### {task}\n\n{about}, {len(content['configuration']['seeds'])} seeds.\n\n{table(header, rows)}")
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


BLOCKS = {"gains": _block(scores), "gains small": _block(small), "gains missing": _block(missing)}
