"""The source of tables: what it claims, its choices, its lines of the summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.made import TRAIN, frame, table
from excora.data import sources
from excora.data.preparation import Preparation
from excora.data.roles import Roles
from excora.errors import InputError


def test_what_it_claims():
    source = sources["table"]
    for name in ("a.csv", "A.TSV", "a.csv.gz", "a.parquet"):
        assert source.claims(Path(name), Roles())
        assert not source.claims(Path(name), Roles(bag="b"))
    assert not source.claims(Path("a.npz"), Roles())


def test_scaling_by_ranks():
    data = table(frame())
    plain, ranks = Preparation.fit(data, TRAIN), Preparation.fit(data, TRAIN, scaling="quantile")
    assert plain != ranks
    assert np.abs(ranks.matrix(data)[:, 0]).max() < 5.3
    with pytest.raises(InputError, match="scaling must be one of standard, quantile, got 'other'"):
        Preparation.fit(data, TRAIN, scaling="other")


def test_the_summary():
    data = table(frame())
    (fact,) = sources["table"].describe(data, Preparation.fit(data, TRAIN).content)
    assert fact == ("features", "2 numeric, 2 categorical, 1 dates", {"numeric": 2, "categorical": 2, "dates": 1})
