"""Records: made in memory or read from files, one checker for both."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from excora.errors import InputError
from excora.monitor import PlateauMonitor
from excora.report import ComparisonRecord, RunRecord, page_of_comparison, page_of_run, records, write_report
from excora.report.parts import Score
from report.samples import Page, shown, write_comparison


def test_what_the_monitor_writes_can_be_read(tmp_path):
    import torch

    monitor = PlateauMonitor()
    for _ in range(2):
        monitor.update(torch.randn(20), torch.randn(20))
        monitor.end_epoch()
    monitor.to_json(tmp_path / "monitor.json")
    page = Page(write_report(tmp_path))
    assert {"curves", "error-parts", "gradient-ratio"} <= set(page.sections)


def test_memory_and_files_give_the_same_page(folder, content):
    record = RunRecord.of(**content)
    assert page_of_run(record) == page_of_run(RunRecord.load(folder))
    assert page_of_run(record) == write_report(folder).read_text("utf-8")


def test_a_comparison_in_memory_gives_the_same_page(tmp_path):
    path = write_report(write_comparison(tmp_path))
    content = json.loads((tmp_path / "comparison.json").read_text())
    assert page_of_comparison(ComparisonRecord.of(content)) == path.read_text("utf-8")


def test_a_comparison_of_today_is_a_record():
    from excora.comparison import compare
    from excora.data.dataset import Dataset
    from excora.data.table import Table

    x = np.random.default_rng(0).normal(size=(60, 2))
    data = Dataset(np.arange(60).astype(str).astype(object), ("y",), x @ [[2.0], [1.0]], Table(pd.DataFrame(x)))
    found = compare(data, models=["ridge", "neighbours"], seeds=1, folds=2, progress=False)
    record = ComparisonRecord.of(found.to_dict())
    assert [row.model for row in record.rows] == ["ridge", "neighbours"]
    assert record.title == "Predicting y"


def test_numbers_of_numpy_and_undefined_ones_are_taken(content, tmp_path):
    score = {"pcc": np.float32("nan"), "mse": np.float32(0.5), "mae": np.int64(1), "low": float("nan")}
    content["results"]["test"] = {"y": score}
    content["monitor"][-1]["pcc"] = float("inf")
    record = RunRecord.of(**content)
    assert record.results.test["y"] == Score(pcc=None, mse=0.5, mae=1.0)
    assert record.monitor[-1]["pcc"] is None
    assert "undefined" in shown(record, tmp_path).sections["figures"]


def test_what_is_wrong_in_memory_is_named(content):
    content["results"]["counts"]["test"] = "many"
    with pytest.raises(InputError, match=r"results: counts\.test must be a whole number, got 'many'"):
        RunRecord.of(**content)
    with pytest.raises(InputError, match="metrics: epoch 1 must have 'validation_pcc'"):
        RunRecord.of(metrics=[{"epoch": 0}])
    with pytest.raises(InputError, match="predictions: the column 'prediction:a' is missing"):
        RunRecord.of(predictions={"id": [], "part": [], "target:a": []})


def test_of_several_files_the_line_names_the_first_and_their_number(tmp_path):
    assert records._line("a/slide0.h5ad a/slide1.h5ad 'b c.h5ad'", "more") == "From slide0.h5ad and 2 more, more"
    assert records._line("table.csv") == "From table.csv"
    assert records._line("it's.csv") == "From it's.csv"
    (tmp_path / "two words.csv").write_text("")
    assert records._line(tmp_path / "two words.csv") == "From two words.csv"
