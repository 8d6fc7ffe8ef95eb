"""The report in a real browser: it draws, sorts, switches themes, fits a phone, and asks nothing of the network."""

from __future__ import annotations

import re

import browser as browsers
import pytest

from excora.report import write_report
from report.samples import CLOSING, HOSTILE, IMAGE, LINK, SLIDES, Page, write_both, write_hostile

DRAWN = """() => [...document.querySelectorAll("figure")].map((figure) => {
  const area = figure.querySelector(".plot .nsewdrag").getBoundingClientRect();
  const kinds = ".trace .points path, .trace path.js-line, .trace.bars .point path, .fills path";
  const marks = [...figure.querySelectorAll(kinds)].map((mark) => mark.getBoundingClientRect()).filter((box) =>
    box.width + box.height > 2 && box.right > area.left && box.left < area.right && box.bottom > area.top
    && box.top < area.bottom).length;
  const words = document.getElementById(figure.querySelector(".plot").getAttribute("aria-describedby")).textContent;
  return { name: figure.id, traces: figure.querySelectorAll(".cartesianlayer .trace").length, marks, words };
})"""
CUT = """() => [...document.querySelectorAll(".plot")].flatMap((plot) => {
  const box = plot.getBoundingClientRect();
  return [...plot.querySelectorAll("svg text")].filter((text) => text.textContent).filter((text) => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 2 || own.right > box.right + 2 || own.top < box.top - 2 || own.bottom > box.bottom + 2;
  }).map((text) => text.textContent);
})"""
FITS = "() => document.scrollingElement.scrollWidth <= innerWidth"
COLUMN = """([where, column]) =>
  [...document.querySelector(`#${where} table`).tBodies[0].rows].map((row) => row.cells[column].textContent)"""
SORTS = """(where) =>
  [...document.querySelectorAll(`#${where} th[aria-sort]`)].map((cell) => cell.getAttribute("aria-sort"))"""
COLORS = """() => [["body", "backgroundColor"], ["#pcc .js-line", "stroke"], ["#pcc .ytick text", "fill"]].map(
  ([where, what]) => getComputedStyle(document.querySelector(where))[what])"""


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return write_report(write_both(tmp_path_factory.mktemp("full")))


@pytest.fixture(scope="module")
def chromium():
    with browsers.open_browser() as browser:
        yield browser


def load(chromium, path, **options):
    page = chromium.new_context(offline=True, **options).new_page()
    wrong = browsers.watch(page)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    return page, wrong


def numbers(cells):
    return [float(cell.split(" ")[0].replace("−", "-").replace(",", "")) for cell in cells if cell != "–"]


def check_drawn(page, plots):
    found = page.evaluate(DRAWN)
    assert [one["name"] for one in found] == list(plots)
    for one in found:
        assert one["traces"] == len(plots[one["name"]][0]["traces"]), one
        assert one["words"].endswith("."), one
        assert one["marks"] >= one["traces"], one
    marks = {one["name"]: one["marks"] for one in found}
    assert marks["scatter"] == sum(len(trace["x"]) for trace in plots["scatter"][0]["traces"])
    assert marks["gamma"] == sum(count > 0 for count in plots["gamma"][0]["traces"][0]["y"])


def test_hostile_names_are_text_in_the_browser_too(chromium, tmp_path):
    hostile = write_report(write_hostile(tmp_path))
    page, wrong = load(chromium, hostile, viewport={"width": 1280, "height": 900})
    check_drawn(page, Page(hostile).plots)
    assert page.locator("script").count() == 4
    assert page.locator("img, svg a, .plot b").count() == 0
    legend = page.locator("#scatter .legend button").all_text_contents()
    assert sorted(legend) == sorted([HOSTILE, CLOSING, LINK, IMAGE])
    assert page.locator("#differences .ytick text", has_text=HOSTILE[:15]).count() == 1
    page.evaluate("Plotly.Fx.hover(document.querySelector('#scatter .plot'), [{ curveNumber: 0, pointNumber: 0 }])")
    assert HOSTILE in page.locator("#scatter .hoverlayer").text_content()
    page.select_option("#scatter select", label=CLOSING)
    assert page.locator("#scatter .xtitle").text_content() == f"True {CLOSING}"
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    assert page.evaluate(FITS)
    assert page.locator("svg a").count() == 0
    assert wrong == []


def test_tables_sort_themes_switch_and_keys_work(chromium, full):
    plots = Page(full).plots
    page, wrong = load(chromium, full, viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    check_drawn(page, plots)
    light = page.evaluate(COLORS)
    assert page.evaluate(FITS)

    heads = page.locator("#groups th button")
    heads.nth(1).click()
    sizes = numbers(page.evaluate(COLUMN, ["groups", 1]))
    assert sizes == sorted(sizes)
    assert len(set(map(len, map(str, map(int, sizes))))) > 1  # so that sorting as text would differ
    assert page.evaluate(SORTS, "groups") == ["none", "ascending", "none", "none"]
    heads.nth(1).press("Enter")
    assert numbers(page.evaluate(COLUMN, ["groups", 1])) == sizes[::-1]
    assert page.evaluate(SORTS, "groups") == ["none", "descending", "none", "none"]
    heads.nth(0).click()
    assert page.evaluate(COLUMN, ["groups", 0]) == sorted(SLIDES)
    for _ in range(2):  # undefined cells stay last both ways
        page.locator("#comparison th button").nth(3).click()
        cells = page.evaluate(COLUMN, ["comparison", 3])
        assert cells[-1] == "–"
    assert numbers(cells) == sorted(numbers(cells), reverse=True)

    page.locator("#theme").click()
    dark = page.evaluate(COLORS)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    check_drawn(page, plots)
    page.locator("#theme").press("Space")
    assert page.evaluate(COLORS) == light

    button = page.locator("#pcc .legend button").first
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator("#pcc .trace").count() == len(plots["pcc"][0]["traces"]) - 1
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1
    assert page.get_by_role("img", name=re.compile("^Plot: ")).count() == len(plots)
    assert wrong == []


def test_a_phone_in_the_dark(chromium, full):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    page, wrong = load(chromium, full, color_scheme="dark", **phone)
    check_drawn(page, Page(full).plots)
    assert page.evaluate(FITS)
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(FITS)
    assert wrong == []
