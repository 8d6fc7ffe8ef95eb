"""Runs that are killed, interrupted or spread over processes: forks of one fresh interpreter.

``python tests/training/test_processes.py FOLDER`` is that interpreter: it imports Lightning once, which is what takes
long, forks each attempt, and writes what it found to FOLDER/outcome.json.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

SEED, KILLS, EPOCHS = 3, 3, 5
FILES = ("weights.safetensors", "metrics.csv", "monitor.json", "predictions.csv", "attention.json")


@pytest.mark.long
def test_runs_that_are_killed_interrupted_or_spread_over_processes_end_alike(tmp_path):
    command = [sys.executable, "-W", "error", __file__, str(tmp_path)]
    # Not a pipe: data-loader workers of a killed run hold it open for some seconds more, and its end is waited for.
    with (tmp_path / "printed").open("w") as printed:
        done = subprocess.run(command, stdout=printed, stderr=printed, check=False, timeout=600)
    assert done.returncode == 0, (tmp_path / "printed").read_text()
    found = json.loads((tmp_path / "outcome.json").read_text())
    check_killed(found["killed"], tmp_path)
    check_interrupted(found["interrupted"], tmp_path)
    check_ranks(found["ranks"])


def check_killed(found: Any, folder: Path) -> None:
    assert sorted(found) == ["0 workers", "2 workers"]
    for run, deaths in found.items():
        assert [death["signal"] for death in deaths] == [signal.SIGKILL] * KILLS
        assert {death["where"] for death in deaths} == {"validation", "writing", "training"}
        same(folder, run)


def same(folder: Path, run: str) -> None:
    for name in FILES:
        assert (folder / run / name).read_bytes() == (folder / "whole" / name).read_bytes(), (run, name)
    assert json.loads((folder / run / "results.json").read_text())["epochs"] == EPOCHS


def check_interrupted(found: Any, folder: Path) -> None:
    """Ctrl-C leaves a usable run that resumes to the same bytes."""
    assert found["state"] == found["stopped"] == "interrupted"
    assert 0 < found["epochs"] < EPOCHS
    assert found["predictions"] == 14, "validation alone"
    assert found["test"] == {}
    assert found["lock"] == [True, False], "held while it runs, and not after"
    assert found["report"]
    assert "--resume" in found["says"]
    assert found["handler"], "Ctrl-C works again afterwards"
    assert found["early"] == {"raised": "KeyboardInterrupt", "state": "interrupted"}
    same(folder, "interrupted")


def check_ranks(found: Any) -> None:
    """Three ranks give the weights, curves and records of one process."""
    for name, case in found.items():
        assert case["distance"] < 1e-5, name
        for row, alone in zip(*case["rows"], strict=True):
            assert row == pytest.approx(alone, rel=1e-4), name
        assert case["records"][0] == pytest.approx(case["records"][1], rel=1e-4), name


# From here on: the other interpreter.


def data() -> Any:
    """70 bags of 1 to 8 elements; 42 of them are the training part: the last batch is uneven."""
    import samples_data

    return samples_data.bags()


def settings(**change: Any) -> Any:
    from excora.settings import Settings

    return Settings(**{"dim": 8, "epochs": EPOCHS, "batch_size": 10, "learning_rate": 0.01, "dropout": 0.2, **change})


def fork(work: Any, before: Any = lambda _: None) -> int:
    """Run ``work`` in a fork; its wait status, for which is waited after ``before``."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(9)
        os._exit(0)
    before(child)
    return os.waitpid(child, 0)[1]


