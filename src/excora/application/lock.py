"""The lock of a run folder: one process writes there, and whoever comes second is told which."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from excora.errors import InputError

try:
    import fcntl
except ImportError:  # a system without POSIX locks: processes there have to keep out of each other's way
    fcntl = None  # type: ignore[assignment]

NAME = "lock.json"
_HELD: set[Path] = set()
_GUARD = threading.Lock()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made if there is none; a second holder is an InputError that names the first.

    The lock is the kernel's, on the file lock.json: it ends with the process, however that ends, and so a file that is
    left behind by one that was killed holds nobody up. Children of the process, such as data-loader workers, have no
    part in it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with locked(folder):
    ...     sorted(json.loads((folder / NAME).read_text()))
    ['host', 'pid', 'since']
    >>> (folder / NAME).exists()
    False
    """
    path = folder.resolve() / NAME
    with _GUARD:  # a process never stands in its own way at the kernel's, so threads are told apart here
        if path in _HELD:
            raise _taken(path)
        file = _take(folder, path)
        _HELD.add(path)
    try:
        yield
    finally:
        with _GUARD:
            path.unlink(missing_ok=True)
            os.close(file)
            _HELD.discard(path)


def _take(folder: Path, path: Path) -> int:
    """The open, locked file, with our name in it."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(
                f"{folder}: the run folder cannot be written: {error.strerror}; give another one"
            ) from None
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(file, path):
                since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                content = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
                os.ftruncate(file, 0)
                os.pwrite(file, content.encode(), 0)
                return file
        except (BlockingIOError, PermissionError):
            os.close(file)
            raise _taken(path) from None
        except OSError:  # a file system without locks
            return file
        os.close(file)  # its holder has removed it in between


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _taken(path: Path) -> InputError:
    try:
        found = json.loads(path.read_text("utf-8"))
        who = f"process {found['pid']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return InputError(
        f"{path.parent}: {who}, is writing into this run folder; wait for it or stop it, or give another folder"
    )
