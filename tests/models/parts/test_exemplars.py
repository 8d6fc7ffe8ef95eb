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


# Re-ranked.


@pytest.fixture
def ranked(samples):
    torch.manual_seed(0)
    found = Exemplars(40, 6, 2, rerank=4)
    found.remember(samples)
    found.learn(seed=0)
    return found


def test_they_are_some_of_the_nearest_of_other_slides(samples, bank, ranked):
    plain = bank.look_up(samples.features, 12)  # three times as many
    best = ranked.look_up(samples.features, 4)
    assert best.found.shape == (70, 4)
    assert best.allowed.all()
    assert (best.found.unsqueeze(2) == plain.found.unsqueeze(1)).any(2).all()
    assert not torch.equal(best.found, plain.found[:, :4])
    every = samples.features.read(np.arange(70))["slide"]
    assert not (every[:, None] == every[TRAIN][best.found]).any()


def test_none_is_of_the_own_slide_where_there_are_too_few(samples):
    bank = Exemplars(40, 6, 2, rerank=30)
    bank.remember(samples)
    bank.learn(seed=0)
    found = bank.look_up(samples.features, 30)
    every = samples.features.read(np.arange(70))["slide"]
    others = (every[:, None] != every[TRAIN][None]).sum(1)
    assert found.allowed.sum(1).tolist() == others.clamp(max=30).tolist()
    assert not ((every[:, None] == every[TRAIN][found.found]) & found.allowed).any()


def test_the_order_of_the_bank_and_of_the_spots_does_not_count(samples, ranked):
    places, spots = torch.randperm(40), torch.randperm(70)
    other = Exemplars(40, 6, 2, rerank=4)
    other.load_state_dict(ranked.state_dict())
    for name in ("feature", "target", "slide"):
        getattr(other, name).copy_(getattr(ranked, name)[places])
    first, second = ranked.look_up(samples.features, 4), other.look_up(samples.features, 4)
    assert torch.equal(places[second.found], first.found)

    class Shuffled:
        sizes = samples.features.sizes

        def read(self, index):
            return samples.features.light().read(spots[torch.as_tensor(index)].numpy())

    assert torch.equal(ranked.look_up(Shuffled(), 4).found, first.found[spots])


def test_what_was_learned_comes_back_and_is_not_trained(samples, ranked):
    other = Exemplars(40, 6, 2, rerank=4)
    other.load_state_dict(ranked.state_dict())
    assert torch.equal(other.look_up(samples.features, 4).found, ranked.look_up(samples.features, 4).found)
    assert not any(p.requires_grad for p in ranked.parameters())
    again = Exemplars(40, 6, 2, rerank=4)
    again.load_state_dict(ranked.state_dict())
    again.learn(seed=0)  # goes on from what it knows
    assert not torch.equal(again.company.reranker.inner.weight, ranked.company.reranker.inner.weight)
    assert torch.equal(again.scale, ranked.scale)
    near = torch.cdist(ranked.feature * ranked.scale, ranked.feature * ranked.scale).square()
    near[ranked.slide[:, None] == ranked.slide] = torch.inf
    nearest = near.sort(1).values[:, :12]
    assert float(nearest[nearest.isfinite()].median()) == pytest.approx(2.0, rel=0.05)


def test_without_it_nothing_is_learned_and_the_random_state_stays(samples, bank):
    before = {name: t.clone() for name, t in bank.state_dict().items()}
    bank.learn(seed=0)
    assert set(before) == {"feature", "target", "slide"}
    assert all(torch.equal(t, before[name]) for name, t in bank.state_dict().items())
    state = torch.get_rng_state()
    one = Exemplars(40, 6, 2, rerank=4)
    assert torch.equal(torch.get_rng_state(), state)
    one.remember(samples)
    one.slide.fill_(7)
    with pytest.raises(InputError, match="give more slides"):
        one.learn(seed=0)


def test_they_have_nearer_labels_where_company_tells():
    """Spots of four slides on arcs, labels by arc: the far end of an arc is alike in label and not in place."""
    g = torch.Generator().manual_seed(0)
    which, slide = torch.arange(400) % 8, torch.arange(400) // 100
    angle = 2.5 * torch.rand(400, 1, generator=g)
    basis = torch.linalg.qr(torch.randn(8, 6, 2, generator=g)).Q
    x = (torch.cat([angle.cos(), angle.sin()], 1).unsqueeze(1) @ basis[which].mT).squeeze(1)
    x += 0.15 * torch.randn(400, 6, generator=g)
    label = torch.nn.functional.one_hot(which).float()

    class Spots:
        sizes = np.ones(400, np.intp)

        def read(self, index):
            return {"feature": x[torch.as_tensor(index)], "slide": slide[torch.as_tensor(index)]}

    torch.manual_seed(0)
    miss = []
    for rerank in (0, 12):
        bank = Exemplars(300, 6, 8, rerank=rerank)
        bank.remember(Samples(Spots(), label.numpy(), np.arange(300)))
        bank.learn(seed=0)
        found = bank.look_up(Spots(), 12).found[300:]
        miss.append(float((which[found] != which[300:, None]).float().mean()))
    assert miss[1] < miss[0] - 0.02


def test_many_labels_are_alike_by_their_correlation_and_few_by_their_distance():
    y = torch.randn(6, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y[0] = 0.0  # nothing known of it: no nearer to one than to another
    z = exemplars.compared(y)
    square = torch.cdist(z, z).square()
    torch.testing.assert_close(square[1:, 1:], 2 - 2 * torch.corrcoef(y[1:]))
    torch.testing.assert_close(square[0, 1:], torch.ones(5, dtype=torch.float64))
    assert torch.equal(exemplars.compared(y[:, :19]), y[:, :19])
