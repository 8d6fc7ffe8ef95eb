"""Runs that are killed, interrupted or spread over processes; each test drives forks of one fresh interpreter.

``python tests/test_training_processes.py SCENARIO FOLDER`` is that interpreter: it imports Lightning once, forks each
attempt, and prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

SEED, KILLS, EPOCHS = 3, 5, 7
FILES = ("weights.safetensors", "metrics.csv", "monitor.json", "predictions.csv", "attention.json")


def drive(scenario: str, folder: Path) -> Any:
    command = [sys.executable, "-W", "error", __file__, scenario, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    found = drive("kill", tmp_path)
    for run, deaths in found.items():
        assert [death["signal"] for death in deaths] == [signal.SIGKILL] * KILLS
        assert {"validation", "writing", "training"} == {death["where"] for death in deaths}
        for name in FILES:
            assert (tmp_path / run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), (run, name)
        assert json.loads((tmp_path / run / "results.json").read_text())["epochs"] == EPOCHS
    assert sorted(found) == ["0 workers", "2 workers"]


def test_ctrl_c_leaves_a_usable_run_that_resumes_to_the_same_bytes(tmp_path):
    found = drive("interrupt", tmp_path)
    assert found["interrupted"]["state"] == "interrupted"
    assert found["interrupted"]["stopped"] == "interrupted"
    assert 0 < found["interrupted"]["epochs"] < 12
    assert found["interrupted"]["predictions"] == 28
    assert found["interrupted"]["report"]
    assert "--resume" in found["interrupted"]["says"]
    assert found["handler"], "Ctrl-C works again afterwards"
    assert found["early"] == {"raised": "KeyboardInterrupt", "state": "interrupted"}
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_ranks_give_the_weights_of_one_process(tmp_path):
    found = drive("ranks", tmp_path)
    for name, distance in found["distances"].items():
        assert distance < 1e-5, name
    for rows in found["rows"].values():
        for row, alone in zip(rows, found["alone"], strict=True):
            assert row == pytest.approx(alone, rel=1e-4)
    assert found["records"] == pytest.approx(found["records_alone"], rel=1e-4)


# From here on: the other interpreter.


def data() -> Any:
    """70 bags of 1 to 8 elements; 42 of them are the training part: the last batch is uneven."""
    from excora.data.bags import ArrayBags
    from excora.data.dataset import Dataset

    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 9, 70)
    values = generator.normal(size=(lengths.sum(), 3)).astype(np.float32)
    label = np.array([values[end - n : end, 0].max() for n, end in zip(lengths, np.cumsum(lengths), strict=True)])
    ids = np.array([f"bag {k}" for k in range(70)], object)
    return Dataset(ids, ("y",), label[:, None].astype(np.float64), bags=ArrayBags(values, lengths))


def settings(**change: Any) -> Any:
    from excora.settings import Settings

    return Settings(**{"dim": 8, "epochs": EPOCHS, "batch_size": 10, "learning_rate": 0.01, "dropout": 0.2, **change})


def fork(work: Any) -> int:
    """Run ``work`` in a fork; its wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(9)
        os._exit(0)
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
    from excora.training import callbacks, fit

    assert fork(lambda: fit(data(), output=folder / "whole", settings=settings(), progress=False)) == 0
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


def interrupted(folder: Path) -> dict[str, Any]:
    import io

    from rich.console import Console

    from excora.training import callbacks, fit
    from excora.training.module import Regression

    callbacks.CHECKPOINT_SECONDS = 0.0
    many, step = settings(epochs=12), Regression.training_step

    def slow(*arguments: Any) -> Any:
        time.sleep(0.01)
        return step(*arguments)

    def attempt() -> None:
        Regression.training_step = slow  # type: ignore[method-assign]
        run = fit(data(), output=folder / "run", settings=many, progress=False)
        text = io.StringIO()
        Console(file=text, width=300).print(run)
        found = {"state": run.state, "stopped": run.results["stopped"], "epochs": run.results["epochs"]}
        found |= {"predictions": len(run.predictions), "report": (run.path / "report.html").exists()}
        handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        (folder / "found").write_text(
            json.dumps({"interrupted": found | {"says": text.getvalue()}, "handler": handler})
        )

    def early() -> None:
        def stop(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

        Regression.training_step = stop  # type: ignore[method-assign]
        try:
            fit(data(), output=folder / "early", settings=many, progress=False)
        except KeyboardInterrupt:
            state = json.loads((folder / "early" / "config.json").read_text())["state"]
            (folder / "early found").write_text(json.dumps({"raised": "KeyboardInterrupt", "state": state}))

    child = os.fork()
    if child == 0:
        attempt()
        os._exit(0)
    metrics = folder / "run" / "metrics.csv"
    while not metrics.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGINT)
    assert os.waitpid(child, 0)[1] == 0
    assert fork(early) == 0
    assert fork(lambda: fit(data(), output=folder / "run", settings=many, resume=True, progress=False)) == 0
    assert fork(lambda: fit(data(), output=folder / "whole", settings=many, progress=False)) == 0
    return json.loads((folder / "found").read_text()) | {"early": json.loads((folder / "early found").read_text())}


def ranks(folder: Path) -> dict[str, Any]:
    """One process against two and three; of the last batch of 2 the third rank has none."""
    from excora.data.preparation import Preparation
    from excora.data.splits import split
    from excora.models.network import build
    from excora.training import train

    bags = data()
    parts = split(bags)
    preparation = Preparation.fit(bags, parts.train)
    assert len(parts.train) % 10 == 2
    features, target = preparation.features(bags), preparation.scale(bags.target)

    def run(**change: Any) -> Any:
        chosen = settings(dropout=0.0, epochs=3, **change)
        return train(build(preparation.inputs, chosen), features, target, parts, chosen, progress=False)

    spread = {
        "three": run(accelerator="cpu", devices=3, strategy="ddp_fork"),
        "two, accumulated": run(accelerator="cpu", devices=2, strategy="ddp_fork", accumulate=2),
    }
    alone = run()
    state = alone.network.state_dict()
    return {
        "distances": {
            name: max(float((state[k] - other).abs().max()) for k, other in training.network.state_dict().items())
            for name, training in spread.items()
        },
        "rows": {name: training.rows for name, training in spread.items()},
        "alone": alone.rows,
        "records": {
            k: v for k, v in spread["three"].monitor.records[-1].items() if k in ("bags", "pcc", "mse", "gamma_50")
        },
        "records_alone": {
            k: v for k, v in alone.monitor.records[-1].items() if k in ("bags", "pcc", "mse", "gamma_50")
        },
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # The slow imports, once for all forks.
    import excora.report.page
    import excora.training.module  # noqa: F401

    scenarios = {
        "kill": killed, "interrupt": interrupted, "ranks": ranks,
    }  # fmt: skip
    print(json.dumps(scenarios[sys.argv[1]](Path(sys.argv[2]))))
