"""The public names: frozen signatures, what a torch-only environment can import, what the command line leaves alone.

A deliberate change of the API: ``python tests/test_api.py > tests/api.txt``, and a line in CHANGELOG.md.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import excora

SNAPSHOT = Path(__file__).with_name("api.txt")
NEEDS_APP = {  # excora[app]: torchmetrics, Lightning, pandas, scikit-learn
    "PearsonCorrelation", "ConcordanceCorrelation", "CorrelationSummary", "fit", "predict", "Run", "validate",
    "compare", "TabularRegressor", "BagRegressor", "TabularEnsemble", "pearson_scorer",
}  # fmt: skip
CORE = sorted(set(excora.__all__) - NEEDS_APP - {"__version__"})


def api() -> Iterator[str]:
    """One line a public callable: its name and signature, and those of the public methods it defines itself."""
    for name in sorted(excora.__all__):
        thing = getattr(excora, name)
        if not callable(thing):
            continue
        yield f"{name}{inspect.signature(thing)}"
        if not inspect.isclass(thing):
            continue
        for method, value in sorted(vars(thing).items()):
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}{inspect.signature(function)}"


def test_the_public_signatures_are_those_of_the_snapshot():
    assert list(api()) == SNAPSHOT.read_text().splitlines()


def test_unknown_names_are_refused_and_all_are_listed():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = excora.nonsense
    assert set(excora.__all__) <= set(dir(excora))


def closure(package: str) -> set[str]:
    """The distributions that a package needs, without its extras."""
    found, todo = set(), [package]
    while todo:
        name = todo.pop()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # a requirement for another platform
        if distribution.name in found:
            continue
        found.add(distribution.name)
        needs = [need for need in distribution.requires or [] if "extra ==" not in need]
        todo += [re.match(r"[\w.-]+", need).group() for need in needs]
    return found


def run_in(path: list[str], code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    run = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def torch_only(tmp_path_factory):
    """A folder with torch, numpy and what they need, and nothing else of site-packages."""
    folder = tmp_path_factory.mktemp("site")
    for name in closure("torch") | closure("numpy"):
        for file in importlib.metadata.distribution(name).files:
            top = file.parts[0]
            if top != ".." and not (folder / top).exists():
                (folder / top).symlink_to(Path(importlib.metadata.distribution(name).locate_file(top)))
    return [str(Path(excora.__file__).parents[1]), str(folder)]


def test_a_torch_only_environment_imports_every_core_name(torch_only):
    code = f"""
import json, sys, excora
for name in {CORE}:
    getattr(excora, name)
try:
    excora.PearsonCorrelation
except ImportError as error:
    message = str(error)
heavy = [m for m in ("torchmetrics", "lightning", "pandas", "scipy", "typer", "torchmil") if m in sys.modules]
print(json.dumps([message, heavy]))
"""
    message, heavy = json.loads(run_in(torch_only, code))
    assert "excora[app]" in message
    assert heavy == []


def test_the_command_line_without_its_extra_names_it(torch_only):
    code = """
try:
    import excora.cli
except ImportError as error:
    print(error)
"""
    assert "excora[app]" in run_in(torch_only, code)


def test_importing_the_command_line_leaves_torch_alone():
    code = "import sys, excora.cli; print([m for m in ('torch', 'sklearn', 'lightning') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def modules() -> list[str]:
    found = pkgutil.walk_packages(excora.__path__, "excora.")
    return sorted(module.name for module in found)


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_the_docstrings_run(name):
    module = importlib.import_module(name)
    names = {"torch": importlib.import_module("torch"), "nn": importlib.import_module("torch.nn")}
    importlib.import_module("torch").manual_seed(0)
    assert doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


if __name__ == "__main__":
    print("\n".join(api()))