def kill_at(where: str, count: int) -> None:
    """Arrange the death of this process at the count-th training step, validation step, or write of a checkpoint."""
    from excora import storage
    from excora.training.module import Regression

    left = [count]

    def then(function: Any, matters: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            if matters(*arguments):
                left[0] -= 1
                if left[0] <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return wrapped

    if where == "writing":  # the temporary file is there, the rename is not done
        storage.os.replace = then(os.replace, lambda _, path: str(path).endswith("last.ckpt"))
    else:
        name = f"{where}_step"
        setattr(Regression, name, then(getattr(Regression, name), lambda *_: True))


def killed(folder: Path) -> dict[str, Any]:
    from excora import fit
    from excora.training import callbacks

    callbacks.CHECKPOINT_SECONDS = 0.0
    generator, found = random.Random(SEED), {}
    for workers in (0, 2):
        name = f"{workers} workers"
        # 5 steps an epoch, 1 of validation: some deaths come before the first checkpoint, others an epoch later.
        points = [("validation", generator.randint(1, 2)), ("writing", generator.randint(1, 2))]
        points += [("training", generator.randint(1, 9)) for _ in range(KILLS - len(points))]
        generator.shuffle(points)

        def attempt(name: str = name, workers: int = workers) -> None:
            fit(data(), output=folder / name, settings=settings(workers=workers), resume=True, progress=False)

        found[name] = []
        for where, count in points:
            status = fork(lambda where=where, count=count, attempt=attempt: (kill_at(where, count), attempt()))
            found[name].append({"where": where, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0})
        assert fork(attempt) == 0
    return found


def step_as(step: Any) -> None:
    """Replace the training step, in this process."""
    from excora.training.module import Regression

    original = Regression.training_step
    Regression.training_step = lambda *arguments: step() or original(*arguments)  # type: ignore[method-assign]


def long_run(folder: Path) -> None:
    """A slow run that notes what it ended with."""
    from excora import fit

    held: list[bool] = []

    def slow() -> None:
        held[:] = [(folder / "interrupted" / "lock.json").exists()]
        time.sleep(0.02)

    step_as(slow)
    run = fit(data(), output=folder / "interrupted", settings=settings(), progress=False)
    text = io.StringIO()
    Console(file=text, width=300).print(run)
    found = {"state": run.state, "stopped": run.results["stopped"], "epochs": run.results["epochs"]}
    found |= {"test": run.results["test"], "lock": [*held, (run.path / "lock.json").exists()]}
    found |= {"predictions": len(run.predictions), "report": (run.path / "report.html").exists()}
    found |= {"says": text.getvalue(), "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler}
    (folder / "found").write_text(json.dumps(found))


def short_run(folder: Path) -> None:
    """A run that is interrupted in its first step."""
    from excora import fit

    step_as(lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        fit(data(), output=folder / "early", settings=settings(), progress=False)
    except KeyboardInterrupt:
        state = json.loads((folder / "early" / "config.json").read_text())["state"]
        (folder / "early found").write_text(json.dumps({"raised": "KeyboardInterrupt", "state": state}))


def interrupted(folder: Path) -> dict[str, Any]:
    from excora import fit
    from excora.training import callbacks

    callbacks.CHECKPOINT_SECONDS = 0.0

    def press(child: int) -> None:
        while not (folder / "interrupted" / "metrics.csv").exists():
            time.sleep(0.01)
        os.kill(child, signal.SIGINT)

    def resume() -> None:
        fit(data(), output=folder / "interrupted", settings=settings(), resume=True, progress=False)

    assert fork(lambda: long_run(folder), before=press) == 0
    assert fork(lambda: short_run(folder)) == 0
    assert fork(resume) == 0
    return json.loads((folder / "found").read_text()) | {"early": json.loads((folder / "early found").read_text())}


def ranks() -> dict[str, Any]:
    """One process against three; of the last batch of 2 the third rank has none."""
    import samples_data

    from excora.data.splits import split
    from excora.training import train
    from excora.training.building import build

    def run(dataset: Any, **change: Any) -> Any:
        parts = split(dataset)
        assert len(parts.train) % 10 == 2
        chosen = settings(model="pool", dropout=0.0, epochs=2, **change).settled(dataset.kind, len(parts.train))
        built = build(dataset, parts.train, chosen)
        arguments = (built.network, built.features, built.target, parts, chosen.recipe, chosen.machine)
        return train(*arguments, progress=False)

    three = {"accelerator": "cpu", "devices": 3, "strategy": "ddp_fork"}
    found = {
        "table": (run(samples_data.table(), **three), samples_data.table()),
        "bags, accumulated": (run(samples_data.bags(), accumulate=2, **three), samples_data.bags()),
    }
    return {name: compared(spread, run(dataset)) for name, (spread, dataset) in found.items()}


def compared(spread: Any, alone: Any) -> dict[str, Any]:
    ours, others = spread.network.state_dict(), alone.network.state_dict()
    names = ("bags", "pcc", "mse", "gamma_50")
    return {
        "distance": max(float((ours[name] - others[name]).abs().max()) for name in others),
        "rows": [spread.rows, alone.rows],
        "records": [[training.monitor.records[-1][name] for name in names] for training in (spread, alone)],
    }


def main(folder: Path) -> None:
    from excora import fit

    # Not in a fork: what it imports and compiles, every fork then has.
    fit(data(), output=folder / "whole", settings=settings(), progress=False)
    found = {"killed": killed(folder), "interrupted": interrupted(folder), "ranks": ranks()}
    (folder / "outcome.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    # What a shell starts in the background ignores Ctrl-C, and so would everything it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for slow in ("pandas", "plotly.offline", "excora.report.page", "excora.training.module"):  # once for all forks
        importlib.import_module(slow)
    main(Path(sys.argv[1]))
