"""Lightning's Trainer: machines it refuses, checkpoints that are broken or foreign, loggers, silence."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from excora.errors import InputError, MissingExtraError
from excora.training.engine import quiet
from training.samples import TINY, Data, prepared, run


@pytest.fixture(scope="module")
def data() -> Data:
    return prepared()


def test_a_machine_that_lightning_refuses_is_named(data):
    with pytest.raises(InputError, match=r"accelerator 'nonsense'.*do not go together"):
        run(data, TINY.replace(accelerator="nonsense"))


def test_lightning_is_quiet_only_within(recwarn):
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    with quiet():
        assert logger.level == logging.ERROR
        warnings.warn("Checkpoint directory /x exists and is not empty.", UserWarning, stacklevel=1)
    assert logger.level == before
    assert len(recwarn) == 0


@pytest.fixture(scope="module")
def stopped(data, tmp_path_factory) -> Path:
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    run(data, TINY.replace(epochs=1), folder=folder)
    return folder


@pytest.mark.parametrize("content", [b"", b"nonsense", "half", "foreign", "other"])
def test_a_broken_or_foreign_checkpoint_is_refused(data, stopped, tmp_path, content):
    last = tmp_path / "checkpoints" / "last.ckpt"
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
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
