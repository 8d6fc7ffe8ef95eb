"""Every arm gets the rate that suits it, by the same trials, and the paper's form its constants."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from excora.tasks.plateau import PlateauTask
from excora_studies import tuning
from excora_studies.stacked import Variant
from excora_studies.training import PAPER, Protocol, variants

TASKS = [PlateauTask(kappa=2.0, dim=5, elements=4), PlateauTask(kappa=0.5, dim=5, elements=4)]
PROTOCOL = Protocol(epochs=6, batch=50, train=100, validation=10, test=80, rates=(1e-4, 0.05))


def test_a_rate_that_gets_nowhere_is_not_chosen() -> None:
    arms = [Variant(name="softmax", pool="softmax", correlation="pcc"), Variant(name="ours", pool="eca")]
    ticks: list[int] = []
    found = tuning.tune(arms, TASKS, PROTOCOL, lambda: ticks.append(1))
    assert found["rates"] == {"softmax": [0.05, 0.05], "ours": [0.05, 0.05]}
    assert len(ticks) == 6
    pcc = tuning.trials(arms, TASKS, PROTOCOL, lambda: None)
    assert pcc.shape == (2, 2, 2)
    assert found["validation_pcc"]["ours"] == pytest.approx(pcc[:, 1].amax(1).tolist())
    # An arm's trials are its own: alone it gets the same.
    alone = tuning.trials(arms[1:], TASKS, PROTOCOL, lambda: None)
    torch.testing.assert_close(alone[:, 0], pcc[:, 1], rtol=1e-4, atol=1e-5)


def test_the_papers_form_gets_the_best_pair_and_every_variant_a_rate_for_each_task(monkeypatch) -> None:
    monkeypatch.setattr(tuning, "T_MIN", (0.0, 0.8))
    monkeypatch.setattr(tuning, "BETA", (0.5,))
    found = tuning.tune_variants(TASKS, dataclasses.replace(PROTOCOL, epochs=2), lambda: None)
    assert (found["t_min"], found["beta"]) == [(0.0, 0.5), (0.8, 0.5)][found["pairs"].index(max(found["pairs"]))]
    assert set(found["rates"]) == {arm.name for arm in variants(found)}
    assert PAPER in found["rates"]
    assert all(len(rates) == len(TASKS) for rates in found["rates"].values())


def test_best_in_the_last_epoch_is_counted() -> None:
    seeds = [
        [{"models": {"a": {"epoch": 6.0}, "b": {"epoch": 5.0}}}],
        [{"models": {"a": {"epoch": 6}, "b": {"epoch": 6}}}],
    ]
    assert tuning.last_epochs(seeds, PROTOCOL) == {"a": 2, "b": 1}
