"""The top and the end of the page: verdict, key figures, notes, what is left out, how to run it again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from excora.report.markup import (
    Column,
    Missing,
    Section,
    correlation,
    count,
    duration,
    figure,
    fold,
    plural,
    prose,
    table,
    text,
)
from excora.report.reading import Content
from excora.report.words import TERMS, VERDICTS


def verdict(content: Content) -> str:
    """The verdict in one sentence, the advice, and the evidence folded; for a comparison alone, its sentence."""
    found = None if content.results is None else content.results.get("verdict")
    if found is None:
        if content.comparison is not None:
            return _banner("open", "Result of the comparison", content.comparison["sentence"], "")
        return _banner("open", "No verdict yet", "This run has no verdict: it has not ended, or was not watched.", "")
    look, plain = VERDICTS.get(found["name"], ("open", found["sentence"]))
    columns = [Column("Evidence"), Column("Value", figure), Column("Rule"), Column("Met")]
    rows = [
        [name.replace("_", " "), item["value"], item["rule"], "yes" if item["met"] else "no"]
        for name, item in found["evidence"].items()
    ]
    evidence = f"<p>In the monitor's words: {text(found['name'])}. {text(found['sentence'])}</p>"
    if rows:
        evidence += table("Evidence for the verdict", columns, rows)
    advice = f"<p><b>What to try next.</b> {prose(found['advice'])}</p>"
    return _banner(look, f"Verdict: {found['name']}", plain, advice + fold("The evidence", evidence))


def _banner(look: str, label: str, sentence: str, rest: str) -> str:
    return (
        f'<section id=verdict class="verdict {look}" aria-labelledby=verdict-title>'
        f"<h2 id=verdict-title>{text(label)}</h2><p class=sentence>{text(sentence)}</p>{rest}</section>"
    )


class Card(NamedTuple):
    """A key figure."""

    name: str
    value: str
    more: str


def cards(content: Content) -> Section | Missing:
    """The key figures."""
    shown: list[Card] = []
    if content.results is not None:
        shown = _scores(content.results)
    elif content.comparison is not None and content.comparison["rows"]:
        shown = _winners(content.comparison)
    if not shown:
        return Missing("Key figures", "there is no results.json or comparison.json: the run has not ended yet.")
    items = "".join(
        f"<div class=card><dt>{text(name)}</dt><dd><b>{text(value)}</b><span>{text(more)}</span></dd></div>"
        for name, value, more in shown
    )
    meaning = "".join(f"<dt>{text(term)}</dt><dd>{text(words)}</dd>" for term, words in TERMS.items())
    body = f"<dl class=cards>{items}</dl>" + fold("What do these words mean?", f"<dl class=terms>{meaning}</dl>")
    return Section("figures", "Key figures", body)


def _scores(results: dict[str, Any]) -> list[Card]:
    part = "test" if results["test"] else "validation"
    scores: Mapping[str, Any] = results[part]
    if not scores:
        return []
    defined = {name: [s[name] for s in scores.values() if s[name] is not None] for name in ("pcc", "mse", "mae")}
    pcc, mse, mae = (statistics.fmean(values) if values else None for values in defined.values())
    known = defined["pcc"]
    over = f"mean over {plural(len(scores), 'target')}"
    if len(scores) > 1:
        words = [f"{over}; {correlation(min(known))} to {correlation(max(known))}" if known else over, over, over]
    else:
        (score,) = scores.values()
        low, high = score.get("low"), score.get("high")
        interval = "" if low is None or high is None else f"95 % interval {correlation(low)} to {correlation(high)}"
        words = [
            interval or ("" if known else "undefined: constant values"),
            "mean squared error",
            "mean absolute error",
        ]
    shown = (("PCC", correlation(pcc)), ("MSE", figure(mse)), ("MAE", figure(mae)))
    cards = [Card(f"{part.capitalize()} {name}", value, more) for (name, value), more in zip(shown, words, strict=True)]
    counts, seconds = results["counts"], results.get("seconds")
    rest = f"in the {part} part; {counts['train']:,} to train, {counts['validation']:,} to validate"
    cards.append(Card("Samples", count(counts[part]), rest))
    if seconds is not None:
        cards.append(Card("Training", duration(seconds), plural(results["epochs"], "epoch")))
    return cards


def _winners(found: dict[str, Any]) -> list[Card]:
    rows: Sequence[dict[str, Any]] = found["rows"]
    best = max(rows, key=lambda row: -2.0 if row["pcc"] is None else row["pcc"])
    least = min(rows, key=lambda row: math.inf if row["mse"] is None else row["mse"])
    runs, seconds = len(best["runs"]), sum(run["seconds"] for row in rows for run in row["runs"])
    return [
        Card("Highest PCC", correlation(best["pcc"]), f"{best['label']}, mean over runs"),
        Card("Lowest MSE", figure(least["mse"]), f"{least['label']}, mean over runs"),
        Card("Models", count(len(rows)), f"{plural(runs, 'run')} each"),
        Card("Training", duration(seconds), "all runs together"),
    ]


def notes(content: Content) -> Section | Missing:
    """What reading, training and comparing noticed."""
    found = [
        note for part in (content.results, content.comparison) if part is not None for note in part.get("notes", [])
    ]
    if not found:
        return Missing("Notes", "nothing out of the ordinary was noted.")
    return Section(
        "notes", "Notes", "<ul>" + "".join(f"<li>{text(note)}</li>" for note in dict.fromkeys(found)) + "</ul>"
    )


def left_out(missing: Sequence[Missing]) -> Section | Missing:
    """What is not on the page and why."""
    items = "".join(f"<li><b>{text(item.title)}</b>: {prose(item.reason)}</li>" for item in missing)
    return Section("left-out", "What is not here, and why", f"<ul>{items}</ul>") if items else Missing("", "")


def rerun(content: Content) -> Section | Missing:
    """The command line, versions, seeds and settings."""
    body = ""
    if content.config is not None:
        body += _run(content.config)
    if content.comparison is not None:
        body += _command("The comparison", content.comparison["rerun"]) + _setup(content.comparison)
    if not body:
        return Missing("How to run it again", "there is no config.json.")
    return Section("rerun", "How to run it again", body)


def _command(title: str, line: str) -> str:
    words = " ".join(f"<span>{text(word)}</span>" for word in line.split(" "))  # breaks between words, not at hyphens
    return f'<h3>{text(title)}</h3><pre tabindex=0 aria-label="Command line"><code>{words}</code></pre>'


def _run(config: dict[str, Any]) -> str:
    facts = {"Excora": config["excora"], "Seed": config["settings"]["seed"], "Data": config["data"]["path"]}
    facts |= config["environment"]
    body = _command("The run", config["rerun"]) + _facts("Versions, seed and data", facts)
    rest = {"settings": config["settings"], "data": config["data"], "split": config.get("split", {})}
    lists = "".join(_facts(name.capitalize(), values) for name, values in rest.items() if values)
    return body + fold("All settings", lists)


def _setup(found: dict[str, Any]) -> str:
    runs = [run for row in found["rows"] for run in row["runs"]]
    facts: dict[str, Any] = {
        "Seeds": sorted({run["seed"] for run in runs}), "Folds": len({run["fold"] for run in runs}),
    }  # fmt: skip
    return _facts("Seeds and folds", facts) + (
        fold("All settings", _facts("Setup", found["setup"])) if found.get("setup") else ""
    )


def _facts(caption: str, facts: Mapping[str, Any]) -> str:
    return table(
        caption, [Column("Name"), Column("Value")], [[str(name), _plain(value)] for name, value in facts.items()]
    )


def _plain(value: Any) -> str:
    """A setting as a reader would write it."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(item)}" for name, item in value.items()) or "–"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "–" if value is None else str(value)
