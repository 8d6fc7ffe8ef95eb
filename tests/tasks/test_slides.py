"""The planted slides: the closed forms, the files, and what neighbours add."""

from __future__ import annotations

import numpy as np
import pytest

from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.errors import InputError
from excora.stats.correlation import pearson
from excora.stats.ridge import RidgePath
from excora.tasks.slides import PITCH, PLANTED, RIM, SlideTask


def corr(a, b) -> float:
    return float(pearson(np.asarray(a, float).ravel(), np.asarray(b, float).ravel())[0])


def test_the_own_patches_have_their_closed_form():
    task = SlideTask()
    patches, gene = task.sample(20_000, seed=1)
    assert float(gene.std()) == pytest.approx(1.0, abs=0.02)
    assert corr(patches.mean(1) @ task.direction().float(), gene) == pytest.approx(task.bayes_pcc, abs=0.01)


def test_the_whole_slide_says_more_and_its_best_is_known():
    task = SlideTask(rows=6, columns=5)
    k = task.covariance()
    weight = k @ np.linalg.inv(k + task.noise**2 / task.elements * np.eye(len(k)))
    found, genes = [], []
    for seed in range(400):
        _, patches, gene = task.slide(seed)
        found.append(weight @ (patches.mean(1) @ task.direction().numpy()))
        genes.append(gene)
    assert corr(found, genes) == pytest.approx(task.slide_pcc, abs=0.015)
    assert task.slide_pcc > task.bayes_pcc + 0.1


def test_the_field_has_its_covariance():
    task = SlideTask(rows=3, columns=2)
    field = np.stack([task.slide(seed)[0] for seed in range(3000)])
    np.testing.assert_allclose(np.cov(field.T), task.covariance(), atol=0.1)


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    return SlideTask().write(tmp_path_factory.mktemp("slides"), slides=4)


def test_files_are_what_the_source_reads(slides):
    task = SlideTask()
    found = read(slides, target=[PLANTED])
    assert len(found) == 4 * 108
    assert not [note for note in found.notes if "swapped" in note]
    _, patches, gene = task.slide(2)
    here = found.content.slide_of == 2
    np.testing.assert_allclose(found.target[here, 0], 8 + gene, rtol=1e-6)
    vectors = found.content.slides[2].vectors
    np.testing.assert_allclose(vectors.take(np.arange(108), grid=True)[0].reshape(patches.shape), patches, rtol=1e-5)
    np.testing.assert_array_equal(found.content.slides[2].coords[10], RIM + PITCH * (np.array([1, 1]) + 0.5))


def test_neighbours_help_a_ridge_towards_the_best(slides):
    task, data = SlideTask(), read(slides, target=[PLANTED])
    train, test = (np.flatnonzero((data.content.slide_of == 3) == held) for held in (False, True))
    reached = []
    for neighbours in (0, 8):
        known = Preparation.fit(data, train, elements="features", neighbours=neighbours)
        x = known.spec.summarise(known.features(data).read(np.arange(len(data)))).double().numpy()
        fit = RidgePath(x[train], data.target[train]).at(10.0)
        reached.append(corr(fit.predict(x[test]), data.target[test]))
    assert reached[0] < reached[1] - 0.05
    assert reached[1] < task.slide_pcc + 0.1


def test_there_is_a_slide():
    with pytest.raises(InputError, match="slides must be 1 or more, got 0"):
        SlideTask().write("nowhere", slides=0)
