"""The door of the tasks: a task gives samples and the answer, and is found by its name."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task
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
