"""The run folder: what is refused before anything is trained."""

from __future__ import annotations

import shutil

import pytest

from application.samples import ROLES, TINY, table
from excora.application import fit
from excora.application.folder import ROOM, check_room
from excora.errors import InputError


def test_a_folder_that_is_in_use_is_left_alone(home):
    with pytest.raises(InputError, match=r"run: the run folder is not empty; give another one, or .* by resume="):
        fit(home / "data.csv", output=home / "run", settings=TINY, progress=False, **ROLES)


def test_a_folder_that_cannot_be_written_is_reported(home):
    with pytest.raises(InputError, match="/proc/nowhere: the run folder cannot be written"):
        fit(home / "data.csv", output="/proc/nowhere", settings=TINY, progress=False, **ROLES)


def test_a_full_disk_is_reported_before_training(home, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.application.folder.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(InputError, match="a run takes about 20 MB and the disk has 0 MB left"):
        fit(home / "data.csv", output=tmp_path / "run", settings=TINY, progress=False, **ROLES)


@pytest.mark.parametrize(("average", "copies"), [(0.0, 4), (0.9, 5)])
def test_the_room_that_is_asked_for_is_that_of_two_checkpoints_and_the_weights(tmp_path, monkeypatch, average, copies):
    table()[["a", "b", "y"]].to_csv(tmp_path / "data.csv", index=False)
    settings = TINY.replace(dim=128, epochs=1, average=average)
    run = fit(tmp_path / "data.csv", target="y", output=tmp_path / "run", settings=settings, progress=False)
    size = sum(t.numel() * t.element_size() for t in run.network.state_dict().values())
    written = (tmp_path / "run" / "checkpoints" / "last.ckpt").stat().st_size
    assert copies <= written / size < copies + 0.5
    need = (2 * copies + 1) * size + 200 * 36 + ROOM

    def room(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2 * need, need, free))
        check_room(tmp_path, run.network, samples=36, averaged=average > 0)

    room(need)
    with pytest.raises(InputError, match="a run takes about"):
        room(need - 1)
