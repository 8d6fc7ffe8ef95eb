"""The store: parts while a study runs, one file a table after it, and several processes on one folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from excora.errors import InputError
from excora_studies.store import Store

KEYS = ["b | x | 1", "b | x | 2", "a + c | x | 1"]


def store(folder: Path, **changed: Any) -> Store:
    options = {"keys": KEYS, "table_of": lambda key: key.split(" | ")[0]} | changed
    return Store(folder, "toy", {"n": 1}, **options)


def never() -> Any:
    raise AssertionError("computed twice")


def names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_parts_become_one_file_a_table_once_all_are_there(tmp_path: Path) -> None:
    first = store(tmp_path)
    for key in KEYS[:2]:
        assert not first.chunk(key, lambda: 1 / 3)
    assert not first.finish([{"row": 1}], {})["complete"]
    assert names(tmp_path) == ["parts/b-x-1.json", "parts/b-x-2.json", "results.json"]
    second = store(tmp_path)
    assert second.chunk(KEYS[0], never)
    assert not second.chunk(KEYS[2], lambda: [None])
    content = second.finish([{"row": 1}], {"all": True})
    assert names(tmp_path) == ["a-c.json", "b.json", "results.json"]
    assert json.loads((tmp_path / "results.json").read_text()) == content
    assert content["complete"]
    assert "chunks" not in content
    table = json.loads((tmp_path / "b.json").read_text())
    assert list(table) == KEYS[:2]
    assert table[KEYS[0]]["result"] == 0.333333
    assert {"result", "seconds", "versions"} == set(table[KEYS[0]])
    third = store(tmp_path)
    assert all(third.chunk(key, never) for key in KEYS)
    assert third.results == {KEYS[0]: 0.333333, KEYS[1]: 0.333333, KEYS[2]: [None]}
    before = (tmp_path / "b.json").read_bytes()
    third.finish([], {})
    assert (tmp_path / "b.json").read_bytes() == before


def test_without_tables_the_parts_end_in_results_json(tmp_path: Path) -> None:
    one = store(tmp_path, table_of=None)
    for key in reversed(KEYS):
        one.chunk(key, lambda: 1)
    content = one.finish([], {})
    assert names(tmp_path) == ["results.json"]
    assert list(content["chunks"]) == KEYS
    assert store(tmp_path, table_of=None).complete


def test_a_process_sees_what_another_has_done_meanwhile(tmp_path: Path) -> None:
    ours, theirs = store(tmp_path), store(tmp_path)
    theirs.chunk(KEYS[0], lambda: "theirs")
    assert ours.chunk(KEYS[0], never)
    for key in KEYS[1:]:
        theirs.chunk(key, lambda: "theirs")
    theirs.finish([], {})  # its parts are in tables now
    assert ours.chunk(KEYS[1], never)
    assert ours.results == dict.fromkeys(KEYS, "theirs")


def test_a_part_that_moves_while_it_is_read_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = store(tmp_path)
    for key in KEYS:
        theirs.chunk(key, lambda: 1)
    ours, read = store(tmp_path, keys=KEYS), Path.read_text

    def finish_first(path: Path, *arguments: Any, **options: Any) -> str:
        monkeypatch.setattr(Path, "read_text", read)
        theirs.finish([], {})
        return path.read_text(*arguments, **options)

    ours._known.clear()
    monkeypatch.setattr(Path, "read_text", finish_first)
    ours.look()
    assert ours.complete


def test_processes_share_a_folder(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from excora_studies.store import Store
keys = [f"{t} | {i}" for t in "ab" for i in range(30)]
mine = keys if sys.argv[2] == "up" else keys[::-1]
store = Store(Path(sys.argv[1]), "toy", {}, keys=keys, table_of=lambda key: key[0])
for key in mine:
    store.chunk(key, lambda: key)
store.look()
store.finish([], {})
"""
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), way]) for way in ("up", "down")]
    assert [run.wait() for run in runs] == [0, 0]
    assert names(tmp_path) == ["a.json", "b.json", "results.json"]
    for name in "ab":
        table = json.loads((tmp_path / f"{name}.json").read_text())
        assert {key: chunk["result"] for key, chunk in table.items()} == {
            f"{name} | {i}": f"{name} | {i}" for i in range(30)
        }


def test_a_broken_part_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    store(tmp_path).chunk(KEYS[0], lambda: 1)
    (tmp_path / "parts" / "b-x-1.json").write_text("{")
    with pytest.raises(InputError, match="not the results of a study"):
        store(tmp_path)
