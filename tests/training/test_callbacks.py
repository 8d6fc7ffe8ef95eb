"""What a run writes: curves, records and checkpoints; a checkpoint that cannot be written."""

from __future__ import annotations

import csv
import errno
import json
import os

import pytest

from excora import storage
from excora.errors import ExcoraError
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
