"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from commands import call

from cli.samples import QUICK


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """80 rows: two numbers, a word, a slide, a target."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80), "age": rng.normal(size=80), "kind": rng.choice(["a", "b"], 80)})
    frame["slide"] = np.arange(80) // 4
    frame["y"] = frame["size"] + 0.5 * (frame["kind"] == "a") + 0.1 * rng.normal(size=80)
    file = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(file, index=False)
    return file


@pytest.fixture(scope="session")
def run(table):
    """A finished run and what `excora fit` printed."""
    folder = table.parent / "run"
    options = ["--target", "y", "--group", "slide", "--output", str(folder), *QUICK]
    result = call("fit", str(table), *options)
    assert result.exit_code == 0, result.output
    return folder, result.output
