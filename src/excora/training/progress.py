"""Progress where there is no terminal: a line every few seconds, and after the first step how long it may take."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from lightning.pytorch.callbacks import Callback

from excora.models.parts.pace import Pace, listening

#: Between lines, at least.
SECONDS = 10.0
#: From here on a run is called long, and the line says what would be quicker.
LONG = 600.0


class Lines(Callback):
    """Lines on standard error: what is trained, an estimate after the first step, then how far it is."""

    def __init__(
        self, epochs: int, *, tell: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.epochs, self.tell, self.clock = epochs, tell or say, clock
        self._done = self._since = self._spoken = 0.0
        self._ended = threading.Event()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """What is trained."""
        weights = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        self._done, self._since = 0, self.clock()
        self._spoken = self._since
        begun = f"from epoch {trainer.current_epoch + 1} on, " if trainer.current_epoch else ""
        size = f"{weights:,} weights on {len(pl_module.train_index):,} samples"
        most = f"{_plural(self.epochs, 'epoch')} of {_plural(_steps(trainer), 'step')}"
        self._tell(trainer, f"training {size}, {begun}up to {most}")

        self._ended.clear()
        if trainer.is_global_zero:
            threading.Thread(target=self._watch, args=(trainer,), daemon=True).start()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """No more lines."""
        self._ended.set()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """No more lines."""
        self._ended.set()

    def _watch(self, trainer: Any) -> None:
        """Speak while one step, or one look at the validation part, takes very long."""
        while not self._ended.wait(SECONDS):
            self.patience(trainer)

    def patience(self, trainer: Any) -> None:
        """A line if nothing was said for three times as long as usual."""
        if self.clock() - self._spoken >= 3 * SECONDS:
            spent = duration(self.clock() - self._since)
            self._tell(
                trainer, f"epoch {trainer.current_epoch + 1}/{self.epochs}: {int(self._done):,} steps in {spent} so far"
            )

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """After the first step an estimate, then a line if it is time."""
        self._done += 1
        spent = self.clock() - self._since
        left = spent / self._done * (_steps(trainer) * (self.epochs - trainer.current_epoch) - batch_idx - 1)
        if self._done == 1 and spent + left >= SECONDS:
            hint = "; fewer --epochs, a smaller --dim or another --model are quicker" if left >= LONG else ""
            self._tell(trainer, f"a step takes {duration(spent)}: at most about {duration(left)} in all{hint}")
        elif self.clock() - self._spoken >= SECONDS:
            pcc = trainer.callback_metrics.get("validation_pcc")
            score = "" if pcc is None else f", validation PCC {float(pcc):.3f}"
            where = f"epoch {trainer.current_epoch + 1}/{self.epochs}, step {batch_idx + 1}/{_steps(trainer)}"
            self._tell(trainer, f"{where}{score}, {duration(spent)} so far, at most {duration(left)} more")

    def _tell(self, trainer: Any, line: str) -> None:
        if trainer.is_global_zero:
            self.tell(line)
        self._spoken = self.clock()


@contextlib.contextmanager
def patiently(what: str, tell: Callable[[str], None], *, seconds: float = SECONDS) -> Iterator[None]:
    """While it lasts, a line every ``seconds`` that says ``what`` is going on, and since when.

    Of a fit that tells its pace (:mod:`excora.models.parts.pace`) also an estimate before it begins, where that is
    ``seconds`` or more, and in the lines how far it is; on a terminal that is drawn as it changes.
    """
    ended, begun, far = threading.Event(), time.monotonic(), ""

    def hear(pace: Pace) -> None:
        nonlocal far
        if not pace.done and pace.left >= seconds:
            line(f"estimate: about {duration(pace.left)} for {_plural(pace.steps, 'member')} of the model, one by one")
        far = f", {pace.done} of {pace.steps} members, about {duration(pace.left)} more"

    def speak() -> None:
        while not ended.wait(seconds if every is None else every):
            again(f"{what}, {duration(time.monotonic() - begun)} so far{far}")

    with _spoken(what, tell) as (line, again, every):
        speaker = threading.Thread(target=speak, daemon=True)
        speaker.start()
        try:
            with listening(hear):
                yield
        finally:
            ended.set()
            speaker.join()


Tell = Callable[[str], None]


@contextlib.contextmanager
def _spoken(what: str, tell: Tell) -> Iterator[tuple[Tell, Tell, float | None]]:
    """What takes lines, what takes the news of how far it is, and how often: on a terminal one line that changes."""
    if tell is not say or not sys.stderr.isatty():
        yield tell, tell, None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(what) as status:
        yield lambda text: console.print(text, highlight=False, markup=False), status.update, 1.0


def _steps(trainer: Any) -> int:
    return int(trainer.num_training_batches)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(line: str) -> None:
    """On standard error, at once."""
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.25), duration(75), duration(7300)
    ('0.2 s', '75 s', '2.0 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
