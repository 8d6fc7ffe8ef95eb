"""The layout of docs/design.md: who may import whom, who may touch torch.distributed, and where a test stands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import excora

SOURCE = Path(excora.__file__).parent
TESTS = Path(__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "design.md"


def layers() -> list[str]:
    """Module names in the order of the table in docs/design.md."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in row.split("|")[1].replace("`", "").replace(",", " ").split()]


def name_of(path: Path) -> str:
    """`excora.pooling.eca` belongs to `pooling`."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Excora's modules that a file imports, wherever in it; for type checkers alone does not count."""
    found, tree = set(), ast.parse(path.read_text())
    only_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in only_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "excora":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("excora."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("excora.")}
    return found


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_those_above_it(path):
    order = layers()
    me = name_of(path)
    assert me in order, f"{me} is missing from the table of {PAGE.name}"
    wrong = {other for other in imports(path) - {me} if order.index(other) > order.index(me)}
    assert wrong == set()


def test_only_reduce_touches_torch_distributed():
    assert {name_of(path) for path in FILES if "import torch.distributed" in path.read_text()} == {"reduce"}


def test_the_package_does_not_import_its_studies():
    assert [path.name for path in FILES if "excora_studies" in path.read_text()] == []


def test_a_file_can_be_read_in_one_sitting():
    assert {path.name: n for path in FILES if (n := len(path.read_text().splitlines())) > 300} == {}


MODULES = [path.relative_to(SOURCE) for path in FILES if not path.name.startswith("__")]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_a_test_of_its_name(module):
    test = TESTS / module.with_name(f"test_{module.name}")
    assert test.is_file(), f"{module} has no tests of its own: write tests/{test.relative_to(TESTS)}"
    assert "\ndef test_" in test.read_text(), f"tests/{test.relative_to(TESTS)} holds no test"
