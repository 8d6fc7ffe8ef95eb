"""The wheel and the sdist: built, installed beside the environment's packages, and used with no repository around."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from checks.lowest import TESTS, bounds

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long  # they share what is built


def call(command, folder, **environment):
    """What a command prints; its output is the message of a failure."""
    kept = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1", "EXCORA_COMPILED": "0", **environment}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    call([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder with the wheel unpacked as pip does it: first on the path, before the editable installation."""
    folder = tmp_path_factory.mktemp("site")
    call([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, built[0]], folder)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(built[0]).namelist()
    assert all(name.startswith(("excora/", "excora-")) for name in names)
    assert {"excora/py.typed", "excora/cli/declared.json", "excora/report/page.css"} <= set(names)
    assert any(name.startswith("excora/report/templates/") for name in names)


def test_the_sdist_can_be_built_from(built):
    with tarfile.open(built[1]) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/excora/__init__.py"} <= names


#: One interpreter for all commands: what takes seconds is to import the packages.
COMMANDS = """
import sys
import excora
from excora.cli import main
print(excora.__file__)
for command in sys.argv[1:]:
    words = command.split()
    print("$", words[0])
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""


def test_an_installed_one_fits_predicts_and_compares(installed, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    pd.DataFrame(x, columns=["a", "b"]).assign(y=x.sum(1)).to_csv(tmp_path / "t.csv", index=False)
    commands = [
        "demo --files try",
        "demo --output demo --seeds 1 --bags 40 --epochs 2",
        "fit --model pool --help",
        "fit t.csv --target y --output run --model pool --start ridge --epochs 1",
        "predict run t.csv --output p.csv",
        "compare t.csv --target y --models ridge,mean --output c",
    ]
    shown = call([sys.executable, "-c", COMMANDS, *commands], tmp_path, PYTHONPATH=str(installed))
    assert str(installed) in shown.splitlines()[0]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "demo" / "beyond" / "report.html").is_file()
    assert (tmp_path / "try" / "cells.parquet").is_file()
    found = pd.read_csv(tmp_path / "p.csv")
    assert np.corrcoef(found["prediction"], x.sum(1))[0, 1] > 0.9
    assert "ridge" in shown.split("$ compare")[1]


def test_every_lower_bound_can_be_installed_as_a_pin():
    pins = bounds()
    assert {"torch==2.8", "numpy==1.26"} <= set(pins)
    assert all(pin.count("==") == 1 and not set(pin) & set("<>!,") for pin in pins)
    assert len({pin.split("==")[0] for pin in pins}) == len(pins)
    assert all((ROOT / path).exists() for path in TESTS)


def test_every_message_of_a_missing_package_names_an_extra_that_has_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        extra: {re.split(r"[><=\[]", item)[0].lower() for item in items}
        for extra, items in project["optional-dependencies"].items()
    }
    named: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for package, extra in re.findall(r'raise MissingExtraError\((.+), "(\w+)"\)', path.read_text()):
            named.setdefault(extra, set()).add(package.strip('"').removesuffix("-cpu"))
    assert set(named) <= set(extras)
    # Without "fast" everything works, slower; what "export" brings is asked for by torch itself.
    assert set(named) == {"app", "compare", "index", "tensorboard", "spatial", "sentiment"}
    for extra, packages in named.items():
        fixed = {package.lower() for package in packages if "(" not in package}
        assert fixed <= {name.removesuffix("-cpu") for name in extras[extra]}, extra


def test_the_application_comes_with_the_compiled_form_and_its_pin():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["fast"]) <= set(extras["app"])
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {item.split(">=")[0] for item in extras["fast"]} <= pinned
