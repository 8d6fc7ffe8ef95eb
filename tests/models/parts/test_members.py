"""Members hold out their folds, the better base is chosen, and shares make the stack."""

from __future__ import annotations

import pytest
import torch

from excora.models.parts import members as module
from excora.models.parts.kriging import Labelled, Part, learn
from excora.models.parts.members import fit_members, stacked
from excora.models.parts.neighbours import Excluded


@pytest.fixture(scope="module")
def wave() -> Labelled:
    """160 rows of 5 channels, one of which matters."""
    x = torch.randn(160, 5, generator=torch.Generator().manual_seed(0))
    return Labelled(x, torch.sin(3 * x[:, :1]), torch.ones(160, 1, dtype=torch.bool), torch.ones(160))


def test_a_member_holds_out_its_fold_and_a_budget_ends_them(wave, monkeypatch):
    monkeypatch.setitem(learn.__kwdefaults__, "steps", 2)
    fold, excluded = torch.arange(160) % 3, Excluded(torch.arange(160)[:, None])
    given = {"seed": 0, "neighbours": 20}
    _, members = fit_members([wave], torch.zeros(5), fold, excluded, seconds=60.0, **given)
    assert [sorted(m.held.tolist()) for m in members] == [list(range(k, 160, 3)) for k in range(3)]
    _, again = fit_members([wave], torch.zeros(5), fold, excluded, seconds=60.0, **given)
    assert all(torch.equal(a.keys.scale, b.keys.scale) for a, b in zip(members, again, strict=True))
    changed = wave._replace(label=torch.where((fold == 0).unsqueeze(1), 9.0, wave.label))
    _, other = fit_members([changed], torch.zeros(5), fold, excluded, seconds=60.0, **given)
    assert torch.equal(other[0].guess, members[0].guess) or other[0].length != members[0].length
    assert len(fit_members([wave], torch.zeros(5), fold, excluded, seconds=0.0, **given)[1]) == 1


def test_too_few_rows_or_one_fold_learn_nothing(wave):
    excluded = Excluded(torch.arange(160)[:, None])
    _, found = fit_members([wave], torch.zeros(5), torch.zeros(160).long(), excluded, seed=0, neighbours=9, seconds=9.0)
    assert len(found) == 1
    assert not found[0].guess.any()


def test_the_base_that_leaves_less_is_chosen_and_the_other_may_have_a_share(wave, monkeypatch):
    monkeypatch.setitem(learn.__kwdefaults__, "steps", 40)
    fold, excluded = torch.arange(160) % 4, Excluded(torch.arange(160)[:, None])
    given = {"seed": 0, "neighbours": 20, "seconds": 0.0}
    noise = torch.randn(160, 1, generator=torch.Generator().manual_seed(1))
    worse = wave._replace(label=wave.label + 2 * noise)
    for bases, best in (([wave, worse], 0), ([worse, wave], 1)):
        chosen, members = fit_members(bases, torch.zeros(5), fold, excluded, **given)
        assert chosen == best
        share, parts, made, asked = stacked(bases, chosen, members)
        assert 0 <= share <= 1
        assert (parts >= 0).all()
        assert parts.sum() == pytest.approx(1.0)
        assert (asked.label - made).square().mean() <= (asked.label - share * members_guess(members)).square().mean()


def test_bases_are_compared_on_the_same_left_out_rows(wave, monkeypatch):
    monkeypatch.setitem(learn.__kwdefaults__, "steps", 2)
    monkeypatch.setattr(module, "HELD", 15)
    asked = []

    class Recorded:
        @staticmethod
        def of(base, rest, held, excluded):
            asked.append((rest.tolist(), held.tolist()))
            return Part.of(base, rest, held, excluded)

    monkeypatch.setattr(module, "Part", Recorded)
    fold, excluded = torch.arange(160) % 3, Excluded(torch.arange(160)[:, None])
    _, found = fit_members([wave, wave, wave], torch.zeros(5), fold, excluded, seed=0, neighbours=20, seconds=60.0)
    assert len(asked) == 5
    assert asked[0] == asked[1] == asked[2]
    assert all(len(held) == 15 for _, held in asked)
    assert sorted(int(m.held[0]) % 3 for m in found) == [0, 1, 2]


def test_bases_before_the_first_are_not_learned_of(wave, monkeypatch):
    monkeypatch.setitem(learn.__kwdefaults__, "steps", 2)
    learned = []
    monkeypatch.setattr(module, "learn", lambda part, *rest, **more: learned.append(part) or learn(part, *rest, **more))
    fold, excluded = torch.arange(160) % 2, Excluded(torch.arange(160)[:, None])
    worse = wave._replace(label=wave.label + 9)
    given = {"seed": 0, "neighbours": 20, "seconds": 60.0}
    chosen, found = fit_members([wave, worse, worse], torch.zeros(5), fold, excluded, first=1, **given)
    assert chosen in (1, 2)
    assert len(found) == 2
    assert len(learned) == 3, "two bases of the first fold, one of the second"
    assert all((part.rows.label > 3).all() for part in learned)


def members_guess(members) -> torch.Tensor:
    return torch.cat([m.guess for m in members])
