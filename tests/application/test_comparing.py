"""compare of the application: a comparison and, in its folder, its page."""

from __future__ import annotations

import inspect
import shutil

import numpy as np
import pandas as pd
import pytest

from application.samples import COPIED
from excora import comparison
from excora.application import compare
from excora.data.dataset import Dataset
from excora.data.table import Table
from excora.report import ComparisonRecord, page_of_comparison


@pytest.fixture
def data() -> Dataset:
    x = np.random.default_rng(0).normal(size=(60, 2))
    ids = np.arange(60).astype(str).astype(object)
    return Dataset(ids, ("y",), x @ [[2.0], [1.0]], Table(pd.DataFrame(x, columns=["a", "b"])))


QUICK = {"models": ["ridge", "peer:mean"], "folds": 2, "seeds": 1, "progress": False}


def test_it_has_the_signature_and_the_words_of_the_comparison():
    assert inspect.signature(compare) == inspect.signature(comparison.compare)
    assert compare.__doc__ == comparison.compare.__doc__


def test_a_folder_gets_the_page_of_the_comparison(data, tmp_path):
    found = compare(data, output=tmp_path, **QUICK)
    assert (tmp_path / "report.html").read_text("utf-8") == page_of_comparison(ComparisonRecord.of(found.to_dict()))


def test_without_a_folder_the_numbers_are_the_same(data, tmp_path):
    written, alone = compare(data, output=tmp_path, **QUICK), compare(data, **QUICK)
    assert [row.pcc for row in alone.rows] == [row.pcc for row in written.rows]


def test_in_the_folder_of_a_run_the_page_says_both(data, home, tmp_path):
    for name in COPIED:
        shutil.copy(home / "run" / name, tmp_path)
    found = compare(data, output=tmp_path, **QUICK)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert 'id="predictions"' in page  # of the run
    assert 'id="comparison"' in page
    assert found.rows[0].label in page
