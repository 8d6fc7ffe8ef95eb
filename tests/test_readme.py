"""README and docs: their Python examples run, and the links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import in_page, in_readme
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


@pytest.mark.parametrize(
    ("page", "put", "figures"),
    [("docs/speed.md", in_page, r"\d\.\d\d(?=(\*\*)? [/|] )"), ("README.md", in_readme, r"(?<=e )\d\.\d-\d\.\d")],
)
def test_speed_is_what_the_benchmarks_on_file_say(page, put, figures):
    """Else: python -m benchmarks --write."""
    text = (ROOT / page).read_text()
    blurred = re.sub(figures, "9.99" if page != "README.md" else "9.9-9.9", text)
    assert blurred != text
    assert put(blurred) == text


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
