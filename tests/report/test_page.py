"""The page: what it says, and that a user's words stay words."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.report import RunRecord, write_report
from excora.report.page import _templates
from excora.report.plots import plot_text
from excora.report.words import VERDICTS
from report.samples import CLOSING, HOSTILE, IMAGE, LINK, Page, shown, write_both, write_json, write_run

TEMPLATES = files("excora.report").joinpath("templates")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return write_report(write_both(tmp_path_factory.mktemp("full")))


def test_a_full_folder_gives_every_section(full):
    page = Page(full)
    expected = ["verdict", "figures", "comparison", "curves", "error-parts", "gradient-ratio", "predictions", "targets",
                "groups", "attention", "collapse", "elements", "notes", "rerun"]  # fmt: skip
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
    names = [
        "by-fold",
        "differences",
        "pcc",
        "mse",
        "parts",
        "gradients",
        "scatter",
        "effective",
        "gamma",
        "temperature",
        "mean-cosine",
    ]
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
    sizes = [len(view["layout"]["yaxis"]["ticktext"]) for view in plots["differences"]]
    assert sorted(sizes) == [2] * 6 + [7, 7]  # every pair from either side


@pytest.mark.parametrize(
    ("without", "left"),
    [
        ("monitor.json", ["error-parts", "gradient-ratio", "collapse"]),
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


def test_no_template_turns_escaping_off():
    templates = list(TEMPLATES.iterdir())
    assert len(templates) > 10
    assert [one.name for one in templates if re.search("safe|autoescape", one.read_text("utf-8"))] == []


@given(st.text())
def test_json_in_a_script_comes_back_whole_and_never_ends_it(text):
    packed = str(_templates().from_string("{{ value|tojson }}").render(value={"name": text}))
    assert json.loads(packed) == {"name": text}
    assert not set(packed) & set("<>&\u2028\u2029")
    assert "<" not in plot_text(text)


def test_a_string_that_has_no_utf8_does_not_stop_the_page(tmp_path):
    write_run(tmp_path, samples=60, note="lone \ud800 surrogate")
    assert "lone ? surrogate" in Page(write_report(tmp_path)).sections["notes"]


def test_a_model_without_a_pool_or_a_monitor_has_its_page(content, tmp_path):
    page = shown(RunRecord.of(**(content | {"attention": None, "monitor": ()})), tmp_path)
    assert {"curves", "predictions"} <= set(page.sections)
    assert not {"attention", "elements", "error-parts"} & set(page.sections)
    assert "this model weighs no elements" in page.sections["left-out"]


def test_nothing_is_a_page_too(tmp_path):
    page = shown(RunRecord(), tmp_path)
    assert list(page.sections) == ["verdict", "left-out"]
    assert not re.search(r"\.(json|csv)\b", page.sections["left-out"]), "no reader knows our files"
    assert page.plots == {}


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing to report"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        write_report(tmp_path / "none")
