"""The one checker: it takes a value or says what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.report import write_report
from excora.report.checking import build
from excora.report.parts import Score
from report.samples import write_both, write_json


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_the_checker_takes_any_value_or_says_what_is_wrong(value):
    for kind in (int, float, str, bool, float | None, list[float], dict[str, int | None], Score):
        said = "here: "
        try:
            build(kind, value, "here")
        except InputError as error:
            said = str(error)
        assert said.startswith("here: ")


@pytest.mark.parametrize(
    ("name", "key"),
    [("results.json", "test"), ("results.json", "counts"), ("config.json", "rerun"), ("monitor.json", "records"),
     ("attention.json", "gamma"), ("comparison.json", "pairs")],
)  # fmt: skip
def test_a_missing_key_is_named(tmp_path, name, key):
    write_both(tmp_path, samples=60)
    content = json.loads((tmp_path / name).read_text())
    del content[key]
    write_json(tmp_path / name, content)
    with pytest.raises(InputError, match=f"{name}.*must have '{key}'"):
        write_report(tmp_path)
