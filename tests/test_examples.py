"""examples/: each file runs, draws, and keeps what it asserts."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest
import torch

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, monkeypatch):
    threads = torch.get_num_threads()
    mpl.use("agg")
    from matplotlib import pyplot

    drawn = []
    monkeypatch.setattr(pyplot, "show", lambda: drawn.append(len(pyplot.gcf().axes)))
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):  # of the libraries an example shows
            warnings.simplefilter("ignore", kind)
        runpy.run_path(str(path))
    pyplot.close("all")
    torch.set_num_threads(threads)
    assert drawn
    assert min(drawn) >= 1


def test_there_is_an_example_of_each_use():
    assert len(EXAMPLES) >= 12
