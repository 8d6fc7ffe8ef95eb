"""Progress without a terminal: what is trained, an estimate after the first step, a line when it is time."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from excora.models.parts import pace
from excora.training.callbacks import Journal, callbacks
from excora.training.progress import Lines, duration, patiently, say
from excora.training.run_monitor import RunMonitor


@pytest.fixture
def run():
    """A run of 3 epochs of 4 steps on a clock that is turned by hand; what was said."""
    said, now = [], [100.0]
    lines = Lines(3, tell=said.append, clock=lambda: now[0])
    trainer = SimpleNamespace(current_epoch=0, num_training_batches=4, is_global_zero=True, callback_metrics={})
    module = SimpleNamespace(parameters=lambda: [torch.nn.Parameter(torch.zeros(1000))], train_index=np.arange(360))
    lines.on_train_start(trainer, module)

    def step(seconds: float, place: int, epoch: int = 0, **metrics: float) -> None:
        now[0] += seconds
        trainer.current_epoch = epoch
        trainer.callback_metrics.update(metrics)
        lines.on_train_batch_end(trainer, module, None, None, place)

    yield said, step, trainer
    lines.on_train_end(trainer, module)


def test_a_slow_run_speaks_before_and_after_its_first_step(run):
    said, step, _ = run
    assert said == ["training 1,000 weights on 360 samples, up to 3 epochs of 4 steps"]
    step(92.0, 0)
    assert said[1:] == ["a step takes 92 s: at most about 17 min in all; fewer --epochs, a smaller --dim or another "
                        "--model are quicker"]  # fmt: skip
    step(92.0, 1)
    assert said[2:] == ["epoch 1/3, step 2/4, 3 min so far, at most 15 min more"]
    for place in (2, 3):
        step(1.0, place)
    step(92.0, 0, epoch=1, validation_pcc=0.51234)
    assert len(said) == 4
    assert said[3].startswith("epoch 2/3, step 1/4, validation PCC 0.512, ")


def test_a_quick_run_says_one_line_and_other_ranks_none(run):
    said, step, trainer = run
    for place in range(4):
        step(0.1, place)
    assert len(said) == 1
    trainer.is_global_zero = False
    step(50.0, 0, epoch=1)
    assert len(said) == 1


def test_durations():
    assert [duration(x) for x in (0.04, 9.94, 10, 99, 100, 5399, 5400)] == [
        "0.0 s", "9.9 s", "10 s", "99 s", "2 min", "90 min", "1.5 h"
    ]  # fmt: skip


def test_where_there_is_no_terminal_lines_take_the_place_of_the_bar():
    from excora.data.table import TableSpec
    from excora.models import models
    from excora.settings import Recipe

    model = models["pool"]
    network = model.network(TableSpec(targets=1, numeric=2), model.Options(dim=8), {})
    for progress, count in ((True, 1), (False, 0)):
        found = callbacks(Journal(), RunMonitor(network), Recipe(), None, validated=True, progress=progress)
        assert sum(isinstance(hook, Lines) for hook in found) == count


def test_one_step_that_takes_very_long_is_not_silent():
    said, now = [], [0.0]
    lines = Lines(3, tell=said.append, clock=lambda: now[0])
    trainer = SimpleNamespace(current_epoch=0, is_global_zero=True)
    now[0] = 29.0
    lines.patience(trainer)
    assert said == []
    now[0] = 31.0
    lines.patience(trainer)
    lines.patience(trainer)
    assert said == ["epoch 1/3: 0 steps in 31 s so far"]


def test_what_takes_long_says_so_every_few_seconds_and_stops() -> None:
    lines, heard = [], threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        heard.set()

    with patiently("fitting", tell, seconds=0.001):
        assert heard.wait(10)
    assert lines[0].startswith("fitting, 0.")
    assert lines[0].endswith(" s so far")
    count = len(lines)
    heard.clear()
    assert not heard.wait(0.01)
    assert len(lines) == count


def test_a_fit_that_tells_its_pace_gives_an_estimate_first_and_then_how_far_it_is():
    heard, lines = threading.Event(), []

    def tell(line: str) -> None:
        lines.append(line)
        if "2 of 6" in line:
            heard.set()

    with patiently("fitting", tell, seconds=0.01):
        pace.tell(pace.Pace(0, 6, 75.0))
        first = list(lines)
        pace.tell(pace.Pace(2, 6, 50.0))
        assert heard.wait(10)
    assert first[-1] == "estimate: about 75 s for 6 members of the model, one by one"
    assert lines[-1].endswith("so far, 2 of 6 members, about 50 s more")
    pace.tell(pace.Pace(3, 6, 1.0))  # nobody listens any more
    assert "3 of 6" not in lines[-1]
    quick: list[str] = []
    with patiently("fitting", quick.append):
        pace.tell(pace.Pace(0, 6, 0.5))
    assert not quick  # not worth a word


def test_on_a_terminal_one_line_changes_and_the_estimate_stays(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with patiently("fitting", say):
        pace.tell(pace.Pace(0, 6, 75.0))
        pace.tell(pace.Pace(1, 6, 60.0))
        time.sleep(1.3)
    assert "estimate: about 75 s for 6 members" in screen.getvalue()
    assert "1 of 6 members, about 60 s more" in screen.getvalue()
