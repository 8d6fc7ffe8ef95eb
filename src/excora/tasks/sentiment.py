"""Clips of text, audio and vision whose label is planted: in one frame of a homogeneous vision stream, and as asked.

    vision   the bags of :class:`PlateauTask`: one frame deviates, and the label needs its deviation stretched
    text     mean over the steps along a direction is u ~ N(0, 1);  audio likewise v;  else noise
    label    (plateau label + text u + audio v) / its standard deviation

With ``text = audio = 0``, the default, the signal is in the frames alone, and the order of pools is known beforehand:
mean < softmax < ECA. :meth:`SentimentTask.write` makes files in MMSA's layout of it.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.errors import InputError
from excora.tasks import tasks
from excora.tasks.base import Task
from excora.tasks.plateau import PlateauTask

#: What the transcripts are made of.
WORDS = ("i", "thought", "the", "film", "was", "really", "good", "bad", "slow", "and", "fun")


@tasks.named("sentiment")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SentimentTask(Task):
    """One setting; ``vision`` is the plateau task of the frames.

    >>> task = SentimentTask()
    >>> frames, label = task.sample(4, seed=0)
    >>> frames.shape, [round(pcc, 3) for pcc in (task.mean_pcc, task.best_softmax_pcc, task.bayes_pcc)]
    (torch.Size([4, 10, 16]), [0.498, 0.837, 1.0])
    """

    says: ClassVar[str] = "clips of text, audio and vision whose label one frame gives away; writes MMSA's files"
    vision: PlateauTask = PlateauTask(kappa=2.0).with_dispersion(0.24)  # noqa: RUF009  (frozen)
    text: float = 0.0
    audio: float = 0.0
    text_width: int = 8
    audio_width: int = 5
    text_steps: int = 12
    audio_steps: int = 20

    @property
    def _deviation(self) -> float:
        """Of the label before it is standardised."""
        task = self.vision
        strength = task.kappa**2 if task.form == "strength" else 0.0
        return math.sqrt(task.centre_std**2 + strength + task.label_std**2 + self.text**2 + self.audio**2)

    def _share(self, pcc: float) -> float:
        """Of the whole label, where ``pcc`` is of the plateau's."""
        rest = self.text**2 + self.audio**2
        return pcc * math.sqrt(1.0 - rest / self._deviation**2)

    @property
    def bayes_pcc(self) -> float:
        """Best PCC of any function of the frames."""
        return self._share(self.vision.bayes_pcc)

    @property
    def best_softmax_pcc(self) -> float:
        """Best PCC of softmax attention over the frames with a linear head."""
        return self._share(self.vision.best_softmax_pcc)

    @property
    def mean_pcc(self) -> float:
        """Best PCC of the mean frame with a linear head."""
        return self._share(self.vision.mean_pcc)

    def sample(self, bags: int, *, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Frames (bags, elements, dim) and labels (bags,), of deviation 1."""
        frames, label, _ = self._drawn(bags, seed)
        return frames.to(dtype), label.to(dtype)

    def _drawn(self, clips: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Frames, labels, and what text and audio tell (clips, 2)."""
        frames, label = self.vision.sample(clips, seed=seed, dtype=torch.float64)
        told = torch.randn(clips, 2, generator=torch.Generator().manual_seed(seed + 1_000_003), dtype=torch.float64)
        label = label + told @ torch.tensor([self.text, self.audio], dtype=torch.float64)
        return frames, label / self._deviation, told

    def part(self, clips: int, *, seed: int) -> dict[str, NDArray[Any]]:
        """One part of a file, as MMSA has it: padded on the right, with lengths, labels clipped to [-3, 3].

        A clip keeps its telling frame and at least half of the others, in any order.
        """
        generator = np.random.default_rng([seed, 7])
        frames, label, told = (part.numpy() for part in self._drawn(clips, seed))
        found: dict[str, NDArray[Any]] = {}
        for name, width, steps, column in (
            ("text", self.text_width, self.text_steps, 0), ("audio", self.audio_width, self.audio_steps, 1)
        ):  # fmt: skip
            lengths = generator.integers(steps // 2, steps + 1, clips)
            values = generator.normal(size=(clips, steps, width))
            real = (np.arange(steps) < lengths[:, None])[..., None]
            values[..., 0] -= (values * real)[..., 0].sum(1, keepdims=True) / lengths[:, None]
            values[..., 0] += told[:, column : column + 1]
            found |= {name: (values * real).astype(np.float32), f"{name}_lengths": lengths}
        found["vision"], found["vision_lengths"] = _shortened(frames, generator)
        ids = [f"video{seed}_{k // 10}$_${k % 10}" for k in range(clips)]
        words = [" ".join(generator.choice(WORDS, n)) for n in found["text_lengths"]]
        named = {"id": np.array(ids), "raw_text": np.array(words), "regression_labels": np.clip(label, -3.0, 3.0)}
        return {key: values for key, values in found.items() if key != "text_lengths"} | named | {
            "text_bert": _pieces(words, self.text_steps)
        }  # fmt: skip

    def write(self, path: str | Path, *, clips: tuple[int, int, int] = (300, 100, 200), seed: int = 0) -> Path:
        """A file of train, valid and test clips: .pkl, as MMSA has them, or .npz."""
        path = Path(path)
        names = ("train", "valid", "test")
        content = {name: self.part(n, seed=3 * seed + k) for k, (name, n) in enumerate(zip(names, clips, strict=True))}
        if path.suffix == ".npz":
            flat = {f"{part}/{key}": values for part, held in content.items() for key, values in held.items()}
            np.savez_compressed(path, allow_pickle=False, **flat)
        elif path.suffix == ".pkl":
            path.write_bytes(pickle.dumps(content, protocol=4))
        else:
            raise InputError(f"clips are written as .pkl or .npz, got {path.name!r}")
        return path


def _shortened(frames: NDArray[Any], generator: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """The key, which stands last, among some of the others, in any order; and how many there are."""
    clips, steps, width = frames.shape
    lengths = generator.integers(steps // 2 + 1, steps + 1, clips)
    found = np.zeros((clips, steps, width), np.float32)
    for k, length in enumerate(lengths):
        others = generator.permutation(steps - 1)[: length - 1]
        found[k, :length] = frames[k, generator.permutation([*others, steps - 1])]
    return found, lengths


def _pieces(texts: list[str], steps: int) -> NDArray[np.int64]:
    """``text_bert``, (clips, 3, steps): ids, mask and segments of words that are pieces."""
    found = np.zeros((len(texts), 3, steps), np.int64)
    for k, text in enumerate(texts):
        ids = [1000 + WORDS.index(word) for word in text.split()]
        found[k, 0, : len(ids)], found[k, 1, : len(ids)] = ids, 1
    return found
