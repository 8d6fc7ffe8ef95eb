"""What a comparison says: rows, pairs, the sentence, and how it prints."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from comparison.samples import pair, quick, table
from excora.comparison.result import Headline, conclude, judged
from excora.stats.paired import Bounds

LABELS = {"eca": "ECA (ours)", "softmax": "softmax", "mean": "mean", "ridge": "ridge"}


def test_the_rows_conclude():
    found = quick(table())
    row = found.row("ridge")
    assert [(run["seed"], run["fold"]) for run in row.runs] == [(s, f) for s in (0, 1) for f in (0, 1, 2)]
    assert (found.reference, found.best, found.headline.better_than) == ("ridge", "ridge", ["neighbours"])
    pair = found.pair("neighbours")
    assert pair.difference == pytest.approx(found.row("neighbours").pcc - row.pcc)
    assert pair.low < pair.difference < pair.high < 0
    assert (pair.verdict, pair.mse_verdict) == ("worse", "worse")
    assert found.pair("ridge") is None
    assert found.pair("ridge", "neighbours") == pair.turned()
    assert pair.turned().turned() == pair
    assert (pair.turned().verdict, pair.turned().low) == ("better", -pair.high)
    assert found.sentence == f"ridge has the highest PCC, {row.pcc:.3f}, and is better than the other."
    assert list(found.frame()["verdict"]) == [None, "worse"]


def test_it_prints_whole_lines_to_a_file_and_a_table_to_a_terminal():
    found = quick(table())
    file = io.StringIO()
    Console(file=file, width=40).print(found, soft_wrap=True)
    assert file.getvalue() == f"{found}\n"
    header, *rows = file.getvalue().splitlines()[:3]
    assert " ".join(header.split()) == "model PCC folds PCC - best 95 % interval verdict MSE MAE seconds"
    assert [row[header.index("verdict") :].split()[0] for row in rows] == ["best", "worse"]
    terminal = io.StringIO()
    Console(file=terminal, width=120, force_terminal=True, color_system="standard").print(found)
    assert "\x1b[31mworse" in terminal.getvalue()
    assert "seconds" in terminal.getvalue()


def test_a_narrow_terminal_keeps_what_was_asked_for():
    terminal = io.StringIO()
    Console(file=terminal, width=80, force_terminal=True, color_system=None).print(quick(table()))
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "verdict" in terminal.getvalue()
    assert "seconds" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("difference", "low", "high", "word"),
    [
        (0.269, -0.68, 1.26, "cannot tell"), (0.003, -0.004, 0.010, "no difference"),
        (0.003, -0.004, 0.021, "cannot tell"), (0.003, 0.001, 0.005, "better"), (-0.2, -0.3, -0.1, "worse"),
    ],
)  # fmt: skip
def test_no_difference_is_said_of_a_narrow_interval_only(difference, low, high, word):
    assert judged(Bounds(difference, low, high), 0.02) == word


def headline(better: str = "", unclear: str = "", equal: str = "") -> Headline:
    return Headline(best="eca", better_than=better.split(), tied_with=[*unclear.split(), *equal.split()],
                    equal_to=equal.split())  # fmt: skip


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (headline(), "ECA (ours) has a PCC of 0.800."),
        (headline("ridge"), "ECA (ours) has the highest PCC, 0.800, and is better than the other."),
        (headline("", "ridge"), "ECA (ours) has the highest PCC, 0.800, but one cannot tell whether it is better than "
         "ridge."),
        (headline("ridge softmax"), "ECA (ours) has the highest PCC, 0.800, and is better than all 2 others. All 3 "
         "pairs are judged at once, with at most 5 % for a false win."),
        (headline("ridge", "softmax", "mean"), "ECA (ours) has the highest PCC, 0.800, and is better than ridge, and "
         "does not differ from mean by 0.02 or more; one cannot tell whether it is better than softmax. All 6 pairs "
         "are judged at once, with at most 5 % for a false win."),
    ],
)  # fmt: skip
def test_the_sentence_leads_with_the_best_model(found, expected):
    assert conclude(LABELS, found, 0.8, 0.02, None) == expected


def test_a_pair_that_one_asks_about_comes_second():
    won = headline("ridge").__class__(best="ridge", better_than=["eca", "softmax"], tied_with=[], equal_to=[])
    for asked, expected in [
        (pair(0.269, -0.68, 1.26, "cannot tell"), "One cannot tell whether ECA (ours) is better than softmax: PCC "
         "differs by +0.269, interval -0.680 to +1.260."),
        (pair(0.003, -0.004, 0.010, "no difference"), "ECA (ours) and softmax do not differ by 0.02 or more: PCC "
         "differs by +0.003, interval -0.004 to +0.010."),
        (pair(-0.1, -0.2, -0.05, "worse"), "ECA (ours) is worse than softmax: PCC differs by -0.100, interval -0.200 "
         "to -0.050."),
    ]:  # fmt: skip
        said = conclude(LABELS, won, 0.9, 0.02, asked)
        assert said.startswith("ridge has the highest PCC, 0.900, and is better than all 2 others.")
        assert said.endswith(expected)
