"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from application.samples import COPIED, ROLES, TINY, table
from excora.application import fit


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """A folder with data.csv and the run that was fitted on it."""
    folder = tmp_path_factory.mktemp("home")
    table().to_csv(folder / "data.csv", index=False)
    fit(folder / "data.csv", output=folder / "run", settings=TINY, progress=False, **ROLES)
    return folder


@pytest.fixture
def copy(home, tmp_path) -> Path:
    """The run folder without its report, to be spoilt."""
    for name in COPIED:
        shutil.copy(home / "run" / name, tmp_path)
    shutil.copytree(home / "run" / "checkpoints", tmp_path / "checkpoints")
    return tmp_path
