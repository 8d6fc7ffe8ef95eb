"""The door of the tasks: a task gives samples and the answer, and is found by its name."""

from __future__ import annotations

import pytest
import torch

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task, orthonormal_pair
from excora.tasks.plateau import PlateauTask


def test_a_task_is_found_by_its_name():
    assert tasks["plateau"] is PlateauTask
    with pytest.raises(InputError, match="there is no task 'plato'; did you mean 'plateau'"):
        _ = tasks["plato"]


def test_a_task_without_an_answer_is_none():
    class Half(Task):
        says = "samples, and nobody knows how good one can be"

        def sample(self, bags, *, seed, dtype=None):
            raise NotImplementedError

    with pytest.raises(TypeError, match="bayes_pcc"):
        Half()


def test_an_orthonormal_pair_is_one_and_depends_on_its_seed():
    pair = torch.stack(orthonormal_pair(5, seed=3))
    torch.testing.assert_close(pair @ pair.T, torch.eye(2, dtype=torch.float64))
    assert not torch.equal(pair, torch.stack(orthonormal_pair(5, seed=4)))
