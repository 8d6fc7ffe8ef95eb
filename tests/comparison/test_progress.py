"""How far a comparison is."""

from __future__ import annotations

import io

from rich.console import Console

from excora.comparison.progress import Clock, watch


def test_time_left_is_shown_on_a_terminal_and_in_lines():
    jobs = [(0, fold, model) for fold in (0, 1) for model in ("a", "b")]
    file = io.StringIO()
    with watch(jobs, Console(file=file, width=80)) as finish:
        for job in jobs:
            finish(job, 30.0)
    assert file.getvalue() == "seed 0, fold 0: 2 of 4 runs, about 60 s left\nseed 0, fold 1: 4 of 4 runs, done\n"
    file = io.StringIO()
    with watch(jobs, Console(file=file, width=80, force_terminal=True)) as finish:
        for job in jobs:
            finish(job, None)
    assert "4/4" in file.getvalue()
    assert Clock(jobs).left is None
