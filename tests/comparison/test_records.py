"""The runs of a comparison on disk: only those of the same comparison are taken, and broken ones are named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparison.samples import quick, table
from excora.comparison import records
from excora.comparison.records import Store
from excora.errors import InputError
from excora.settings import Settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": Settings(criterion="mse")}, "criterion was 'joint' and is 'mse'"),
        ({"folds": 2}, "the data, their roles or the number of folds"),
        ({"data": table(seed=1)}, "the data, their roles"),
    ],
    ids=["settings", "folds", "data"],
)
def test_other_runs_are_not_taken_for_these(tmp_path, change, message):
    quick(table(), output=tmp_path, seeds=1)
    with pytest.raises(InputError, match=message):
        quick(**{"data": table()} | change, output=tmp_path, seeds=1, resume=True)


@given(st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b"[" * 100_000, b'{"settings": 3}']))
def test_a_broken_run_file_is_named(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("broken")
    store = Store(folder, resume=True)
    path = store.parts.path("ridge-0-0")
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"ridge-0-0\.json"):
        store.load("ridge", 0, 0, "mark", (3, 1), {})


def test_a_run_file_with_other_predictions_is_refused(tmp_path):
    quick(table(), output=tmp_path, seeds=1)
    path = tmp_path / "runs" / "ridge-0-0.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"prediction": content["prediction"][1:]}))
    with pytest.raises(InputError, match="must hold 20 x 1 finite predictions"):
        quick(table(), output=tmp_path, seeds=1, resume=True)


def test_an_option_that_is_younger_than_the_file_was_at_its_default():
    old = records._defaults({"model": "pool"})
    assert (old["moments"], old["pool_heads"]) == ("attended", 1)
    assert records._defaults({"criterion": "mse"}) == {}
