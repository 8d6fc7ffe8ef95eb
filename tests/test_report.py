"""The report: what it says, that a user's words stay words, and what it does with broken files."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples_report import (
    CLOSING,
    HOSTILE,
    IMAGE,
    LINK,
    Page,
    write_both,
    write_comparison,
    write_hostile,
    write_json,
    write_run,
)

from excora.diagnosis.verdicts import TEXTS
from excora.errors import InputError
from excora.monitor import PlateauMonitor
from excora.report import RunRecord, page_of_run, write_report
from excora.report.histograms import bin_edges
from excora.report.page import _templates
from excora.report.plots import plot_text
from excora.report.words import VERDICTS

FILES = ("config.json", "metrics.csv", "monitor.json", "predictions.csv", "results.json", "attention.json")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return write_report(write_both(tmp_path_factory.mktemp("full")))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write_report(write_hostile(tmp_path_factory.mktemp("hostile")))


# What it says.


def test_a_full_folder_gives_every_section(full):
    page = Page(full)
    expected = ["verdict", "figures", "comparison", "curves", "error-parts", "gradient-ratio", "predictions", "targets",
                "groups", "attention", "elements", "notes", "rerun"]  # fmt: skip
    assert [attributes["id"] for tag, attributes in page.elements if tag == "section"] == expected
    results = json.loads(full.with_name("results.json").read_text())
    score = results["test"]["expression"]
    assert VERDICTS[results["verdict"]["name"]][1] in page.sections["verdict"]
    assert results["verdict"]["advice"] in page.sections["verdict"]
    for figure in (f"{score['pcc']:.3f}", f"{score['low']:.3f} to {score['high']:.3f}", f"{score['mse']:.3f}", "600"):
        assert figure in page.sections["figures"]
    assert f"epoch {results['best_epoch'] + 1} of 60" in page.sections["curves"]
    assert "negative share is intended" in page.sections["elements"]
    assert "excora compare" in page.sections["rerun"]
    assert "2.13.0" in page.sections["rerun"]
    assert "intervals are rough" in page.sections["notes"]


def test_the_plots_hold_the_data(full):
    plots = Page(full).plots
    records = json.loads(full.with_name("monitor.json").read_text())["records"]
    attention = json.loads(full.with_name("attention.json").read_text())
    names = ["differences", "pcc", "mse", "parts", "gradients", "scatter", "effective", "gamma", "temperature"]
    assert list(plots) == names
    train, validation, best = plots["pcc"][0]["traces"]
    assert np.allclose(train["y"], [r["pcc"] for r in records], rtol=1e-5)
    assert train["x"] == validation["x"] == list(range(1, 61))
    assert best["y"] == [validation["y"][best["x"][0] - 1]]
    assert plots["pcc"][0]["layout"]["shapes"][0]["type"] == "rect"  # the plateau
    parts = np.array([trace["y"] for trace in plots["parts"][0]["traces"]])
    assert np.allclose(parts.sum(0), [r["mse"] for r in records], rtol=1e-5)
    assert plots["gradients"][0]["layout"]["yaxis"]["type"] == "log"
    assert sum(len(trace["x"]) for trace in plots["scatter"][0]["traces"]) == 600
    for name, key in (("effective", "effective_elements"), ("gamma", "gamma"), ("temperature", "temperature")):
        assert sum(plots[name][0]["traces"][0]["y"]) == len(attention[key])
    assert [len(view["layout"]["yaxis"]["ticktext"]) for view in plots["differences"]] == [7, 6]


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


@pytest.mark.parametrize(
    ("without", "left"),
    [
        ("monitor.json", ["error-parts", "gradient-ratio"]),
        ("predictions.csv", ["predictions"]),
        ("attention.json", ["attention", "elements"]),
        ("results.json", ["figures", "targets", "groups", "notes"]),
        ("config.json", ["rerun"]),
    ],
)
def test_a_section_without_data_is_left_out_and_named(full, tmp_path, without, left):
    write_run(tmp_path, samples=60)
    (tmp_path / without).unlink()
    page = Page(write_report(tmp_path))
    assert set(Page(full).sections) - set(page.sections) == {"comparison", *left}
    for name in left:
        title = re.search(f'<h2 id="{name}-title">(.*?)</h2>', full.read_text("utf-8")).group(1)
        assert f"{title}: " in page.sections["left-out"]


def test_a_comparison_alone_begins_with_its_sentence(tmp_path):
    page = Page(write_report(write_comparison(tmp_path)))
    sentence = json.loads((tmp_path / "comparison.json").read_text())["sentence"]
    assert sentence in page.sections["verdict"]
    assert sentence not in page.sections["comparison"]
    assert list(page.sections) == ["verdict", "figures", "comparison", "notes", "rerun"]


def test_a_run_that_diverged_or_was_interrupted_has_its_page(tmp_path):
    write_run(tmp_path, samples=60, groups=())
    attention = {"gamma": [], "temperature": [], "effective_elements": [1.0, 1.0], "elements": [3, 3], "bags": []}
    write_json(tmp_path / "attention.json", attention)
    records = json.loads((tmp_path / "monitor.json").read_text())
    records["records"].append(records["records"][-1] | {"epoch": 60, "pcc": None, "mse": float("nan")})
    write_json(tmp_path / "monitor.json", records)
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("60,nan,0.0,inf,nan,0.001\n")
    results = json.loads((tmp_path / "results.json").read_text())
    results |= {"best_epoch": None, "stopped": "diverged", "verdict": None}
    results["test"]["expression"] |= {"pcc": None, "low": None, "high": None, "mse": None}
    write_json(tmp_path / "results.json", results)
    config = json.loads((tmp_path / "config.json").read_text())
    config["data"]["path"] = None
    write_json(tmp_path / "config.json", config | {"state": "interrupted"})
    path = write_report(tmp_path)
    page = Page(path)
    assert "ran off to infinity" in page.sections["curves"]
    assert "undefined" in page.sections["figures"]
    assert "no gamma and no temperature" in page.sections["attention"]
    assert "This run was interrupted" in path.read_text("utf-8")
    assert "NaN" not in page.scripts[1]


def test_equal_folders_give_equal_pages_without_long_numbers(full, tmp_path):
    assert write_report(write_both(tmp_path)).read_bytes() == full.read_bytes()
    seen = [number for text in Page(full).texts for number in re.findall(r"[\d.,]*\d", text)]
    assert len(seen) > 500
    assert [number for number in seen if len(re.sub(r"[.,]", "", number).lstrip("0")) > 6] == []
    assert full.stat().st_size < 6e6


def test_every_verdict_has_plain_words():
    assert set(VERDICTS) == set(TEXTS) - {"cannot tell"}  # that one says why, in its own sentence


def test_what_the_monitor_writes_can_be_read(tmp_path):
    import torch

    monitor = PlateauMonitor()
    for _ in range(2):
        monitor.update(torch.randn(20), torch.randn(20))
        monitor.end_epoch()
    monitor.to_json(tmp_path / "monitor.json")
    page = Page(write_report(tmp_path))
    assert {"curves", "error-parts", "gradient-ratio"} <= set(page.sections)


# A user's words stay words.


def test_names_cannot_become_markup(hostile):
    page = Page(hostile)
    assert len(page.scripts) == 4
    tags = [tag for tag, _ in page.elements]
    assert "img" not in tags
    assert [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)] == []
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert all(link.startswith("#") for link in links)
    for name in (HOSTILE, CLOSING, IMAGE, LINK):
        assert name in page.sections["groups"]
    assert IMAGE in page.sections["notes"]
    assert page.sections["rerun"].count(HOSTILE) >= 3
    raw = hostile.read_text("utf-8")
    assert raw.count("alert(1)") > 100
    assert re.findall(r"<(?:script|img)[^>]{0,20}alert|<script>alert", raw) == []


def test_plotly_is_given_no_tags_of_others(hostile):
    ours = re.compile(r"<br>|<extra></extra>")

    def strings(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key != "name":  # set as text of a button, never given to plotly: showlegend is off
                    yield from strings(item)
        elif isinstance(value, list):
            for item in value:
                yield from strings(item)
        elif isinstance(value, str):
            yield value

    found = list(strings(Page(hostile).plots))
    assert any("&lt;script&gt;" in text for text in found)
    assert [text for text in found if "<" in ours.sub("", text)] == []


@given(st.text())
def test_json_in_a_script_comes_back_whole_and_never_ends_it(text):
    packed = str(_templates().from_string("{{ value|tojson }}").render(value={"name": text}))
    assert json.loads(packed) == {"name": text}
    assert not set(packed) & set("<>&\u2028\u2029")
    assert "<" not in plot_text(text)


def test_a_string_that_has_no_utf8_does_not_stop_the_page(tmp_path):
    write_run(tmp_path, samples=60, note="lone \ud800 surrogate")
    assert "lone ? surrogate" in Page(write_report(tmp_path)).sections["notes"]


# Files that are wrong.


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
    [broken(name, change) for name in (*FILES, "comparison.json") for change in (cut, empty)]
    + [broken(name, a_list) for name in (*FILES, "comparison.json") if name.endswith("json")]
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
    path = sample / data.draw(st.sampled_from((*FILES, "comparison.json")))
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


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50) | st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=50)
)
def test_bins_hold_every_value(values):
    edges = bin_edges(values)
    assert all(a < b for a, b in pairwise(edges))
    assert np.histogram(values, edges)[0].sum() == len(values)
    assert len(edges) <= 100
