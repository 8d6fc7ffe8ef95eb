"""The copy of the models' declarations that the help reads: it is true, it is quick to read, and plug-ins are asked."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

from excora.cli import declared, options
from excora.models import models
from excora.settings import Recipe


def process(code: str) -> str:
    """What it prints; models of other tests are not there."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_file_is_what_the_models_declare():
    code = "from excora.cli.declared import *\nprint(as_text(from_registries()) == FILE.read_text(encoding='utf-8'))"
    assert process(code) == "True\n", "an option has changed: python -m checks.declared"


def test_the_file_reads_as_what_it_was_written_from(tmp_path):
    written = declared.Declarations(
        {"toy": declared.Kind((declared.Declared("a", "int", "3", "“How” many.", ("x",), 0),), ("p",), {"clip": "1"})},
        (declared.Declared("b", "str", "", "B."),),
        (),
    )
    file = tmp_path / "declared.json"
    file.write_text(declared.as_text(written), encoding="utf-8")
    assert declared.from_file(file) == written


def test_registries_give_every_model_and_the_recipe():
    found = declared.from_registries()
    assert tuple(found.models) == models.names()
    assert found.models["pool"].names() == set(models["pool"].Options.names())
    assert [option.name for option in found.recipe] == list(Recipe.names())
    epochs = next(option for option in found.recipe if option.name == "epochs")
    assert epochs == declared.Declared("epochs", "int", "100", "Most passes over the training part.", (), 1)


LINES = ["fit --help", "compare --help", "fit --model egn --help", "compare --all --help", "tune --help"]


@pytest.mark.parametrize("line", LINES)
def test_the_help_of_a_command_loads_neither_torch_nor_pandas(line):
    code = f"import sys\nfrom excora.cli import main\ntry:\n    main({line.split()!r})\nexcept SystemExit:\n    pass\n"
    heavy = "print(sorted({'torch', 'pandas', 'lightning', 'sklearn', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + heavy], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Usage: excora" in done.stdout


def test_a_shell_completes_without_torch(monkeypatch):
    monkeypatch.setenv("_EXCORA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "excora fit --corr")
    monkeypatch.setenv("COMP_CWORD", "2")
    code = "import sys\nfrom excora.cli import main\ntry:\n    main([])\nexcept SystemExit:\n    pass\n"
    found = process(code + "print('torch' in sys.modules)").split()
    assert found == ["--correlation", "--correlation-weight", "False"]


def test_a_package_that_adds_a_model_is_asked(monkeypatch):
    entry = importlib.metadata.EntryPoint("x", "x:x", "excora.models")
    monkeypatch.delitem(sys.modules, "excora.models")
    monkeypatch.setattr(declared, "from_registries", lambda: "registries")
    assert declared.declarations(help_only=True) == declared.from_file()
    assert declared.declarations(help_only=False) == "registries"
    every = importlib.metadata.EntryPoints([entry])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: every)
    assert declared.declarations(help_only=True) == "registries"


def test_a_process_that_has_the_models_asks_them():
    assert tuple(declared.declarations(help_only=True).models) == models.names()


def test_the_kinds_are_those_that_the_command_line_knows():
    found = json.loads(declared.FILE.read_text(encoding="utf-8"))
    every = [*found["recipe"], *found["machine"], *(o for kind in found["models"].values() for o in kind["options"])]
    assert {option["kind"] for option in every} <= set(options._KINDS)
