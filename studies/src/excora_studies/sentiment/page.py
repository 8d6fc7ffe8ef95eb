"""What docs/sentiment.md shows of the study ``sentiment``."""

from __future__ import annotations

from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread

HEADER = ("row", "seeds", "PCC", "MAE", "F1 Non0", "Acc-2 Non0", "Acc-7", "seeds together: PCC / MAE", "tuned to",
          "published F1 / MAE / PCC")  # fmt: skip


def scores(contents: Contents) -> str:
    """A table a part."""
    content = contents["sentiment"]
    found = []
    for part, about in content["configuration"]["parts"].items():
        rows = [_cells(row) for row in content["table"] if row["part"] == part]
        if rows:
            found += [f"### {part[:1].upper()}{part[1:]}: {about['says']}", table(HEADER, rows)]
    return "\n\n".join(found)


def _cells(row: dict[str, Any]) -> list[str]:
    together = "–" if row["together PCC"] is None else f"{row['together PCC']:.4f} / {row['together MAE']:.3f}"
    figures = [with_spread(row, name, digits) for name, digits in (("PCC", 4), ("MAE", 3), ("F1 Non0", 3))]
    more = [number(row[name], 3) for name in ("Acc-2 Non0", "Acc-7")]
    return [row["arm"], str(row["seeds"]), *figures, *more, together, row["tuned"] or "–", row["published"] or "–"]


def differences(contents: Contents) -> str:
    """Every arm against its reference, bold where the interval excludes 0."""
    rows = []
    for pair in contents["sentiment"]["summary"]["pairs"]:
        one = pair["PCC"]
        text = f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"
        sure = one["low"] > 0 or one["high"] < 0
        name = f"{pair['first']} − {pair['second']}"
        rows.append([pair["part"], name, f"**{text}**" if sure else text, f"{pair['MAE']:+.3f}", str(pair["seeds"])])
    return table(("part", "difference", "PCC [95 %]", "MAE", "seeds"), rows)


def missing(contents: Contents) -> str:
    """What is not computed."""
    found = contents["sentiment"]["summary"]["missing"]
    return "Not computed: " + "; ".join(found) + "." if found else "Every row is computed."


BLOCKS = {"sentiment scores": scores, "sentiment differences": differences, "sentiment missing": missing}
