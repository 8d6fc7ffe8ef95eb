"""Files that are wrong: named, and nothing is written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from excora.errors import InputError
from excora.report import RunRecord, page_of_run, write_report
from excora.report.records import FILES
from report.samples import broken, write_both

ALL = (*FILES, "comparison.json")


def cut(text):
    return text[: len(text) // 2].rstrip("\n")[:-1]


def empty(text):
    return ""


def a_list(text):
    return "[]"


def no_number(text):
    return re.sub(r"\d\.\d+", "NaN", text, count=1)


def word(text):
    return re.sub(r"\d\.\d+", '"high"' if text.startswith("{") else "high", text, count=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [broken(name, change) for name in ALL for change in (cut, empty)]
    + [broken(name, a_list) for name in ALL if name.endswith("json")]
    + [broken(name, no_number) for name in ("results.json", "attention.json", "comparison.json", "predictions.csv")]
    + [broken(name, word) for name in ("results.json", "monitor.json", "metrics.csv", "predictions.csv")],
)
def test_a_broken_file_is_named_and_nothing_is_written(tmp_path, name, change):
    write_both(tmp_path, samples=60)
    path = tmp_path / name
    path.write_text(change(path.read_text() if path.exists() else '{"spots": [1.5]}'))
    with pytest.raises(InputError, match=re.escape(str(path))):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_both(tmp_path_factory.mktemp("sample"), samples=20)


@settings(max_examples=50)
@given(data=st.data())
def test_whatever_becomes_of_a_file_there_is_a_page_or_an_input_error(sample, data):
    path = sample / data.draw(st.sampled_from([name for name in ALL if (sample / name).exists()]))
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 40, len(whole))))
    new = data.draw(
        st.sampled_from([b"", b"null", b"-1e999", b"NaN", b"[]", b"{}", b'"', b"\x00\xff", b"9" * 400, b",,", b"0"])
    )
    path.write_bytes(whole[:start] + new + whole[end:])
    said = path.name
    try:
        assert page_of_run(RunRecord.load(sample)).startswith("<!doctype html>")
    except InputError as error:
        said = str(error)
    finally:
        path.write_bytes(whole)
    assert path.name in said
