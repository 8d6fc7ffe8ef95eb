"""What docs/tabular.md shows of the study ``tabular``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from excora_studies.markdown import Contents, number, table, with_spread
from excora_studies.tabular.table import BOTH, DEFAULT, EXCORA, PEERS

Content = dict[str, Any]
_DIGITS = {"Appliances": (2, 0), "Appliances + clock": (2, 0), "Superconductivity": (2, 1), "News (partial)": (3, 3)}


def scores(content: Content) -> str:
    """A table for each set and split."""
    parts = []
    for name, split in dict.fromkeys((row["set"], row["split"]) for row in content["table"]):
        own = [row for row in content["table"] if (row["set"], row["split"]) == (name, split)]
        one, two = _DIGITS[name]
        rows = [
            [
                f"**{row['row']}**" if row["row"] == EXCORA else row["row"],
                with_spread(row, "MAE", one),
                with_spread(row, "MSE", two),
                with_spread(row, "PCC", 4),
                _paper(row),
                number(row["seconds"], 1),
                "" if row["trials"] is None else str(row["trials"]),
            ]
            for row in own
        ]
        header = ("row", "MAE", "MSE", "PCC", "paper: MAE, MSE, PCC", "CPU s a fit", "trials")
        parts.append(f"### {name}, {split} split\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def _paper(row: dict[str, Any]) -> str:
    if row["paper PCC"] is None:
        return ""
    return f"{row['paper MAE']:g}, {row['paper MSE']:g}, {row['paper PCC']:.3f}"


def peers(content: Content) -> str:
    """The Excora row against every peer and its own halves, and whether it beats them all."""
    return _against(content, EXCORA)


def default(content: Content) -> str:
    """The same of what a user has who sets nothing."""
    return _against(content, DEFAULT)


def _against(content: Content, own: str) -> str:
    rows = [
        [pair["set"], pair["split"], pair["second"], _interval(pair, "PCC"), _interval(pair, "MSE")]
        for pair in content["summary"]["pairs"]
        if pair["first"] == own
    ]
    return table(("set", "split", f"{own} −", "PCC [95 %]", "MSE / variance [95 %]"), rows)


def together(content: Content) -> str:
    """Excora and trees, averaged, against the trees."""
    found = {(row["set"], row["split"]): row for row in content["table"] if row["row"] == BOTH}
    rows = [
        [pair["set"], pair["split"], with_spread(found[pair["set"], pair["split"]], "PCC", 4),
         _interval(pair, "PCC"), _interval(pair, "MSE")]
        for pair in content["summary"]["pairs"]
        if pair["first"] == BOTH
    ]  # fmt: skip
    return table(("set", "split", "mean of both, PCC", "− ExtraTrees, PCC [95 %]", "MSE / variance [95 %]"), rows)


def hosts(content: Content) -> str:
    """ECA against softmax in the same host."""
    rows = [
        [
            pair["set"],
            pair["split"],
            f"{pair['first']} − {pair['second']}",
            _interval(pair, "PCC"),
            _interval(pair, "MSE"),
        ]
        for pair in content["summary"]["pairs"]
        if pair["first"] not in (EXCORA, DEFAULT, BOTH)
    ]
    return table(("set", "split", "difference", "PCC [95 %]", "MSE / variance [95 %]"), rows)


def _interval(pair: dict[str, Any], score: str) -> str:
    text = f"{pair[f'{score} difference']:+.4f} [{pair[f'{score} low']:+.4f}, {pair[f'{score} high']:+.4f}]"
    return f"**{text}**" if pair[f"{score} low"] > 0 or pair[f"{score} high"] < 0 else text


def summary(content: Content) -> str:
    """Our rows beside the best peer, for README.md."""
    rows = []
    for name, split in dict.fromkeys((row["set"], row["split"]) for row in content["table"]):
        found = {r["row"]: r for r in content["table"] if (r["set"], r["split"]) == (name, split)}
        others = [found[peer] for peer in PEERS if peer in found]
        if EXCORA not in found or not others:
            continue
        digits = _DIGITS[name][1]
        best = max(others, key=lambda row: row["PCC"])
        least = min(others, key=lambda row: row["MSE"])
        rows.append(
            [
                f"{name}, {split}",
                with_spread(found[DEFAULT], "PCC", 3) if DEFAULT in found else "",
                with_spread(found[EXCORA], "PCC", 3),
                f"{with_spread(best, 'PCC', 3)} ({best['row']})",
                with_spread(found[DEFAULT], "MSE", digits) if DEFAULT in found else "",
                with_spread(found[EXCORA], "MSE", digits),
                f"{with_spread(least, 'MSE', digits)} ({least['row']})",
            ]
        )
    header = ("set, split", *(f"{who}, {score}" for score in ("PCC", "MSE") for who in (DEFAULT, EXCORA, "best peer")))
    return table(header, rows)


def _block(make: Callable[[Content], str]) -> Callable[[Contents], str]:
    return lambda contents: make(contents["tabular"])


BLOCKS = {
    "tabular": _block(scores),
    "tabular peers": _block(peers),
    "tabular default": _block(default),
    "tabular together": _block(together),
    "tabular hosts": _block(hosts),
    "tabular summary": _block(summary),
}
