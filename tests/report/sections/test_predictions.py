"""Predicted against true."""

from __future__ import annotations

import numpy as np

from excora.report import RunRecord, write_report
from report.samples import Page, read_csv, shown, write_run


def test_many_targets_rows_and_groups_are_thinned_out_and_the_page_says_so(tmp_path):
    genes, slides = tuple(f"gene {k}" for k in range(11)), tuple(f"slide {k}" for k in range(30))
    write_run(tmp_path, targets=genes, groups=slides, samples=700)
    page = Page(write_report(tmp_path))
    views = page.plots["scatter"]
    assert len(views) == 8
    assert all(sum(len(trace["x"]) for trace in view["traces"]) == 500 for view in views)
    assert views[0]["traces"][-1]["name"] == "23 other groups"
    for words in ("500 of the 700 test samples", "8 of 11 targets", "30 in all"):
        assert words in page.sections["predictions"]
    assert "mean over 11 targets" in page.sections["figures"]


def test_samples_without_a_label_are_left_out_of_the_plot_of_that_target(content, folder, tmp_path):
    missing = content["predictions"]["target:a"].copy()
    missing[60:75] = np.nan
    missing_b = missing * np.nan
    broken = content["predictions"]["prediction:b"].copy()
    broken[119] = np.inf
    record = RunRecord.of(
        **content | {"predictions": content["predictions"] | {"target:a": missing, "prediction:b": broken}}
    )
    views = shown(record, tmp_path).plots["scatter"]
    assert [sum(len(trace["x"]) for trace in view["traces"]) for view in views] == [45, 59]
    frame = read_csv(folder / "predictions.csv").assign(**{"target:a": missing, "target:b": missing_b})
    copy = write_run(tmp_path / "copy", targets=("a", "b"), samples=60)
    frame.to_csv(copy / "predictions.csv", index=False)
    assert len(Page(write_report(copy)).plots["scatter"]) == 1
    frame.assign(**{"target:a": missing_b}).to_csv(copy / "predictions.csv", index=False)
    assert "no sample of the test part has a label" in Page(write_report(copy)).sections["left-out"]
