"""What the study ``verdicts`` shows: shares, confusion matrices, and the blocks of docs/diagnose.md."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from excora.diagnosis.texts import TEXTS
from excora_studies.figures import Figure, Heat, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Report, Results
from excora_studies.verdicts import planted, real

VERDICTS = tuple(TEXTS)
Rows = Sequence[dict[str, Any]]
#: Kinds of runs, each with what it is called.
KINDS = {"tuning": "sets that the rules were set on", "measured": "sets looked at once", "planted": "plateau task"}


def score(rows: Rows) -> dict[str, Any]:
    """Share right of the runs whose cause is clear; false alarms of those without one; sentences contradicted.

    A run without a made cause counts for false alarms where no simple model is ahead of it on the test part: any fault
    is then a false alarm. Contradicted: a claim on the test part of which a simple model is better, by 0.05 and beyond
    the interval of the run's own PCC.
    """
    clear = [row for row in rows if row["clear"] and row["right"] and row["right"] != ["healthy"]]
    fine = [row for row in rows if not row["right"] and row["level"]] + [r for r in rows if r["right"] == ["healthy"]]
    causes = list(dict.fromkeys(row["cause"] for row in rows))
    counts = {c: {v: sum(r["cause"] == c and r["verdict"] == v for r in rows) for v in VERDICTS} for c in causes}
    return {
        "runs": len(rows),
        "clear": len(clear),
        "right": sum(row["verdict"] in row["right"] for row in clear),
        "cannot tell": sum(row["verdict"] == "cannot tell" for row in clear if "cannot tell" not in row["right"]),
        "fine": len(fine),
        "false alarms": sum(row["verdict"] not in real.INNOCENT for row in fine),
        "contradicted": sum(bool(row.get("contradicted by")) for row in rows),
        "confusion": counts,
        "by cause": {c: _by_cause([row for row in clear if row["cause"] == c]) for c in causes},
    }


def _by_cause(rows: Rows) -> dict[str, int]:
    return {"clear": len(rows), "right": sum(row["verdict"] in row["right"] for row in rows)}


def kinds(configuration: dict[str, Any], results: Results) -> dict[str, list[dict[str, Any]]]:
    """The runs of each kind that are there, with what simple models reach, judged."""
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for key, stored in results.items():
        if key.startswith("simple, ") or f"simple, {key}" not in results:
            continue
        others = results[f"simple, {key}"]
        if key.startswith("planted: "):
            found["planted"] += map(planted.judge, stored, others)
        else:
            found["tuning" if stored["set"] in configuration["tuning"] else "measured"] += real.judge(stored, others)
    return {kind: rows for kind, rows in found.items() if rows}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The confusion matrix of each kind, with the shares."""
    scores = {kind: score(rows) for kind, rows in kinds(configuration, results).items()}
    lines = [
        {"kind": kind, "cause": cause, **counts, **found["by cause"][cause]}
        for kind, found in scores.items()
        for cause, counts in found["confusion"].items()
    ]
    notes = [f"{KINDS[kind]}: {_in_words(found)}" for kind, found in scores.items()]
    panels = [
        Panel(
            title=KINDS[kind],
            x="verdict",
            y="what was done",
            heat=Heat(
                x=list(VERDICTS),
                y=list(found["confusion"]),
                z=[list(counts.values()) for counts in found["confusion"].values()],
                limit=max(max(counts.values()) for counts in found["confusion"].values()),
            ),
        )
        for kind, found in scores.items()
    ]
    figure = Figure(title="Verdicts on runs of a known cause", panels=panels, columns=len(panels), size=(6.5, 5.0))
    return Report(lines, scores, {"confusion": figure}, notes, ("kind", "cause", "clear", "right"))


def _in_words(found: dict[str, Any]) -> str:
    return (
        f"{found['right']} of {found['clear']} clear causes named, {found['cannot tell']} of them not told; "
        f"{found['false alarms']} false alarms in {found['fine']} runs without a fault; "
        f"{found['contradicted']} of {found['runs']} sentences contradicted by a simple model"
    )


def _block(contents: Contents, kind: str) -> str:
    """The confusion matrix of one kind."""
    found = contents.get("verdicts", {}).get("summary", {}).get(kind)
    if found is None:
        return f"{KINDS[kind].capitalize()}: not measured with these rules yet (`excora reproduce verdicts`)."
    told = [v for v in VERDICTS if any(row.get(v) for row in found["confusion"].values())]
    rows = []
    for cause, counts in found["confusion"].items():
        clear = found["by cause"][cause]
        share = f"{clear['right']} of {clear['clear']}" if clear["clear"] else "–"
        rows.append([cause, share, *(str(counts[v]) if counts.get(v) else "" for v in told)])
    head = f"{KINDS[kind].capitalize()}: **{_in_words(found)}**."
    return f"{head}\n\n{table(('what was done, below; verdict, right', 'clear and right', *told), rows)}"


#: For the pages: what stands between the marks of that name.
BLOCKS = {f"verdicts, {kind}": functools.partial(_block, kind=kind) for kind in KINDS}
