"""The lock of a run folder: one process at a time, by the kernel's word."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from application.samples import ROLES, TINY
from excora.application import fit
from excora.application.lock import NAME, locked
from excora.errors import InputError

HOLD = """
import sys, time
from pathlib import Path
from excora.application.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_process_is_told_of_the_first_and_a_dead_one_holds_nobody_up(holder, home, tmp_path):
    named = rf"process {holder.pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC, is writing"
    with pytest.raises(InputError, match=named):
        fit(home / "data.csv", output=tmp_path, settings=TINY, progress=False, **ROLES)
    assert os.listdir(tmp_path) == [NAME]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert json.loads((tmp_path / NAME).read_text())["pid"] == holder.pid, "left behind"
    run = fit(home / "data.csv", output=tmp_path, settings=TINY, progress=False, **ROLES)
    assert run.state == "finished"
    assert not (tmp_path / NAME).exists()


def test_one_process_cannot_hold_it_twice_and_an_error_lets_it_go(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match=f"process {os.getpid()} on"), locked(tmp_path / "."):
        pass
    assert not (tmp_path / NAME).exists()
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()


def test_what_a_stranger_put_into_the_file_does_not_matter(tmp_path):
    (tmp_path / NAME).write_text("[1, 2" * 100)
    with locked(tmp_path):
        assert set(json.loads((tmp_path / NAME).read_text())) == {"pid", "host", "since"}
        (tmp_path / NAME).write_text("[]")
        with pytest.raises(InputError, match="another process, is writing"), locked(tmp_path):
            pass
