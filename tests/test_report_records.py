"""Records: made in memory or read from files, one checker for both, and what it says of broken files."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples_report import CLOSING, HOSTILE, Page, write_both, write_comparison, write_json, write_run

from excora.errors import InputError
from excora.report import ComparisonRecord, RunRecord, page_of_comparison, page_of_run, write_page, write_report
from excora.report.checking import build
from excora.report.parts import Score
from excora.report.records import FILES


def read_csv(path):
    return pd.read_csv(path, float_precision="round_trip")


def plain(folder):
    """The contents of a run folder as `fit` has them before it writes them."""
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("config", "results")}
    found["monitor"] = json.loads((folder / "monitor.json").read_text())["records"]
    found["attention"] = {"pool": json.loads((folder / "attention.json").read_text())}
    found["metrics"] = read_csv(folder / "metrics.csv").to_dict("records")
    return found | {"predictions": dict(read_csv(folder / "predictions.csv").items())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), targets=("a", "b"), samples=60)


@pytest.fixture
def content(folder):
    return plain(folder)


def shown(record, tmp_path):
    return Page(write_page(tmp_path / "page.html", page_of_run(record)))


# In memory.


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


def test_a_model_without_a_pool_or_a_monitor_has_its_page(content, tmp_path):
    page = shown(RunRecord.of(**(content | {"attention": None, "monitor": ()})), tmp_path)
    assert {"curves", "predictions"} <= set(page.sections)
    assert not {"attention", "elements", "error-parts"} & set(page.sections)
    assert "this model weighs no elements" in page.sections["left-out"]


def test_nothing_is_a_page_too(tmp_path):
    page = shown(RunRecord(), tmp_path)
    assert list(page.sections) == ["verdict", "left-out"]
    assert page.plots == {}


def test_settings_in_groups_are_lists_of_their_own(content, tmp_path):
    content["config"]["settings"] = {"model": "kriging", HOSTILE: CLOSING, "recipe": {"epochs": 7, "seed": 3}}
    page = shown(RunRecord.of(**content), tmp_path)
    for words in ("Recipe", "kriging", HOSTILE, CLOSING, "Seed"):
        assert words in page.sections["rerun"]
    assert re.search(r"Seed\s*3", page.sections["rerun"])


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


def test_several_pools_are_several_sections_whatever_they_are_called(folder, content, tmp_path):
    pool = content["attention"]["pool"]
    write_run(tmp_path, targets=("a", "b"), samples=60)
    write_json(tmp_path / "attention.json", {"pools": {"words": pool, HOSTILE: pool, "none": pool | EMPTY}})
    page = Page(write_report(tmp_path))
    titles = ["Attention: words", f"Attention: {HOSTILE}", "Heaviest elements: words"]
    names = ["attention", "attention-2", "elements"]
    for title, name in zip(titles, names, strict=True):
        assert page.sections[name].strip().startswith(title)
    assert "attention-3" not in page.sections
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {"gamma", "gamma-2"} <= set(page.plots)
    write_json(tmp_path / "attention.json", {"pools": {"words": pool}})
    assert write_report(tmp_path).read_bytes() == write_report(folder).read_bytes()


EMPTY = {"gamma": [], "temperature": [], "effective_elements": [], "elements": [], "bags": []}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_the_checker_takes_any_value_or_says_what_is_wrong(value):
    for kind in (int, float, str, bool, float | None, list[float], dict[str, int | None], Score):
        said = "here: "
        try:
            build(kind, value, "here")
        except InputError as error:
            said = str(error)
        assert said.startswith("here: ")


# Files that are wrong.

ALL = (*FILES, "comparison.json")


def broken(name: str, change) -> None:
    return pytest.param(name, change, id=f"{name} {change.__name__}")


def cut(text):
    return text[: len(text) // 2].rstrip("\n")[:-1]


def empty(text):
    return ""


def a_list(text):
    return "[]"


def no_number(text):
    return re.sub(r"\d\.\d+", "NaN", text, count=1)


def word(text):
    return re.sub(r"\d\.\d+", '"high"' if text.startswith("{") else "high", text, count=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [broken(name, change) for name in ALL for change in (cut, empty)]
    + [broken(name, a_list) for name in ALL if name.endswith("json")]
    + [broken(name, no_number) for name in ("results.json", "attention.json", "comparison.json", "predictions.csv")]
    + [broken(name, word) for name in ("results.json", "monitor.json", "metrics.csv", "predictions.csv")],
)
def test_a_broken_file_is_named_and_nothing_is_written(tmp_path, name, change):
    write_both(tmp_path, samples=60)
    path = tmp_path / name
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=re.escape(str(path))):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "key"),
    [("results.json", "test"), ("results.json", "counts"), ("config.json", "rerun"), ("monitor.json", "records"),
     ("attention.json", "gamma"), ("comparison.json", "pairs")],
)  # fmt: skip
def test_a_missing_key_is_named(tmp_path, name, key):
    write_both(tmp_path, samples=60)
    content = json.loads((tmp_path / name).read_text())
    del content[key]
    write_json(tmp_path / name, content)
    with pytest.raises(InputError, match=f"{name}.*must have '{key}'"):
        write_report(tmp_path)


def test_a_missing_column_is_named(tmp_path):
    write_run(tmp_path, samples=60)
    path = tmp_path / "predictions.csv"
    path.write_text(path.read_text().replace("prediction", "guess", 1))
    with pytest.raises(InputError, match="'prediction' is missing"):
        write_report(tmp_path)


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing to report"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        write_report(tmp_path / "none")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_both(tmp_path_factory.mktemp("sample"), samples=20)


@settings(max_examples=50)
@given(data=st.data())
def test_whatever_becomes_of_a_file_there_is_a_page_or_an_input_error(sample, data):
    path = sample / data.draw(st.sampled_from(ALL))
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 40, len(whole))))
    new = data.draw(
        st.sampled_from([b"", b"null", b"-1e999", b"NaN", b"[]", b"{}", b'"', b"\x00\xff", b"9" * 400, b",,", b"0"])
    )
    path.write_bytes(whole[:start] + new + whole[end:])
    said = path.name
    try:
        assert page_of_run(RunRecord.load(sample)).startswith("<!doctype html>")
    except InputError as error:
        said = str(error)
    finally:
        path.write_bytes(whole)
    assert path.name in said
