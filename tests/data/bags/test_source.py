"""The source of bags: what it claims, its deep check, its lines of the summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.bags.made import BAGS, WIDTH, N, dataset, labelled, random_bags, save
from excora.data import sources
from excora.data.preparation import Preparation
from excora.data.roles import Roles
from excora.data.validation import validate
from excora.errors import DataError, InputError


def test_what_it_claims(tmp_path):
    source = sources["bags"]
    assert source.claims(tmp_path, Roles())
    assert source.claims(Path("a.npz"), Roles())
    assert source.claims(Path("a.csv"), Roles(bag="b"))
    assert not source.claims(Path("a.csv"), Roles())
    assert not source.claims(Path("a.h5"), Roles())


def problems(path, **roles) -> list[str]:
    with pytest.raises(DataError) as caught:
        validate(path, **roles)
    return caught.value.problems


def test_a_bad_element_is_found_by_validate_and_named_when_read(folder):
    bad = BAGS[4].copy()
    bad[0, 1] = np.nan
    save(folder / "004.h5", bad)
    data = labelled(folder)
    with pytest.raises(InputError, match=r"004\.h5: element 0, feature 1 is nan"):
        Preparation.fit(data, np.arange(N))
    seen = []
    found = problems(
        folder, labels=folder.parent / "labels.csv", target="y", progress=lambda done, total: seen.append((done, total))
    )
    assert len(found) == 1
    assert "004.h5: element 0, feature 1 is nan" in found[0]
    assert seen == [(k + 1, N) for k in range(N)]
    save(folder / "004.h5", np.zeros((9, WIDTH), np.float32))
    with pytest.raises(InputError, match=r"004\.h5: expected numbers of shape \(1, 3\), got float32 of shape \(9, 3\)"):
        data.content.bags.read(N - 1 - 4)


def test_the_summary():
    data = dataset(random_bags()[0])
    width, elements = sources["bags"].describe(data, Preparation.fit(data, np.arange(30)).content)
    assert width == ("features", "4 numbers an element", {"numbers an element": 4})
    sizes = data.content.bags.lengths
    assert elements.figures == {
        "min": sizes.min(), "median": np.median(sizes), "max": sizes.max(), "total": sizes.sum()
    }  # fmt: skip
    assert elements.text.startswith(f"{sizes.min()} to {sizes.max()} a bag, median ")


def test_there_is_one_scaling():
    with pytest.raises(InputError, match="scaling of bags is standard, got 'quantile'"):
        Preparation.fit(dataset(random_bags()[0]), np.arange(30), scaling="quantile")
