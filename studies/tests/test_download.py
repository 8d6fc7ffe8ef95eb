"""Data of a study by download: from an archive on a server of the test's own."""

import functools
import hashlib
import http.server
import lzma
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from excora.errors import ExcoraError
from excora_studies import download
from excora_studies.download import Original, fetch, main

CONTENT = b"date,Appliances\n2016-01-11,60\n"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a.csv", CONTENT)
    (folder / "broken.zip").write_bytes(b"PK nothing")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_file_arrives_whole_and_is_not_fetched_twice(address: str, tmp_path: Path) -> None:
    original = Original(f"{address}/a.zip", "a.csv", hashlib.sha256(CONTENT).hexdigest())
    path = fetch("a.csv.xz", tmp_path / "data", original=original)
    assert lzma.decompress(path.read_bytes()) == CONTENT
    assert fetch("a.csv.xz", tmp_path / "data", original=original._replace(url="http://127.0.0.1:1/")) == path


@pytest.mark.parametrize(
    ("file", "member", "says"),
    [
        ("a.zip", "a.csv", "another a.csv: SHA-256"),
        ("a.zip", "b.csv", "cannot fetch b.csv"),
        ("broken.zip", "a.csv", "get it by hand"),
        ("none.zip", "a.csv", "404"),
    ],
)
def test_anything_else_is_an_error_and_leaves_nothing(
    file: str, member: str, says: str, address: str, tmp_path: Path
) -> None:
    with pytest.raises(ExcoraError, match=says):
        fetch("a.csv.xz", tmp_path / "data", original=Original(f"{address}/{file}", member, "0" * 64))
    assert not (tmp_path / "data").exists()


def test_the_command_asks_for_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_command_fetches_everything_or_says_why_not(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = Original(f"{address}/a.zip", "a.csv", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(download, "ORIGINALS", {"a.csv.xz": original})
    assert main([str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "data" / "a.csv.xz")
    monkeypatch.setattr(download, "ORIGINALS", {"b.csv.xz": original._replace(member="b.csv")})
    assert main([str(tmp_path / "data")]) == 1
    assert capsys.readouterr().err.startswith("error: cannot fetch b.csv")
