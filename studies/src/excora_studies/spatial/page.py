"""What docs/spatial.md shows of the study ``spatial``."""

from __future__ import annotations

from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread


def block(contents: Contents) -> str:
    """Scores, folds, differences with their intervals, and the genes at either end."""
    content = contents["spatial"]
    parts = []
    for name in content["configuration"]["sets"]:
        parts += [f"**{name}**", _scores(content, name), _folds(content, name)]
        found = content["summary"]["differences"].get(name)
        parts += [_differences(found)] if found else []
        genes = content["summary"]["genes"][name]
        parts += [_genes(genes)] if genes else []
    return "\n\n".join(parts)


def _scores(content: dict[str, Any], name: str) -> str:
    chosen = [row for row in content["table"] if row["set"] == name]
    rows = []
    for row in chosen:
        figures = [with_spread(row, metric, 3) for metric in ("PCC@F", "PCC@S", "PCC@M", "MSE")]
        rest = [number(row["undefined"], 0), number(row["seconds"], 0)]
        rows.append([row["row"], str(row["folds"]), *figures, *rest])
    header = ("row", "folds", "PCC@F", "PCC@S", "PCC@M", "MSE", "undefined genes", "CPU seconds a fold with tuning")
    return table(header, rows)


def _folds(content: dict[str, Any], name: str) -> str:
    sections = content["configuration"]["sets"][name]
    found = content["summary"]["folds"][name]
    rows = [[row, *(number(by.get(s), 3) for s in sections)] for row, by in found.items() if by]
    return table(("PCC@M by what is tested", *sections), rows)


def _differences(found: dict[str, Any]) -> str:
    rows = [[pair.replace(" - ", " − "), *(_interval(one[m]) for m in ("PCC", "MSE"))] for pair, one in found.items()]
    return table(("difference", "PCC@M [95 %]", "MSE / variance [95 %]"), rows)


def _interval(bounds: dict[str, float]) -> str:
    return f"{bounds['difference']:+.4f} [{bounds['low']:+.4f}, {bounds['high']:+.4f}]"


def _genes(genes: list[dict[str, Any]]) -> str:
    shown = [f"{one['gene']} {one['PCC']:.2f}" for one in genes]
    half = len(shown) // 2
    return f"Best genes: {', '.join(shown[:half])}. Worst: {', '.join(shown[half:])}."
