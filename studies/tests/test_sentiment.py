"""The study ``sentiment`` on a few made clips: reading, splits, trials, seeds, table, page, the published protocol."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from excora.errors import InputError
from excora.tasks.sentiment import SentimentTask
from excora_studies import reproduce
from excora_studies.sentiment import chosen, clips, configure, drawing, fits, page, run_key, trial_key
from excora_studies.sentiment.arms import PARTS, SEEDS, Arm, users_part
from excora_studies.sentiment.table import TOGETHER, make
from excora_studies.tabular.scores import pack, pack_codes

CLIPS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    (where / "mosi").mkdir()
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, 5, CLIPS)
    values = generator.normal(size=(lengths.sum(), 4)).astype(np.float16)
    np.savez(where / "mosi" / clips.TOKENS, values=values, lengths=lengths.astype(np.int16))
    widths = {"text": 3, "audio": 2, "video": 4}
    stored = {name: generator.normal(size=(CLIPS, width)).astype(np.float32) for name, width in widths.items()}
    np.savez(where / "mosi" / clips.UTTERANCE, **stored)
    with (where / "mosi" / clips.LABELS).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "video_id", "clip", "label", "split_standard", "split_bclstm", "text"])
        for k in range(CLIPS):
            part = ("train", "valid", "test")[k // 20]
            old = "test" if k >= 45 else "train"
            writer.writerow(
                [f"v{k // 5}_{k % 5}", f"v{k // 5}", k % 5, round(6 * k / CLIPS - 3, 2), part, old, "A FILM"]
            )
    return where


def test_the_official_split_has_label_free_features_alone(folder, monkeypatch):
    monkeypatch.setattr(clips, "pieces", lambda words, _: words)
    monkeypatch.setattr(clips, "checkpoint", lambda: "")
    found = clips.official(folder, modalities=("text", "audio"))
    assert [len(part) for part in found.split] == [20, 20, 20]
    assert list(found.dataset.content.frames) == ["text", "audio"]
    assert found.dataset.content.words[0] == "a film"
    assert len(np.unique(found.unit)) == 12
    assert [len(part) for part in clips.official(folder, modalities=("words",), rows=3).split] == [3, 3, 3]


def test_the_other_split_keeps_videos_whole_and_shows_the_neighbours(folder):
    found = clips.utterance(folder, modalities=("text", "audio", "vision"))
    assert found.split.test.tolist() == list(range(45, 60))
    group = found.dataset.group
    assert not {*group[found.split.validation]} & {*group[found.split.train]}
    bags = found.dataset.content.frames["audio"].bags
    assert bags.lengths[:5].tolist() == [4, 5, 5, 5, 4]
    assert bags.read(2)[:, -1].tolist() == [1, 0, 0, 0, 0]
    np.testing.assert_array_equal(bags.read(2)[1, :2], bags.read(1)[0, :2])


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="the study reads"):
        clips.official(tmp_path)
    assert clips.mmsa_file(tmp_path) is None


def test_every_arm_can_be_asked_for():
    for part in PARTS.values():
        for name, arm in part.arms.items():
            assert arm.reference is None or arm.reference in part.arms, name
            assert 1 <= arm.seeds <= len(SEEDS)
            if not arm.ridge and not {"words", "near"} & {*arm.modalities}:
                for trial in arm.trials:
                    settings = fits.asked(arm, dict(trial), 1284)
                    assert fits.Settings(**settings).settled("modalities", 1284).model == settings["model"]


def test_a_users_own_file(tmp_path):
    path = SentimentTask().write(tmp_path / "unaligned_50.pkl", clips=(20, 8, 10))
    assert clips.mmsa_file(tmp_path) == path
    part = users_part(path)
    found = part.read(tmp_path, modalities=("text", "vision"))
    assert [len(one) for one in found.split] == [20, 8, 10]
    assert list(found.dataset.content.frames) == ["text", "vision"]
    assert {"ALMT", "TFN", "ICCN (our reading)"} <= {*part.arms}


def made_results(configuration, part="frozen text"):
    generator = np.random.default_rng(0)
    label = generator.normal(size=30).clip(-3, 3)
    about = configuration["parts"][part]
    results = {
        f"{part} | test part": {"target": pack(label), "unit": pack_codes(np.arange(30) // 3), "sizes": [1, 1, 30]}
    }
    for k, (arm, one) in enumerate(about["arms"].items()):
        first, *others = configuration["seeds"]
        keys = [trial_key(part, arm, n, first) for n in range(len(one["trials"]))]
        keys += [run_key(part, arm, seed) for seed in others]
        for n, key in enumerate(keys):
            guess = label + (0.3 + 0.2 * k) * generator.normal(size=30)
            scores = fits.sentiment_scores(guess, label).named()
            curves = {"pcc": [0.1, 0.2], "mse": [1.0, 0.9]}
            more = {"criterion": 1.0 - (n == 1) / 2, "epoch": 3, "seconds": 1.0, "curves": curves}
            trial = n if n < len(one["trials"]) else min(1, len(one["trials"]) - 1)
            results[key] = scores | more | {"prediction": pack(guess), "trial": trial}
    return part, results


def test_validation_picks_the_trial_and_differences_are_paired(folder):
    configuration = configure(seeds=2, preset="cpu", data=folder)
    part, results = made_results(configuration)
    arms = configuration["parts"][part]["arms"]
    name = "streams, linear: ECA"
    assert chosen(arms[name], part, name, results) == 1
    assert chosen(arms[name], part, name, {}) is None
    report = make(configuration, results)
    rows = {row["arm"]: row for row in report.rows}
    assert rows[name]["seeds"] == 2
    assert rows[name]["PCC"] < rows["streams, linear: softmax"]["PCC"]
    pair = next(one for one in report.summary["pairs"] if one["first"] == name)
    assert pair["second"] == "streams, linear: softmax"
    assert pair["PCC"]["low"] < pair["PCC"]["difference"] < pair["PCC"]["high"]
    assert pair["PCC"]["difference"] == pytest.approx(
        rows[name]["PCC"] - rows["streams, linear: softmax"]["PCC"], abs=2e-3
    )
    assert any("tuned MiniLM: ECA" in one for one in report.summary["missing"])
    contents = {"sentiment": {"configuration": configuration, "table": report.rows, "summary": report.summary}}
    for block in page.BLOCKS.values():
        assert block(contents)
    assert "| streams, linear: ECA |" in page.scores(contents)


def test_the_published_protocol_is_labelled(folder):
    configuration = configure(seeds=1, preset="published", data=folder)
    _, results = made_results(configuration)
    report = make(configuration, results)
    assert {row["chosen by"] for row in report.rows} == {"test (best test epoch)"}
    assert report.notes[0].startswith("best test epoch")


def test_the_test_part_picks_the_epoch_only_where_that_is_published(folder, monkeypatch):
    monkeypatch.setattr(clips, "pieces", lambda words, _: words)
    monkeypatch.setattr(clips, "checkpoint", lambda: "")
    seen = []
    monkeypatch.setattr(fits, "train", lambda *given, **_: seen.append(given[3]) or 1 / 0)
    arm = Arm(("text",), {"model": "streams", "layers": 0, "start": "none"})
    for chooses in ("validation", "test"):
        with pytest.raises(ZeroDivisionError):
            fits.run(clips.official(folder), arm, {}, 1, chooses=chooses, epochs=1)
    assert seen[0].validation.tolist() == list(range(20, 40))
    assert seen[1].validation.tolist() == seen[1].test.tolist() == list(range(40, 60))


def test_the_study_runs_from_one_end_to_the_other(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(clips, "pieces", lambda words, _: words)
    monkeypatch.setattr(clips, "checkpoint", lambda: "")
    content = reproduce("sentiment", tmp_path / "out", data=folder, preset="quick")
    assert content["complete"]
    assert [row["arm"] for row in content["table"]] == [
        "ridge, text",
        "streams, linear: softmax",
        "streams, linear: ECA",
    ]
    assert (tmp_path / "out" / "scores.png").exists()
    for name in ("predicted", "epochs", "attention"):
        assert (tmp_path / "out" / f"{name}.png").exists(), name
    shown = content["summary"]["attention"]["frozen text"]["streams, linear: ECA"]
    assert len(shown) == fits.SHOWN
    assert shown[0]["predicted"] <= shown[-1]["predicted"]
    assert sum(weight for _, weight in shown[0]["words"]) == pytest.approx(1.0, abs=1e-4)
    assert "| streams, linear: ECA |" in page.words({"sentiment": content})
    assert content["summary"]["seconds"]["frozen text"]["ridge, text"] < 60
    assert "| frozen text | 3 |" in page.seconds({"sentiment": content})


def test_planted_clips_tell_by_vision_alone():
    found = clips.planted(None, modalities=("vision",))
    assert [len(part) for part in found.split] == [500, 200, 400]
    assert list(found.dataset.content.frames) == ["vision"]


def test_frames_are_shown_and_the_error_of_every_epoch_is_that_of_validation():
    made = clips.planted(None, modalities=("vision",))
    arm = PARTS["planted"].arms["streams, linear: ECA"]
    found = fits.run(made, arm, {"learning_rate": 0.03}, 1, chooses="validation", epochs=3)
    assert len(found["curves"]["mae"]) == len(found["curves"]["mse"]) == 3
    label = made.dataset.target[made.split.validation, 0]
    scale = made.dataset.target[made.split.train, 0].std()
    for mae, mse in zip(found["curves"]["mae"], found["curves"]["mse"], strict=True):
        assert 0.5 * scale * mse**0.5 < mae < scale * mse**0.5 < 2 * label.std()
    clip = found["attention"][0]
    lengths = made.dataset.content.frames["vision"].bags.lengths[made.split.test]
    assert len(clip["frames"]["vision"]) in lengths
    assert sum(clip["frames"]["vision"]) == pytest.approx(1.0, abs=1e-4)
    assert "words" not in clip


def test_a_curve_is_dashed_from_where_it_is_flat():
    epochs = np.arange(60)
    pcc, mse = (0.8 * (1 - np.exp(-epochs / 4))).tolist(), (1 / (1 + epochs)).tolist()
    rising, flat = drawing._with_plateau("a", {"pcc": pcc, "mse": mse}, mse)
    assert (rising.dashed, flat.dashed) == (False, True)
    assert rising.x[-1] == flat.x[0]
    assert [*rising.y, *flat.y[1:]] == mse
    assert len(drawing._with_plateau("a", {"pcc": [0.1, 0.2], "mse": [1.0, 0.9]}, [1.0, 0.9])) == 1


def test_what_was_said_around_a_clip_follows_its_end_mark(folder):
    words = clips.official(folder, modalities=("near", "around"), rows=2).dataset.content.words
    assert words[0] == "a film [SEP]  [SEP] a film"
    assert words[1] == "a film [SEP] a film [SEP] a film"


def test_all_runs_of_the_tuned_part_have_one_vote_each(folder):
    configuration = configure(seeds=2, preset="cpu", data=folder)
    _, results = made_results(configuration, "tuned text")
    rows = [row for row in make(configuration, results).rows if row["part"] == "tuned text"]
    assert rows[-1]["arm"] == TOGETHER[1]
    assert rows[-1]["seeds"] == sum(row["seeds"] for row in rows[:-1])
    assert {*rows[-1]} == {*rows[0]}
    assert rows[-1]["PCC"] > max(row["PCC"] for row in rows[:-1])
