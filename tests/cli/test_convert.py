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


def test_another_file_is_refused_with_what_is_expected(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    code, _, error = invoke(monkeypatch, capsys, "convert", tmp_path / "t.csv", tmp_path / "x.safetensors")
    assert code == 2
    assert "expected clips, a .pkl or .npz in MMSA's layout" in error
