"""Genes and their scale, against the formulas."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from data.spatial.made import GENES, Made
from excora.data.spatial.genes import Expression, asked, check_names, columns, largest, unified
from excora.data.spatial.slide import Slide
from excora.errors import InputError


def slide(made: Made, **changes) -> Slide:
    found = Slide(made.name, np.array(made.barcodes, object), made.coords, GENES, csr_matrix(made.counts))
    return replace(found, **changes)


@pytest.fixture
def two():
    return [slide(Made(0, name="a")), slide(Made(1, name="b"))]


SLIDE_OF, SPOT_OF = np.repeat([0, 1], 20), np.tile(np.arange(20), 2)


def test_log1p_of_counts_per_ten_thousand(two):
    found = Expression(("ERBB2", "ACTB")).of(two, SLIDE_OF, SPOT_OF)
    counts = np.concatenate([one.counts.toarray() for one in two]).astype(float)
    wanted = np.log(1 + 1e4 * counts[:, [2, 0]] / counts.sum(1, keepdims=True))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_published_scale(two):
    train = np.arange(20)
    found = Expression(("ERBB2",), "minmax").fitted(two, SLIDE_OF[train], SPOT_OF[train])
    logs = np.log10(1 + np.concatenate([one.counts.toarray()[:, 2] for one in two]))
    low, high = logs[:20].min(), logs[:20].max()
    wanted = (logs - low) / (high - low + 1e-8)
    np.testing.assert_allclose(found.of(two, SLIDE_OF, SPOT_OF)[:, 0], wanted, rtol=1e-6)
    again = Expression.from_dict(json.loads(json.dumps(asdict(found))))
    assert again == found
    for wrong in ({"scale": "x"}, {"low": [1.0, 2.0]}, {"genes": 5}):
        with pytest.raises((ValueError, TypeError)):
            Expression.from_dict(asdict(found) | wrong)


def test_a_spot_without_counts_is_unknown(two):
    counts = two[0].counts.toarray()
    counts[3] = 0
    bare = replace(two[0], counts=csr_matrix(counts))
    found = Expression(GENES).of([bare], np.zeros(20, int), np.arange(20))
    assert np.isnan(found).all(1).nonzero()[0].tolist() == [3]
    assert np.isfinite(
        Expression(GENES, "minmax", (0.0,) * 5, (1.0,) * 5).of([bare], np.zeros(20, int), np.arange(20))
    ).all()


def test_a_gene_that_a_slide_lacks(two):
    panel = replace(two[1], genes=("ACTB", "X", "Y", "Z", "W"))
    assert np.isnan(columns(panel, ["ERBB2"])).all()
    assert (columns(replace(panel, complete=False), ["ERBB2"]) == 0).all()
    found = Expression(("ERBB2",)).of([two[0], panel], SLIDE_OF, SPOT_OF)
    assert np.isnan(found[:, 0]).tolist() == [False] * 20 + [True] * 20


def test_the_largest_means_of_these_spots_alone(two):
    assert largest(two, SLIDE_OF, SPOT_OF, 2) == ("ERBB2", "MALAT1")
    counts = two[1].counts.toarray()
    counts[:, 0] = 1000 + np.arange(20)
    other = [two[0], replace(two[1], counts=csr_matrix(counts))]
    assert largest(other, SLIDE_OF, SPOT_OF, 1) == ("ACTB",)
    train = SLIDE_OF == 0
    assert largest(other, SLIDE_OF[train], SPOT_OF[train], 2) == ("ERBB2", "MALAT1"), "the held-out slide is not seen"


def test_of_equal_means_the_later_name_and_no_constants():
    counts = np.array([[0, 2, 2, 9], [4, 2, 2, 9], [2, 0, 2, 9], [2, 4, 2, 9]], float)
    one = Slide("a", np.arange(4).astype(object), np.zeros((4, 2)), ("c", "b", "a", "d"), csr_matrix(counts))
    assert largest([one], np.zeros(4, int), np.arange(4), 1) == ("c",)
    assert largest([one], np.zeros(4, int), np.arange(4), 9) == ("b", "c")
    with pytest.raises(InputError, match="no gene changes"):
        largest([one], np.zeros(1, int), np.arange(1), 3)


def test_what_genes_says(tmp_path):
    (tmp_path / "list.txt").write_text("ERBB2\nKRT8\n")
    assert asked(str(tmp_path / "list.txt")) == (2, False, ("ERBB2", "KRT8"))
    (tmp_path / "twice.txt").write_text("A\nA\n")
    for wrong in ("0", "some:5", "absent.txt", str(tmp_path / "twice.txt")):
        with pytest.raises(InputError, match=r"genes= is a number|each once"):
            asked(wrong)


def test_ensembl_ids_become_symbols(two):
    ids = tuple(f"ENSG{k:011d}.3" for k in range(5))
    meaning = {f"ENSG{k:011d}": GENES[k] for k in range(4)} | {"ENSG00000000004": "ACTB"}
    first, second = unified([replace(two[0], genes=ids), two[1]], meaning)
    assert first.genes == ("ACTB", "CD3E", "ERBB2", "KRT8", "ACTB-1")
    assert second.genes == GENES


def test_names_that_no_slide_has(two):
    problems: list[str] = []
    check_names(two, ["erbb2", "KRT8", "XYZ"], problems)
    assert problems == [
        "gene 'erbb2' is in none of the slides; did you mean 'ERBB2'?", "gene 'XYZ' is in none of the slides"
    ]  # fmt: skip
    problems.clear()
    check_names(two, [f"XYZ{k}" for k in range(9)], problems)
    assert problems[-1] == "4 more genes are in none of the slides"
