"""The command ``convert``."""

from __future__ import annotations

import pickle

from cli.samples import invoke
from excora.data.reading import read
from excora.tasks.sentiment import SentimentTask


def test_a_pickle_becomes_safetensors(tmp_path, monkeypatch, capsys):
    path = SentimentTask().write(tmp_path / "clips.pkl", clips=(6, 3, 3))
    output = tmp_path / "made" / "clips.safetensors"
    code, printed, _ = invoke(monkeypatch, capsys, "convert", path, output)
    assert code == 0
    assert "12 clips" in printed
    assert read(output).fingerprint() == read(path).fingerprint()
    path.write_bytes(pickle.dumps(print))
    code, _, error = invoke(monkeypatch, capsys, "convert", path, output)
    assert code == 2
    assert "builtins.print" in error
