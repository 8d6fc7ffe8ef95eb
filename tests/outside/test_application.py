"""Pool, model and source of other packages through the application: fit, predict, compare, report, command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import samples_data
from commands import call
from data import toy_source

from excora import Run, Settings, compare, fit, predict
from excora.errors import InputError


@pytest.fixture
def table(tmp_path):
    data = samples_data.table()
    path = tmp_path / "table.csv"
    data.content.frame.assign(y=data.target[:, 0]).to_csv(path, index=False)
    return path


@pytest.fixture
def lines(tmp_path):
    """A source of its own: the label is how often the letter a occurs, less that of b."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 12)) for _ in range(80)]
    path = tmp_path / "lines.txt"
    path.write_text("# lines\n" + "".join(f"{word.count('a') - word.count('b')}\t{word}\n" for word in words))
    return path


@pytest.mark.usefixtures("guests")
def test_a_pool_from_outside(table, tmp_path):
    settings = Settings("pool", pool="toy-pool", dim=8, heads=2, epochs=2)
    run = fit(table, target="y", output=tmp_path / "run", settings=settings, progress=False)
    again = Run.load(tmp_path / "run")
    assert again.setup.options.pool == "toy-pool"
    found = predict(again, table, attention=True)
    assert found.attention.groupby("id")["effective"].sum().to_numpy() == pytest.approx(1.0, abs=1e-5)
    assert found.attention["effective"].min() < found.attention["weight"].min()
    assert "toy-pool" in (run.path / "report.html").read_text()
    both = compare(table, target="y", models=["pool:toy-pool", "ridge"], folds=2, seeds=1, settings=settings)
    assert {row.label for row in both.rows} == {"pool, two softmaxes", "ridge"}


@pytest.mark.usefixtures("guests")
def test_a_model_from_outside(table, tmp_path):
    shown = call("fit", "--model", "toy-model", "--help").output
    assert "--rebuilding" in shown
    assert "--neighbours" not in shown
    options = ["--target", "y", "--output", tmp_path / "run", "--rebuilding", "0.5", "--epochs", "3", "--json"]
    said = call("fit", table, "--model", "toy-model", *options)
    assert said.exit_code == 0, said.output
    assert json.loads(said.output[said.output.index("{") :])["epochs"] == 3
    run = Run.load(tmp_path / "run")
    assert run.setup.options.to_dict()["rebuilding"] == 0.5
    assert len(predict(run, table).frame) == len(samples_data.table())
    with pytest.raises(InputError, match="has no pool, so there is no attention"):
        predict(run, table, attention=True)
    assert (run.path / "report.html").stat().st_size > 10_000
    assert "toy-model" in call("models").output
    found = compare(table, target="y", models=["toy-model", "ridge"], folds=2, seeds=1, settings=Settings(epochs=2))
    assert {row.model for row in found.rows} == {"toy-model", "ridge"}


@pytest.mark.usefixtures("guests")
def test_a_source_from_outside(lines, tmp_path):
    toy_source.register()
    run = fit(lines, output=tmp_path / "run", settings=Settings(epochs=60, batch_size=16), progress=False)
    assert run.setup.model == "toy-reader"
    assert run.results["test"]["y"]["pcc"] > 0.95
    new = tmp_path / "new.txt"
    new.write_text("# lines\naaaa\nbbbb\n")
    first, second = predict(run.path, new).frame["prediction"]
    assert first > second
    found = compare(
        lines, models=["toy-reader", "ridge"], folds=2, seeds=1, settings=Settings(epochs=3), output=tmp_path / "c"
    )
    assert {row.model for row in found.rows} == {"toy-reader", "ridge"}
    assert (tmp_path / "c" / "report.html").exists()


def test_a_run_of_a_model_that_is_not_there_says_so(table, tmp_path, guests):
    settings = Settings("toy-model", epochs=1)
    fit(table, target="y", output=tmp_path / "run", settings=settings, progress=False)
    guests.leave()
    with pytest.raises(InputError, match=r"there is no model 'toy-model'.*once that package is imported"):
        Run.load(tmp_path / "run")
