"""An estimate before the members of a kriging model, and what is told of each."""

from __future__ import annotations

import time

import pytest
import torch

from excora.models.parts.kriging import Labelled, Part
from excora.models.parts.members import fit_members
from excora.models.parts.neighbours import Excluded
from excora.models.parts.pace import Members, Pace, listening, seconds_of


@pytest.fixture(scope="module")
def rows() -> Labelled:
    x = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    return Labelled(x, torch.sin(3 * x[:, :1]), torch.ones(300, 1, dtype=torch.bool), torch.ones(300))


def fitted(rows: Labelled) -> list[torch.Tensor]:
    excluded = Excluded(torch.arange(300)[:, None])
    given = {"seed": 0, "neighbours": 30, "seconds": 60.0}
    _, members = fit_members([rows], torch.zeros(5), torch.arange(300) % 3, excluded, **given)
    return [m.guess for m in members]


def test_who_listens_hears_an_estimate_first_and_changes_nothing(rows):
    heard: list[Pace] = []
    with listening(heard.append):
        watched = fitted(rows)
    assert [(one.done, one.steps) for one in heard] == [(k, 3) for k in range(4)]
    assert heard[0].left > 0
    assert heard[-1].left == 0
    assert all(torch.equal(a, b) for a, b in zip(watched, fitted(rows), strict=True))
    assert len(heard) == 4


def test_the_estimate_is_of_the_size_of_what_it_takes(rows):
    """By the clock of this process alone; within a factor of 3, on machines with anything else to do."""
    part = Part.of(rows, torch.arange(100, 300), torch.arange(100), Excluded(torch.arange(300)[:, None]))
    fitted(rows)
    begun = time.process_time()
    fitted(rows)
    took = (time.process_time() - begun) / 3
    assert took / 3 < seconds_of(part, torch.zeros(5), 30, time.process_time) < 3 * took


def test_members_that_will_not_be_begun_are_not_counted():
    now = [0.0]
    heard: list[Pace] = []
    members = Members(7, least=3, seconds=100.0, clock=lambda: now[0])
    with listening(heard.append):
        for seconds in (40.0, 40.0, 40.0, 10.0):
            now[0] += seconds
            members.end()
    assert heard == [Pace(1, 3, 80.0), Pace(2, 3, 40.0), Pace(3, 3, 0.0), Pace(4, 4, 0.0)]
    assert Members(7, least=3, seconds=100.0).pace(5.0) == Pace(0, 7, 35.0)
