"""The studies as the command line meets them: entry points, what listing them loads, a study run by its name."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

import excora_studies
from excora import cli
from excora.errors import InputError
from excora_studies import STUDIES, reproduce

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
HEAVY = "{'torch', 'numpy', 'pandas', 'matplotlib', 'sklearn'} & set(sys.modules)"


def test_every_study_is_an_entry_point() -> None:
    declared = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["excora.studies"]
    assert {name: EntryPoint(name, value, "").load() for name, value in declared.items()} == STUDIES
    found = {entry.name: entry.load() for entry in entry_points(group="excora.studies")}
    assert found == STUDIES, "install them: pip install --no-deps --editable ./studies"


def test_listing_the_studies_loads_nothing_heavy() -> None:
    code = f"""
import sys
from excora.cli import reproduce
print(len([entry.load().summary for entry in reproduce.installed().values()]), {HEAVY})
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [str(len(STUDIES)), "set()"]


def test_the_help_lists_them() -> None:
    result = CliRunner().invoke(cli.application(["reproduce"]), ["reproduce", "--help"], env={"COLUMNS": "200"})
    for name, entry in STUDIES.items():
        assert f"{name}: {entry.summary}" in result.output


def test_wrong_arguments_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be one of synthetic, gradients"):
        reproduce("nothing", tmp_path)
    with pytest.raises(InputError, match="at least 1, got 0"):
        reproduce("grid", tmp_path, seeds=0)


def test_reproduce_runs_a_study_and_shows_the_papers_column(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli.application(["reproduce"]),
        ["reproduce", "gradients", "--preset", "quick", "--output", str(tmp_path / "out")],
    )
    assert result.exit_code == 0, result.output
    assert {"results.json", "table.csv", "figures.html"} <= {file.name for file in (tmp_path / "out").iterdir()}
    assert "paper" in (tmp_path / "out" / "table.csv").read_text().splitlines()[0]
    again = CliRunner().invoke(
        cli.application(["reproduce"]),
        ["reproduce", "gradients", "--preset", "quick", "--output", str(tmp_path / "out"), "--json"],
    )
    assert json.loads(again.output)["table"] == json.loads((tmp_path / "out" / "results.json").read_text())["table"]


@pytest.mark.parametrize(
    "name", sorted(module.name for module in pkgutil.walk_packages(excora_studies.__path__, "excora_studies."))
)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
