"""What the pools did with the test samples."""

from __future__ import annotations

from excora.report import write_report
from report.samples import HOSTILE, Page, write_json, write_run


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
