"""What a comparison says: rows, pairs, the sentence, and how it prints."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from comparison.samples import pair, quick, table
from excora.comparison.result import Headline, conclude

LABELS = {"eca": "ECA (ours)", "softmax": "softmax", "mean": "mean", "ridge": "ridge"}


def test_rows_are_means_over_runs_and_pairs_conclude():
    found = quick(table())
    row = found.row("ridge")
    values = [run["pcc"] for run in row.runs]
    assert [(run["seed"], run["fold"]) for run in row.runs] == [(s, f) for s in (0, 1) for f in (0, 1, 2)]
    assert (row.pcc, row.pcc_sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert (found.reference, found.best, found.headline.better_than) == ("ridge", "ridge", ["neighbours"])
    pair = found.pair("neighbours")
    assert pair.difference == pytest.approx(found.row("neighbours").pooled_pcc - row.pooled_pcc)
    assert pair.low < pair.difference < pair.high < 0
    assert (pair.verdict, pair.mse_verdict) == ("worse", "worse")
    assert found.sentence == (
        f"ridge has the highest PCC over all samples ({row.pooled_pcc:.3f}) and is better than the other, by intervals "
        f"that hold for all pairs of the 2 models at once."
    )
    assert list(found.frame()["verdict"]) == [None, "worse"]


def test_it_prints_whole_lines_to_a_file_and_a_table_to_a_terminal():
    found = quick(table())
    file = io.StringIO()
    Console(file=file, width=40).print(found, soft_wrap=True)
    assert file.getvalue() == f"{found}\n"
    header, *rows = file.getvalue().splitlines()[:3]
    assert header.split("  ")[0] == "model"
    assert [row[header.index("verdict") :] for row in rows] == ["reference", "worse"]
    terminal = io.StringIO()
    Console(file=terminal, width=120, force_terminal=True, color_system="standard").print(found)
    assert "\x1b[31mworse" in terminal.getvalue()


def test_the_sentence_is_plain_about_noise():
    tied = Headline(best="eca", better_than=["ridge"], tied_with=["mean", "softmax"])
    assert conclude(LABELS, pair(0.003, -0.004, 0.010, "no difference"), tied, 0.8) == (
        "ECA (ours) and softmax cannot be told apart here: PCC differs by +0.003, 95 % interval -0.004 to +0.010. "
        "ECA (ours) has the highest PCC over all samples (0.800), but cannot be told apart from mean and softmax, by "
        "intervals that hold for all pairs of the 4 models at once."
    )
    won = Headline(best="eca", better_than=["ridge", "softmax"], tied_with=[])
    assert conclude(LABELS, pair(-0.1, -0.2, -0.05, "worse"), won, 0.8) == (
        "ECA (ours) is worse than softmax here: PCC differs by -0.100, 95 % interval -0.200 to -0.050. ECA (ours) has "
        "the highest PCC over all samples (0.800) and is better than all 2 others, by intervals that hold for all "
        "pairs of the 3 models at once."
    )
    alone = Headline(best="ridge", better_than=[], tied_with=[])
    assert conclude(LABELS, None, alone, 0.5) == "ridge has a PCC of 0.500 over all samples."
