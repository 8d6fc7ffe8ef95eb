"""``excora`` itself: how errors and Ctrl-C end, and what the help leaves alone."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from excora import cli
from excora.errors import InputError


def test_help_imports_neither_torch_nor_sklearn():
    code = "import sys; sys.argv = ['excora', '--help']\nfrom excora.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print(sorted({'torch', 'numba', 'sklearn', 'pandas', 'numpy', 'lightning'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "[]"
    assert "excora demo" in printed


def test_no_example_of_the_help_wraps_at_80_columns():
    """A line that wraps cannot be pasted; the frame and its margin take up to four columns."""
    folder = Path(cli.__file__).parent
    examples = [line.strip() for file in folder.glob("*.py") for line in file.read_text(encoding="utf-8").splitlines()]
    examples = [line for line in examples if re.match(r"excora [a-z]+ ", line)]
    assert len(examples) > 20
    assert [line for line in examples if len(line) > 76] == []


def test_an_error_of_ours_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def fail(_: object) -> None:
        raise InputError("width 5, got 4")

    monkeypatch.setattr(cli, "application", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.strip() == "error: width 5, got 4"


@pytest.mark.parametrize(("command", "hint"), [("fit", True), ("compare", True), ("tune", True), ("demo", False)])
def test_ctrl_c_ends_with_what_to_do_in_place_of_a_traceback(command, hint, monkeypatch, capsys):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "application", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "x.csv"])
    assert stop.value.code == 130
    printed = capsys.readouterr().err
    assert printed.startswith("stopped")
    assert ("--resume" in printed) is hint


def test_a_full_disk_is_one_line_and_another_failure_is_not_hidden(monkeypatch, capsys):
    def fails(number: int) -> Callable[[object], None]:
        def fail(_: object) -> None:
            raise OSError(number, os.strerror(number), "run/x")

        return fail

    monkeypatch.setattr(cli, "application", fails(errno.ENOSPC))
    with pytest.raises(SystemExit) as stop:
        cli.main(["compare", "x.csv"])
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert "No space left on device: run/x; what is finished stays" in printed
    assert "--resume" in printed
    monkeypatch.setattr(cli, "application", fails(errno.ENOENT))
    with pytest.raises(FileNotFoundError):
        cli.main(["fit"])


@pytest.mark.parametrize(
    ("shell", "line", "words"),
    [
        ("bash", {"COMP_WORDS": "excora fit --pat", "COMP_CWORD": "2"}, ["--patience"]),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "excora predict run --over"}, ["--overwrite"]),
        ("bash", {"COMP_WORDS": "excora va", "COMP_CWORD": "1"}, ["validate"]),
    ],
)
def test_a_shell_completes_commands_and_their_options(shell, line, words, monkeypatch, capsys):
    for name, value in {"_EXCORA_COMPLETE": f"complete_{shell}", **line}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["excora"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr().out
    assert stop.value.code in (0, None)
    assert all(word in printed for word in words)


def test_the_message_for_a_missing_target_names_the_option(monkeypatch, capsys, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n3,4\n" * 9)
    with pytest.raises(SystemExit):
        cli.main(["fit", str(tmp_path / "a.csv"), "--output", str(tmp_path / "run")])
    assert "name the column to predict with --target" in capsys.readouterr().err
