"""README and docs: their Python examples run, and the links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import table
from excora.models import models
from excora.pooling import pools
from excora.report.sections import SECTIONS
from excora.training import trainer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_names_the_two_commands():
    text = PAGES[0].read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_page_of_speed_shows_the_benchmarks_on_file():
    assert table() in (ROOT / "docs" / "speed.md").read_text()


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


# distributed.md needs ranks: test_reduce.py runs it.
@pytest.mark.parametrize("page", [p for p in PAGES if examples(p) and p.name != "distributed.md"], ids=lambda p: p.name)
def test_python_examples_run(page, monkeypatch):
    for registry in (models, pools, SECTIONS):  # what an example registers is not there for other tests
        registry.names()
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    regression = trainer._regression

    def short(network, rows, split, recipe, machine):  # what is shown is how to call it, not how well it does
        return regression(network, rows, split, dataclasses.replace(recipe, epochs=min(recipe.epochs, 4)), machine)

    monkeypatch.setattr(trainer, "_regression", short)
    names: dict[str, object] = {}
    for block in examples(page):
        exec(compile(block, page.name, "exec"), names)
    assert len(names) > 1  # the builtins, and what the examples define


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
