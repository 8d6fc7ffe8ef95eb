"""The door of the sources: one file from outside is read, validated and prepared like those of the package."""

from __future__ import annotations

import json

import numpy as np
import pytest

from data.toy_source import LineSource, LineSpec, register
from excora.data import sources
from excora.data.preparation import Preparation
from excora.data.reading import read, source_of
from excora.data.roles import Roles
from excora.data.validation import validate
from excora.errors import DataError, InputError

TEXT = "# lines\n" + "".join(f"{k}\t{'a' * k}b\n" for k in range(9)) + "\tno label\n"


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setattr(sources, "_things", {name: sources[name] for name in sources})
    register()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)  # tables are known by such a name: it has looked inside, and is asked first
    return tmp_path / "a.csv"


def test_a_source_from_outside(path):
    data = read(path, target="length")
    assert (data.kind, len(data), data.notes) == ("lines", 9, ("1 of 10 lines has no label and is left out",))
    prepared = Preparation.fit(data, np.arange(6))
    assert prepared.spec == LineSpec(targets=1, width=2)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again == prepared
    assert again.features(data).read(np.array([8]))["counts"].tolist() == [[8, 1]]
    assert again.examine(data).outside.tolist() == [0] * 9
    assert (again.element_names, again.notes) == (None, ())
    summary = validate(path, target="length")
    assert (summary.kind, summary.samples, summary.content) == ("lines", 9, ())
    assert "9 lines" in str(summary)


def test_a_role_that_it_does_not_know(path):
    with pytest.raises(DataError, match=r"a\.csv: group= has no meaning here, for the source of this file is 'lines'"):
        read(path, target="y", group="g")


def test_two_that_claim_one_path(path):
    class Again(LineSource):
        kind = "again"

    sources.register("again", Again())
    with pytest.raises(InputError, match="the sources 'lines' and 'again' both claim it"):
        source_of(path, Roles())


def test_nobody_claims(tmp_path):
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(DataError, match=r"expected .*; or a text file that starts with # lines; got 'a.txt'"):
        read(tmp_path / "a.txt")
