"""The planted clips: what is in which modality, the closed forms, and the files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora.data.reading import read
from excora.errors import InputError
from excora.stats.correlation import pearson
from excora.tasks.sentiment import SentimentTask


def corr(a, b) -> float:
    return float(pearson(np.asarray(a, float)[:, None], np.asarray(b, float)[:, None])[0])


def test_the_label_has_deviation_one_and_the_mean_frame_its_closed_form():
    task = SentimentTask()
    frames, label = task.sample(20_000, seed=1)
    assert float(label.std()) == pytest.approx(1.0, abs=0.02)
    along = task.vision.directions()[0].float()
    assert corr(frames.mean(1) @ along, label) == pytest.approx(task.mean_pcc, abs=0.02)
    assert task.mean_pcc < task.best_softmax_pcc - 0.1 < task.bayes_pcc - 0.2


def test_text_and_audio_tell_what_they_are_asked_to():
    task = SentimentTask(text=1.0, audio=2.0)
    part = task.part(3000, seed=0)
    text = part["text"][..., 0].sum(1) / part["text_bert"][:, 1].sum(1)
    audio = part["audio"][..., 0].sum(1) / part["audio_lengths"]
    total = 1 + 4 + 1 + 4 + 1e-4
    assert corr(text, part["regression_labels"]) == pytest.approx((1 / total) ** 0.5, abs=0.05)
    assert corr(audio, part["regression_labels"]) == pytest.approx((4 / total) ** 0.5, abs=0.05)
    assert task.bayes_pcc == pytest.approx((5 / total) ** 0.5, abs=1e-3)
    silent = SentimentTask().part(3000, seed=0)
    assert abs(corr(silent["audio"][..., 0].sum(1) / silent["audio_lengths"], silent["regression_labels"])) < 0.06


@pytest.mark.parametrize("suffix", [".pkl", ".npz"])
def test_files_are_what_the_source_reads(tmp_path, suffix):
    task = SentimentTask()
    path = task.write(tmp_path / f"clips{suffix}", clips=(20, 6, 8), seed=2)
    found = read(path)
    assert np.unique(found.part, return_counts=True)[1].tolist() == [8, 20, 6]
    assert list(found.content.frames) == ["text", "audio", "vision"]
    assert found.notes == ()
    part = task.part(20, seed=6)
    frames = found.content.frames["vision"].bags
    assert (frames.lengths[:20] == part["vision_lengths"]).all()
    np.testing.assert_array_equal(frames.read(3), part["vision"][3, : part["vision_lengths"][3]])
    assert np.abs(found.target).max() <= 3


def test_the_telling_frame_is_kept():
    task = SentimentTask()
    part, (frames, _) = task.part(50, seed=4), task.sample(50, seed=4)
    key = frames[:, -1].numpy()
    assert all(np.isclose(clip, one).all(1).any() for clip, one in zip(part["vision"], key, strict=True))
    assert torch.isfinite(torch.from_numpy(part["vision"])).all()


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.pkl or \.npz"):
        SentimentTask().write(tmp_path / "a.csv")
