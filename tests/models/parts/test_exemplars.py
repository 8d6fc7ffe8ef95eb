"""Exemplars: exact, of other slides, kept on disk."""

from __future__ import annotations

import numpy as np
import pytest
import samples_data
import torch

from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.models import Samples
from excora.models.parts import exemplars
from excora.models.parts.exemplars import Exemplars

TRAIN = np.arange(40)


@pytest.fixture(scope="module")
def samples():
    data = samples_data.spatial(targets=2)
    prepared = Preparation.fit(data, TRAIN, elements="none", feature=True, window=4)
    target = prepared.scale(data.target)
    target[3, 1] = np.nan
    return Samples(prepared.features(data), target, TRAIN)


@pytest.fixture
def bank(samples):
    found = Exemplars(40, 6, 2)
    found.remember(samples)
    return found


def test_they_are_the_nearest_of_other_slides(samples, bank):
    features = bank.look_up(samples.features, 5)
    every = samples.features.read(np.arange(70))
    x, slide = every["feature"].double(), every["slide"]
    distance = torch.cdist(x, x[TRAIN])
    distance[slide[:, None] == slide[TRAIN][None]] = torch.inf
    wanted = distance.sort(dim=1, stable=True)
    inputs = features.read(np.array([50, 2]))
    assert inputs["exemplar_mask"].all()
    for row, sample in enumerate((50, 2)):
        places = wanted.indices[sample, :5]
        torch.testing.assert_close(inputs["exemplar_features"][row], every["feature"][places])
        labels = torch.from_numpy(np.nan_to_num(samples.target[places]))
        torch.testing.assert_close(inputs["exemplar_targets"][row], labels)
    assert "window" in inputs


def test_none_is_of_the_own_slide_however_many_are_asked_for(samples, bank):
    inputs = bank.look_up(samples.features, 40).read(np.arange(70))
    every = samples.features.read(np.arange(70))["slide"]
    others = (every[:, None] != every[TRAIN][None]).sum(1)
    assert inputs["exemplar_mask"].sum(1).tolist() == others.tolist()
    assert not inputs["exemplar_targets"][~inputs["exemplar_mask"]].any()


def test_what_was_found_is_kept(samples, bank, monkeypatch, tmp_path):
    monkeypatch.setenv("EXCORA_CACHE", str(tmp_path))
    first = bank.look_up(samples.features, 3)
    (file,) = (tmp_path / "exemplars").iterdir()
    monkeypatch.setattr(exemplars, "Search", None)
    again = bank.look_up(samples.features, 3)
    assert torch.equal(first.found, again.found)
    before = bank.feature.clone()
    bank.feature[0, 0] += 1  # other content is another file
    with pytest.raises(TypeError):
        bank.look_up(samples.features, 3)
    bank.feature.copy_(before)
    file.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not readable as exemplars"):
        bank.look_up(samples.features, 3)


def test_what_cannot_be(samples, bank):
    with pytest.raises(InputError, match="cannot hold"):
        Exemplars(39, 6, 2).remember(samples)
    one = torch.full_like(bank.slide, 7)
    bank.slide.copy_(one)
    features = samples.features

    class Alone:
        sizes = features.sizes

        def read(self, index):
            found = features.light().read(index)
            return found | {"slide": torch.full((len(index),), 7)}

    with pytest.raises(InputError, match="exemplars come from other slides"):
        bank.look_up(Alone(), 3)

    class Blind(Alone):
        def read(self, index):
            return {"slide": torch.zeros(len(index))}

    with pytest.raises(InputError, match="feature=True"):
        bank.look_up(Blind(), 3)
