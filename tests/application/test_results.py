"""What a run is worth: results, predictions and attention as they are written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from application.samples import ROLES, content
from excora.application import Run, fit, predict
from excora.settings import Settings
from excora.stats.sentiment import sentiment_scores
from excora.tasks.sentiment import WORDS, SentimentTask
from excora.training.evaluation import answers


def test_the_results_are_those_of_the_predictions(home):
    frame, results = pd.read_csv(home / "run" / "predictions.csv"), content(home / "run", "results.json")
    assert list(frame) == ["id", "part", "group", "target:y", "target:z", "prediction:y", "prediction:z", "outside"]
    for part in ("validation", "test"):
        rows = frame[frame["part"] == part]
        assert len(rows) == results["counts"][part]
        for name in ("y", "z"):
            truth, guess = rows[f"target:{name}"], rows[f"prediction:{name}"]
            score = results[part][name]
            assert score["pcc"] == pytest.approx(np.corrcoef(truth, guess)[0, 1], abs=1e-9)
            assert score["mse"] == pytest.approx(np.mean((truth - guess) ** 2))
            assert score["mae"] == pytest.approx(np.mean(np.abs(truth - guess)))
            assert ("low" in score) == (part == "test")
    test = frame[frame["part"] == "test"]
    assert not set(test["group"]) & set(frame[frame["part"] == "validation"]["group"])
    for group in results["groups"]["test"]:
        rows = test[test["group"] == group["group"]]
        errors = rows[["target:y", "target:z"]].to_numpy() - rows[["prediction:y", "prediction:z"]].to_numpy()
        assert group["n"] == len(rows)
        assert group["mse"] == pytest.approx(np.mean(errors**2))
    assert results["stopped"] == "epochs"
    assert results["verdict"]["name"] == "cannot tell"


def test_attention_is_that_of_the_network(home):
    run, attention = Run.load(home / "run"), content(home / "run", "attention.json")["pools"]["pool"]
    assert len(attention["gamma"]) == len(attention["elements"]) == run.results["counts"]["test"]
    assert set(attention["elements"]) == {4}
    for bag in attention["bags"]:
        assert {top["label"] for top in bag["top"]} == {"a", "b", "c", "colour"}
        assert sum(top["weight"] for top in bag["top"]) == pytest.approx(1, abs=1e-5)
        for top in bag["top"]:
            effective = (1 - bag["gamma"]) / 4 + bag["gamma"] * top["weight"]
            assert top["effective"] == pytest.approx(effective, abs=1e-6)
    found = predict(run, home / "data.csv", attention=True)
    first = found.attention[found.attention["id"] == attention["bags"][0]["id"]].set_index("element")
    for top in attention["bags"][0]["top"]:
        assert first.loc[top["label"], "effective"] == pytest.approx(top["effective"], abs=1e-5)


def test_the_effective_number_of_elements(home):
    bag = next(iter(_answers(home))).attention["pool"]
    entropy = -(bag.weight * np.log(bag.weight)).sum()
    assert bag.effective_elements == pytest.approx(np.exp(entropy), rel=1e-5)


def _answers(home):
    from excora.data.reading import read

    run, data = Run.load(home / "run"), read(home / "data.csv", labelled=False, **ROLES)
    return answers(run.network, run.preparation.features(data), np.arange(5), run.setup)


def test_clips_are_judged_as_their_field_does_and_their_words_are_shown(tmp_path):
    task = SentimentTask(text_width=3, audio_width=2, text=1.0)
    path = task.write(tmp_path / "clips.pkl", clips=(30, 12, 16))
    settings = Settings(epochs=1, dim=4, accelerator="cpu", start="none")
    run = fit(path, output=tmp_path / "run", settings=settings, progress=False, baselines=False, drop="audio")
    frame = pd.read_csv(tmp_path / "run" / "predictions.csv")
    test = frame[frame["part"] == "test"]
    wanted = sentiment_scores(test["prediction"], test["target"]).named()
    assert run.results["further"]["test"]["regression_labels"] == pytest.approx(wanted)
    pools = content(tmp_path / "run", "attention.json")["pools"]
    assert set(pools) == {"text", "vision"}
    assert {top["label"] for bag in pools["text"]["bags"] for top in bag["top"]} <= set(WORDS)
    assert all(top["label"].removeprefix("frame ").isdigit() for bag in pools["vision"]["bags"] for top in bag["top"])
    assert "Scores of the field" in (tmp_path / "run" / "report.html").read_text()
