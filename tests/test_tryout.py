"""Files to try commands on: the lines of README and docs/start.md find what they read, and it is sound."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from excora import tryout
from excora.data.reading import read
from excora.data.validation import validate
from excora.errors import InputError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tryout") / "try"
    told = tryout.write(made)
    assert all((made / name).exists() for name in told)
    return made


#: What a ``fit`` of the guide says of its data.
ROLES = {"--target": "target", "--group": "group", "--bag": "bag", "--labels": "labels", "--time-within": "time_within"}


def fits() -> list[str]:
    text = "\n".join((ROOT / page).read_text() for page in ("README.md", "docs/start.md"))
    lines = re.findall(r"^    (excora (?:fit|compare) .*?)(?: *#.*)?$", text, re.MULTILINE)
    return list(dict.fromkeys(lines))


@pytest.mark.parametrize("line", fits())
def test_a_line_of_the_guide_finds_its_data(line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = shlex.split(line)[2:]
    roles = {ROLES[word]: words[k + 1] for k, word in enumerate(words) if word in ROLES}
    paths = sorted(map(str, Path().glob(words[0]))) if "*" in words[0] else words[0]
    assert validate(paths, **roles).notes is not None


def test_new_data_have_the_columns_of_training_but_the_target(folder):
    for old, new, gone in (
        (pd.read_csv(folder / "table.csv"), pd.read_csv(folder / "new.csv"), {"price"}),
        (pd.read_parquet(folder / "cells.parquet"), pd.read_parquet(folder / "new.parquet"), {"survival", "patient"}),
    ):
        assert set(old) - set(new) == gone
        assert set(new) < set(old)


def test_the_answers_are_those_that_are_told(folder):
    table = pd.read_csv(folder / "table.csv")
    assert table["size"].corr(table["price"]) > 0.7
    cells = read(folder / "cells.parquet", bag="slide", target="survival", group="patient")
    features = read(folder / "features", labels=str(folder / "labels.csv"), target="survival", group="patient")
    assert len(cells) == len(features) == tryout.SLIDES


def test_nothing_is_overwritten(folder, tmp_path):
    with pytest.raises(InputError, match="not an empty folder"):
        tryout.write(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not an empty folder"):
        tryout.write(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be made"):
        tryout.write(tmp_path / "file" / "try")


def test_without_anndata_the_slides_are_left_out_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    told = tryout.write(tmp_path / "try")
    assert "pip install 'excora[spatial]'" in told["spatial"]
    assert not (tmp_path / "try" / "slides").exists()
    assert (tmp_path / "try" / "clips.pkl").exists()
