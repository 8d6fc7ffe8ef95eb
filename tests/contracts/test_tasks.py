"""What every task keeps, by being registered."""

from __future__ import annotations

import pytest
import torch

from excora.tasks import tasks
from excora.tasks.base import Task


@pytest.fixture(params=tasks.names())
def task(request) -> Task:
    return tasks[request.param]()


def test_it_says_what_it_is_for(task):
    assert isinstance(task, Task)
    assert task.says


def test_samples_depend_on_the_seed_alone(task):
    h, y = task.sample(6, seed=3)
    assert (len(h), h.dim(), y.shape, h.dtype, y.dtype) == (6, 3, (6,), torch.float32, torch.float32)
    for one, other in zip((h, y), task.sample(6, seed=3), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for one, other in zip((h, y), task.sample(6, seed=3, dtype=torch.float64), strict=True):
        assert other.dtype == torch.float64
        torch.testing.assert_close(one, other.float())
    assert not torch.equal(h, task.sample(6, seed=4)[0])
    assert torch.isfinite(h).all()
    assert y.std() > 0


def test_the_answer_is_known(task):
    assert 0 < task.bayes_pcc <= 1
