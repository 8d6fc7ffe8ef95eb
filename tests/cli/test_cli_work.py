"""The commands on the user's own data, as they are typed: what they print, write, refuse."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import call

from excora import cli

QUICK = ["--model", "pool", "--dim", "8", "--heads", "2", "--epochs", "3"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """80 rows: two numbers, a word, a slide, a target."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80), "age": rng.normal(size=80), "kind": rng.choice(["a", "b"], 80)})
    frame["slide"] = np.arange(80) // 4
    frame["y"] = frame["size"] + 0.5 * (frame["kind"] == "a") + 0.1 * rng.normal(size=80)
    file = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(file, index=False)
    return file


@pytest.fixture(scope="module")
def run(table):
    """A finished run and what `excora fit` printed."""
    folder = table.parent / "run"
    options = ["--target", "y", "--group", "slide", "--output", str(folder), *QUICK]
    result = call("fit", str(table), *options)
    assert result.exit_code == 0, result.output
    return folder, result.output


def invoke(monkeypatch, capsys, *arguments):
    """Through main(), as a shell would: exit code, output, errors."""
    monkeypatch.setattr("sys.argv", ["excora", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, *capsys.readouterr()


def test_fit_prints_the_result_and_the_verdict_and_writes_the_run_folder(run):
    folder, printed = run
    for word in ("PCC", "MSE", "test", "report.html"):
        assert word in printed
    assert json.loads((folder / "results.json").read_text())["verdict"]["sentence"] in " ".join(printed.split())
    names = {file.name for file in folder.iterdir()}
    assert names >= {
        "config.json", "weights.safetensors", "preparation.json", "metrics.csv", "monitor.json", "predictions.csv",
        "results.json", "attention.json", "report.html",
    }  # fmt: skip


def test_fit_refuses_a_folder_that_is_taken_and_resumes_a_finished_run(run, table, monkeypatch, capsys):
    folder, _ = run
    options = ["fit", table, "--target", "y", "--group", "slide", "--output", folder, *QUICK]
    code, _, error = invoke(monkeypatch, capsys, *options)
    assert code == 2
    assert "--resume" in error or "resume" in error
    before = (folder / "weights.safetensors").read_bytes()
    code, printed, _ = invoke(monkeypatch, capsys, *options, "--resume", "--json")
    assert code == 0
    assert json.loads(printed)["test"]["y"]["pcc"] is not None
    assert (folder / "weights.safetensors").read_bytes() == before


def test_predict_needs_only_the_run_folder(run, table, tmp_path, monkeypatch, capsys):
    folder, _ = run
    new = tmp_path / "new.csv"
    pd.read_csv(table).drop(columns=["y", "slide"]).head(5).to_csv(new, index=False)
    out, looked = tmp_path / "out.csv", tmp_path / "attention.csv"
    code, printed, _ = invoke(monkeypatch, capsys, "predict", folder, new, "--output", out, "--attention", looked)
    assert code == 0
    assert str(out) in printed
    assert len(pd.read_csv(out)) == 5
    weights = pd.read_csv(looked)
    assert len(weights) == 5 * 3
    assert weights.groupby("id")["weight"].sum().to_numpy() == pytest.approx(np.ones(5), abs=1e-5)


def test_predict_names_the_column_that_is_missing(run, table, tmp_path, monkeypatch, capsys):
    folder, _ = run
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    pd.read_csv(table)[["age", "kind"]].to_csv(new, index=False)
    code, _, error = invoke(monkeypatch, capsys, "predict", folder, new, "--output", out)
    assert code == 2
    assert "'size'" in error
    assert "Traceback" not in error
    assert not out.exists()


def test_validate_says_what_is_there_and_names_every_problem(table, tmp_path, monkeypatch, capsys):
    code, printed, _ = invoke(monkeypatch, capsys, "validate", table, "--target", "y", "--json")
    assert code == 0
    assert json.loads(printed)["samples"] == 80
    broken = tmp_path / "broken.csv"
    frame = pd.read_csv(table)
    frame.loc[3, "y"] = np.inf
    frame.loc[7, "size"] = -np.inf
    frame.to_csv(broken, index=False)
    code, _, error = invoke(monkeypatch, capsys, "validate", broken, "--target", "y")
    assert code == 2
    assert "row 5" in error
    assert "row 9" in error
    assert "Traceback" not in error


def test_compare_says_plainly_what_the_difference_is(table, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "comparison"
    options = ["--target", "y", "--models", "ridge,softmax", "--folds", "2", "--seeds", "2", *QUICK]
    code, printed, _ = invoke(monkeypatch, capsys, "compare", table, *options, "--output", folder)
    assert code == 0
    assert "95 % interval" in printed
    assert "cannot be told apart" in printed or "is better than" in printed or "is worse than" in printed
    content = json.loads((folder / "comparison.json").read_text())
    assert {row["model"] for row in content["rows"]} == {"ridge", "softmax"}
    assert (folder / "report.html").exists()


def test_diagnose_reads_a_run_folder(run, monkeypatch, capsys):
    folder, _ = run
    code, printed, _ = invoke(monkeypatch, capsys, "diagnose", folder, "--json")
    assert code == 0
    assert json.loads(printed)["source"] == "full run"


def test_the_ft_transformer_is_a_model_of_the_application(table, tmp_path, monkeypatch, capsys):
    folder, out, looked = tmp_path / "run", tmp_path / "out.csv", tmp_path / "attention.csv"
    options = ["--target", "y", "--drop", "slide", "--output", folder, *QUICK, "--model", "ft-transformer", "--json"]
    code, printed, _ = invoke(monkeypatch, capsys, "fit", table, *options)
    assert code == 0
    assert json.loads(printed)["test"]["y"]["mse"] > 0
    code, _, _ = invoke(monkeypatch, capsys, "predict", folder, table, "--output", out, "--attention", looked)
    assert code == 0
    weights = pd.read_csv(looked)
    assert set(weights["element"]) == {"CLS", "size", "age", "kind"}
    assert weights.groupby("id")["weight"].sum().to_numpy() == pytest.approx(np.ones(80), abs=1e-5)
    code, _, error = invoke(monkeypatch, capsys, "fit", table, *options[:-1], "--pool", "mean", "--resume")
    assert code == 2
    assert "pool" in error


def test_a_setting_out_of_range_is_refused_by_name(table, tmp_path):
    options = ["--target", "y", "--output", str(tmp_path / "run"), "--dropout", "1.5"]
    result = call("fit", str(table), *options)
    assert result.exit_code != 0
    assert "dropout" in result.output or "dropout" in str(result.exception)


def test_help_imports_neither_torch_nor_sklearn():
    code = "import sys; sys.argv = ['excora', '--help']\nfrom excora.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += "print(sorted({'torch', 'sklearn', 'pandas', 'numpy', 'lightning'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "[]"
    assert "excora demo" in printed
