"""fit: what it writes down, and how it goes on with a run."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from application.samples import ROLES, TINY, content, table
from excora.application import fit, predict
from excora.application.fitting import AGAIN
from excora.application.run import Run
from excora.errors import InputError
from excora.settings import Settings, Setup
from excora.training import train


def test_the_configuration_names_everything(home):
    config, results = content(home / "run", "config.json"), content(home / "run", "results.json")
    assert config["state"] == "finished"
    assert Setup.from_dict(config["settings"]) == TINY.settled("table", 54)
    assert config["data"]["target"] == ["y", "z"]
    assert config["split"] == {"validation": 0.2, "test": 0.2}
    assert set(config["settings"]) == {"model", "options", "recipe", "machine"}
    assert {"python", "torch", "lightning", "numpy", "platform"} <= set(config["environment"])
    assert config["rerun"].startswith(f"excora fit {home / 'data.csv'} --target y --target z --group slide")
    assert "--dim 8" in config["rerun"]
    assert (home / "run" / "report.html").stat().st_size > 10_000
    assert len((home / "run" / "metrics.csv").read_text().splitlines()) == 1 + results["epochs"]


def test_resuming_another_run_says_what_differs(home, copy):
    table().assign(a=0.5).to_csv(copy.parent / "other.csv", index=False)
    changed = TINY.replace(dim=16, epochs=1, workers=2)
    with pytest.raises(InputError) as raised:
        fit(copy.parent / "other.csv", output=copy, settings=changed, resume=True, test=0.3, progress=False, **ROLES)
    for word in ("dim was 8 and is 16", "epochs was 2 and is 1", "the data have changed", "test was 0.2 and is 0.3"):
        assert word in str(raised.value)
    assert "workers" not in str(raised.value)
    (copy / "config.json").unlink()
    with pytest.raises(InputError, match="no run to resume here"):
        fit(home / "data.csv", output=copy, settings=TINY, resume=True, progress=False, **ROLES)


def interrupted(*arguments, **options):
    """What train gives after Ctrl-C."""
    return dataclasses.replace(train(*arguments, **options), stopped="interrupted")


def test_a_run_that_was_interrupted_has_not_seen_its_test_part(home, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.application.fitting.train", interrupted)
    run = fit(home / "data.csv", output=tmp_path / "run", settings=TINY, progress=False, **ROLES)
    assert (run.results["test"], run.results["groups"]) == ({}, {"test": []})
    assert sorted(run.results["validation"]) == ["y", "z"]
    assert set(run.predictions["part"]) == {"validation"}
    text = io.StringIO()
    Console(file=text, width=200).print(run)
    assert "the test part waits for the end" in text.getvalue()
    assert " test " not in text.getvalue().partition("model pool")[0]
    page = (run.path / "report.html").read_text()
    assert "What is shown is the validation part" in page
    assert "Test PCC" not in page
    monkeypatch.undo()
    done = fit(home / "data.csv", output=tmp_path / "run", settings=TINY, resume=True, progress=False, **ROLES)
    assert done.results["test"] == content(home / "run", "results.json")["test"]
    assert AGAIN not in done.results["notes"]


def test_a_run_that_goes_on_after_its_end_says_that_test_was_looked_at_before(home, copy):
    longer = TINY.replace(epochs=3)
    run = fit(home / "data.csv", output=copy, settings=longer, resume=True, progress=False, **ROLES)
    assert run.results["notes"][-1] == AGAIN
    assert AGAIN not in content(home / "run", "results.json")["notes"]


def test_a_finished_run_is_not_trained_again(home, copy, monkeypatch):
    monkeypatch.setattr("excora.application.fitting.train", None)
    run = fit(home / "data.csv", output=copy, settings=TINY, resume=True, progress=False, **ROLES)
    assert run.results == content(home / "run", "results.json")


def test_resuming_without_a_run_starts_one(home, tmp_path):
    run = fit(home / "data.csv", output=tmp_path / "run", settings=TINY, resume=True, progress=False, **ROLES)
    assert (run.path / "weights.safetensors").read_bytes() == (home / "run" / "weights.safetensors").read_bytes()


def test_what_is_done_is_said_before_it_is_done(home, tmp_path, capsys):
    fit(home / "data.csv", output=tmp_path / "run", settings=TINY, **ROLES)
    printed, said = capsys.readouterr()
    lines = said.splitlines()
    assert printed == ""
    assert lines[:2] == [f"reading {home / 'data.csv'}", "90 rows read"]
    assert lines[2].startswith("model pool, samples: ")
    assert lines[3].startswith("training ")


def test_simple_models_stand_beside_the_model(home):
    results = content(home / "run", "results.json")
    assert [one["name"] for one in results["baselines"]] == ["ridge", "LightGBM", "ExtraTrees", "neighbours"]
    for one in results["baselines"]:
        assert set(one["validation"]) == set(one["test"]) == {"pcc", "mse"}
    assert 0.5 < results["baselines"][0]["test"]["pcc"] <= 1
    page = (home / "run" / "report.html").read_text()
    assert f"beside ridge {results['baselines'][0]['test']['pcc']:.3f}, LightGBM" in page


def test_they_can_be_left_out(home, tmp_path, monkeypatch):
    monkeypatch.setattr("excora.application.fitting.simple_models", None)
    run = fit(home / "data.csv", output=tmp_path / "run", settings=TINY, progress=False, baselines=False, **ROLES)
    assert run.results["baselines"] == []
    assert run.config["rerun"].endswith("--no-baselines")
    assert (run.path / "weights.safetensors").read_bytes() == (home / "run" / "weights.safetensors").read_bytes()


def test_the_start_is_told_kept_and_loaded(home):
    results, run = content(home / "run", "results.json"), Run.load(home / "run")
    assert results["start"]["kind"] == "ridge"
    assert results["start"]["targets"] == 2
    assert results["start"]["low"] > 0
    assert results["start"]["note"] in results["notes"]
    assert 0 < results["start"]["validation"]["pcc"] <= 1
    assert run.network.linear_start is not None
    told = run.predictions[run.predictions["part"] == "test"]
    again = predict(run, home / "data.csv").frame.set_index("id").loc[told["id"].astype(str)]
    np.testing.assert_allclose(again["prediction:z"], told["prediction:z"], rtol=1e-5)


def test_a_run_that_keeps_the_ridge_says_so(home, tmp_path):
    harmful = TINY.replace(learning_rate=0.3, start="ridge")
    run = fit(home / "data.csv", output=tmp_path / "run", settings=harmful, progress=False, baselines=False, **ROLES)
    assert run.results["best_epoch"] == -1
    assert any("the ridge is what predicts" in note for note in run.results["notes"])
    assert "which is kept" in (run.path / "report.html").read_text()
    assert Run.load(run.path).results["best_epoch"] == -1


def test_events_are_fitted_by_their_times_and_predicted_wherever_they_stand(tmp_path):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": np.repeat(np.arange(60), 5), "t": generator.exponential(size=300), "x": generator.normal(size=300)}
    )
    frame["y"] = np.repeat(generator.normal(size=60), 5)
    frame.to_csv(tmp_path / "events.csv", index=False)
    roles = {"bag": "id", "time_within": "t", "target": "y"}
    run = fit(tmp_path / "events.csv", output=tmp_path / "run", settings=TINY, progress=False, **roles)
    assert "--time-within t" in content(tmp_path / "run", "config.json")["rerun"]
    frame.assign(t=frame["t"] + 1000).sample(frac=1, random_state=0).to_csv(tmp_path / "later.csv", index=False)
    before, after = (
        predict(run, tmp_path / name).frame.set_index("id")["prediction"] for name in ("events.csv", "later.csv")
    )
    np.testing.assert_allclose(after[before.index], before, atol=1e-4)
    frame.assign(t=3 * frame["t"]).to_csv(tmp_path / "slower.csv", index=False)
    assert np.abs(predict(run, tmp_path / "slower.csv").frame.set_index("id")["prediction"] - before).max() > 1e-3


def test_the_best_model_is_chosen_on_validation_and_is_a_run_like_any_other(tmp_path, monkeypatch):
    table().to_csv(tmp_path / "data.csv", index=False)
    settings = Settings("best", neighbours=5, epochs=1, batch_size=32)
    run = fit(tmp_path / "data.csv", output=tmp_path / "run", settings=settings, progress=False, **ROLES)
    tried, chosen = run.results["candidates"], run.config["settings"]["model"]
    assert [one["model"] for one in tried] == ["kriging", "retrieval"]
    assert chosen == min(tried, key=lambda one: one["validation"]["criterion"])["model"]
    assert run.results["notes"][-1].startswith(f"{chosen} is the best of these on the validation part")
    assert f"--model {chosen}" in run.config["rerun"]
    assert f"{chosen} is the best of these" in (run.path / "report.html").read_text()
    assert predict(run.path, tmp_path / "data.csv").frame["prediction:y"].notna().all()
    monkeypatch.setattr("excora.application.fitting.choose", None)  # what was chosen is not looked for again
    again = fit(tmp_path / "data.csv", output=tmp_path / "run", settings=settings, resume=True, progress=False, **ROLES)
    assert again.config["candidates"] == tried
    config = content(tmp_path / "run", "config.json")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"candidates": [{"model": 3}]}))
    with pytest.raises(InputError, match=r"candidates in .* are damaged"):
        fit(tmp_path / "data.csv", output=tmp_path / "run", settings=settings, resume=True, progress=False, **ROLES)
