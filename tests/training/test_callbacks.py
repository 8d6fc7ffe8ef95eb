"""What a run writes: curves, records and checkpoints; checkpoints that cannot be written, are broken or foreign."""

from __future__ import annotations

import csv
import errno
import json
import os

import pytest
import torch

from excora import storage
from excora.errors import ExcoraError, InputError, MissingExtraError
from training.samples import TINY, Data, far, prepared, run


@pytest.fixture
def data() -> Data:
    return prepared()


def test_metrics_and_monitor_are_written_and_a_longer_run_goes_on(data, tmp_path):
    whole = run(data, TINY.replace(epochs=5, patience=9))
    run(data, TINY.replace(epochs=2, patience=1), folder=tmp_path)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    longer = run(data, TINY.replace(epochs=5, patience=9), folder=moved, resume=True)
    assert far(whole, longer) == 0
    assert longer.rows == whole.rows
    with (moved / "metrics.csv").open() as file:
        rows = [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    assert rows == whole.rows
    assert json.loads((moved / "monitor.json").read_text())["records"] == whole.monitor.records
    again = run(data, TINY.replace(epochs=5, patience=9), folder=moved, resume=True)
    assert far(whole, again) == 0
    assert again.epochs == 5


def test_a_full_disk_leaves_the_checkpoint_before_it(data, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.training.callbacks.CHECKPOINT_SECONDS", 0.0)
    last, written, sync = tmp_path / "checkpoints" / "last.ckpt", [], os.fsync

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").startswith(str(last.parent)) and last.exists():
            written.append(last.read_bytes())
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", full)
        with pytest.raises(ExcoraError, match=r"last.ckpt: the checkpoint \(.* MB\) could not be written: No space"):
            run(data, folder=tmp_path)
    assert [last.read_bytes()] == written
    assert os.listdir(last.parent) == ["last.ckpt"]
    assert far(run(data, folder=tmp_path, resume=True), run(data)) == 0


@pytest.mark.parametrize("content", [b"", b"nonsense", "half", "foreign", "other"])
def test_a_broken_or_foreign_checkpoint_is_refused(data, tmp_path, content):
    last = tmp_path / "checkpoints" / "last.ckpt"
    run(data, TINY.replace(epochs=1), folder=tmp_path)
    if content == "half":
        content = last.read_bytes()[: last.stat().st_size // 2]
    if content == "foreign":
        torch.save({"state_dict": {}, "callbacks": [1]}, last)
    elif content != "other":
        last.write_bytes(content)
    settings = TINY.replace(dim=4) if content == "other" else TINY
    with pytest.raises(
        InputError, match=r"last.ckpt: this (is no checkpoint of Excora|checkpoint is of another model)"
    ):
        run(data, settings, folder=tmp_path, resume=True)


def test_a_logger_that_is_not_installed_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr("lightning.pytorch.loggers.tensorboard._TENSORBOARD_AVAILABLE", False)
    monkeypatch.setattr("lightning.fabric.loggers.tensorboard._TENSORBOARD_AVAILABLE", False)
    monkeypatch.setattr("lightning.fabric.loggers.tensorboard._TENSORBOARDX_AVAILABLE", False)
    with pytest.raises(MissingExtraError, match=r"excora\[tensorboard\]"):
        run(data, TINY.replace(logger="tensorboard"), folder=tmp_path)


def test_tensorboard_gets_its_files(data, tmp_path):
    run(data, TINY.replace(logger="tensorboard"), folder=tmp_path)
    (events,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    assert b"validation_pcc" in events.read_bytes()
