"""What docs/sentiment.md shows of the study ``sentiment``."""

from __future__ import annotations

from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread

HEADER = ("row", "seeds", "validation PCC", "PCC", "MAE", "F1 Non0", "Acc-2 Non0", "Acc-7",
          "seeds together: PCC / MAE", "tuned to", "published F1 / MAE / PCC")  # fmt: skip


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
    seen = "–" if row["validation"] is None else number(row["validation"], 3)
    return [
        row["arm"],
        str(row["seeds"]),
        seen,
        *figures,
        *more,
        together,
        row["tuned"] or "–",
        row["published"] or "–",
    ]


def differences(contents: Contents) -> str:
    """Every arm against its reference, bold where the interval excludes 0."""
    rows = []
    for pair in contents["sentiment"]["summary"]["pairs"]:
        one = pair["PCC"]
        text = f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"
        sure = one["low"] > 0 or one["high"] < 0
        name = f"{pair['first']} − {pair['second']}"
        rows.append([pair["part"], name, f"**{text}**" if sure else text, f"{pair['MAE']:+.3f}", str(pair["seeds"])])
    return table(("part", "difference", "PCC [95 %]", "MAE", "seeds"), rows) if rows else "No pair is computed yet."


def words(contents: Contents) -> str:
    """Effective weights of the words of chosen test clips, in per cent; bold from twice an even share on."""
    lines = []
    looked = contents["sentiment"]["summary"].get("attention", {})
    for arm, clips in (pair for arms in looked.values() for pair in arms.items()):
        for clip in (one for one in clips if one.get("words")):
            even = 1 / len(clip["words"])
            said = " ".join(
                f"**{name}** {100 * x:.0f}" if abs(x) >= 2 * even else f"{name} {100 * x:.0f}"
                for name, x in clip["words"]
            )
            lines.append([arm, f"{clip['label']:+.1f}", f"{clip['predicted']:+.2f}", said.replace("|", "/")])
    return table(("row", "label", "predicted", "words, effective weight in %"), lines) if lines else "Not computed."


def seconds(contents: Contents) -> str:
    """The longest fits, by part."""
    rows = []
    for part, arms in contents["sentiment"]["summary"].get("seconds", {}).items():
        longest = sorted(arms, key=lambda arm: arms[arm], reverse=True)[:3]
        told = "; ".join(f"{arm} {arms[arm]:.0f} s" for arm in longest)
        limit = 15 if part == "tuned text" else 5
        kept = "yes" if arms[longest[0]] <= 60 * limit else "no"
        rows.append([part, str(len(arms)), told, f"{limit} minutes: {kept}"])
    return table(("part", "rows", "longest fits, CPU seconds of one thread", "all within"), rows)


def missing(contents: Contents) -> str:
    """What is not computed, by part."""
    parts: dict[str, list[str]] = {}
    for one in contents["sentiment"]["summary"]["missing"]:
        part, _, arm = one.partition(": ")
        parts.setdefault(part, []).append(arm)
    lines = [f"- {part}: {'; '.join(arms)}" for part, arms in parts.items()]
    return "\n".join(["Not computed yet:", "", *lines]) if lines else "Every row is computed."


BLOCKS = {
    "sentiment scores": scores,
    "sentiment differences": differences,
    "sentiment missing": missing,
    "sentiment words": words,
    "sentiment seconds": seconds,
}
