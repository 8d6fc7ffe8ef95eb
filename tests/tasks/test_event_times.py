"""Events: no time, places and times tell more and more of the label, in this order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.encodings.time import Bochner
from excora.errors import InputError
from excora.tasks.event_times import EventTimesTask

TASK = EventTimesTask()


def told(encode) -> float:
    """Correlation on new bags of a least-squares fit to sum_i x_i phi(i), the best linear use of an encoding."""

    def read(seed):
        x, y = TASK.sample(3000, seed=seed, dtype=torch.float64)
        place = torch.arange(TASK.events, dtype=torch.float64).expand(x.shape[:2])
        with torch.no_grad():
            return torch.einsum("bn,bnk->bk", x[..., 0], encode(x[..., 1], place)).numpy(), y.numpy()

    (features, y), (new, wanted) = read(0), read(1)
    return np.corrcoef(new @ np.linalg.lstsq(features, y, rcond=None)[0], wanted)[0, 1]


def test_functional_time_tells_more_than_places_and_places_more_than_nothing():
    phi = Bochner(16, shortest=0.5, longest=20.0)
    nothing = told(lambda t, _: torch.ones_like(t).unsqueeze(-1))
    places = told(lambda _, place: torch.nn.functional.one_hot(place.long(), TASK.events).double())
    times = told(lambda t, _: phi(t))
    assert nothing + 0.1 < places < times - 0.1
    assert times == pytest.approx(TASK.bayes_pcc, abs=0.02)


def test_the_best_correlation_is_that_of_the_waves_themselves():
    x, y = TASK.sample(20_000, seed=3, dtype=torch.float64)
    best = (x[..., 0] * torch.cos(0.5 * x[..., 1])).sum(1)
    assert np.corrcoef(best, y)[0, 1] == pytest.approx(TASK.bayes_pcc, abs=0.005)
    with pytest.raises(InputError, match="frequency positive"):
        EventTimesTask(frequency=0.0)
