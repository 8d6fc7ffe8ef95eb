"""The parts of the study and their arms: what each is asked for, the trials that tune it, and how often it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from excora_studies.sentiment.clips import Clips, official, planted, users, utterance

#: Of the published trainings, in this order.
SEEDS = (1111, 1112, 1113, 1114, 1115)
Trial = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """``settings`` of a run; each of the ``trials`` is tried with the first seed, and validation picks one.

    ``modalities`` that it sees; ``ridge``: no network but a ridge regression on the means. ``reference``: the arm of
    the same part that it is compared with.
    """

    modalities: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ({},)
    seeds: int = 5
    reference: str | None = None
    published: str = ""  #: figures beside it: F1 Non0 / MAE / PCC, and what differs
    ridge: bool = False


@dataclass(frozen=True)
class Part:
    """Clips, how they are read, and the arms."""

    name: str
    says: str
    read: Callable[..., Clips]
    arms: Mapping[str, Arm]


_LINEAR = {
    "model": "streams", "layers": 0, "start": "none", "correlation": "none", "batch_size": 64, "epochs": 40,
    "patience": 6,
}  # fmt: skip
_ENCODED = _LINEAR | {"layers": 1, "dim": 64}
_RATES = tuple({"learning_rate": rate, "weight_decay": 1.0} for rate in (5e-4, 1e-3, 2e-3))
_LINEAR_TRIALS = (*_RATES, {"learning_rate": 1e-3, "weight_decay": 1e-2})
_ENCODED_TRIALS = (
    *({"learning_rate": rate, "weight_decay": 0.1} for rate in (1e-4, 3e-4, 1e-3)),
    {"learning_rate": 3e-4, "weight_decay": 0.1, "dropout": 0.5},
)
#: Of a published model: its own rate, and a third of it.
_OWN: tuple[Trial, ...] = ({}, {"slower": 3.0})
#: ALMT's own budget, 100 epochs and a patience of 32, is more than two cores allow; the others keep theirs.
_SHORTER = {"epochs": 40, "patience": 10}
_PCC, _DNPL = ({"correlation": name, "correlation_weight": 1.0, "fewest": 8} for name in ("pearson", "dnpl"))
#: Of the papers' tables, with BERT fine-tuned or frozen, audio and vision, best test epoch or not: F1 / MAE / PCC.
PUBLISHED = {
    "tfn": ".791 / .947 / .673", "lmf": ".824 / .917 / .695", "ef-lstm": ".785 / .949 / .669",
    "lf-dnn": ".786 / .955 / .658", "graph-mfn": ".784 / .956 / .649", "mult": ".828 / .871 / .698",
    "misa": ".836 / .777 / .778", "iccn": ".830 / .860 / .710", "dlf": ".850 / .731 / .781",
    "almt": ".851 / .721 / .783",
}  # fmt: skip
NAMES = {
    "tfn": "TFN", "lmf": "LMF", "ef-lstm": "EF-LSTM", "lf-dnn": "LF-DNN", "graph-mfn": "Graph-MFN", "mult": "MulT",
    "misa": "MISA", "iccn": "ICCN (our reading)", "dlf": "DLF", "almt": "ALMT",
}  # fmt: skip


def _pools(seen: tuple[str, ...], host: dict[str, Any], trials: tuple[Trial, ...], names: Mapping[str, str]) -> Any:
    """An arm a pool; all but softmax are compared with it."""
    word = "linear" if not host["layers"] else "encoder"
    softmax = f"streams, {word}: softmax"
    return {
        f"streams, {word}: {label}": Arm(
            seen, host | {"pool": pool}, trials, reference=None if pool == "softmax" else softmax
        )
        for label, pool in names.items()
    }


def _ridge(*seen: str) -> dict[str, Arm]:
    return {f"ridge, {' + '.join(seen)}": Arm(seen, seeds=1, ridge=True)}


def _hosts(seen: tuple[str, ...], stream: str, models: tuple[str, ...], seeds: int) -> dict[str, Arm]:
    """The published models, then ALMT with the correlation loss and with ECA in one of its streams."""
    found = {
        NAMES[name]: Arm(seen, {"model": name}, _OWN, seeds, published=PUBLISHED[name])
        for name in models
        if name != "almt"
    }
    almt: dict[str, Any] = {"model": "almt", **_SHORTER}
    eca = almt | {f"{stream}_pool": "eca"}
    found |= {
        "ALMT": Arm(seen, almt, _OWN, seeds, published=PUBLISHED["almt"]),
        "ALMT + PCC loss": Arm(seen, almt | _PCC, _OWN, seeds, "ALMT", ".834 / .731 / .791"),
        f"ALMT + ECA ({stream}) + DNPL": Arm(seen, eca | _DNPL, _OWN, seeds, "ALMT", ".859 / .695 / .806"),
        f"ALMT + ECA ({stream})": Arm(seen, eca, _OWN, seeds, "ALMT"),
        "ALMT + DNPL": Arm(seen, almt | _DNPL, _OWN, seeds, "ALMT"),
    }
    return found


_FOUR = {"mean": "mean", "softmax": "softmax", "gated": "gated", "ECA": "eca", "ECA, the paper's form": "eca-paper"}
_THREE = {"softmax": "softmax", "gated": "gated", "ECA": "eca"}
_NINE = ("tfn", "lmf", "ef-lstm", "lf-dnn", "graph-mfn", "mult", "misa", "dlf", "almt")
_TEXT, _HEARD, _SEEN = ("text",), ("text", "audio"), ("text", "audio", "vision")
_AROUND = ("text", "around")
_TUNED = {
    "model": "streams", "layers": 0, "start": "none", "batch_size": 32, "epochs": 6, "patience": 6,
    "schedule": "cosine", "clip": 1.0, "weight_decay": 1e-2, "learning_rate": 1e-3, "tune_text": True,
    "correlation": "pearson", "correlation_weight": 0.5,
}  # fmt: skip
#: Steps of the encoder: 5e-5 and 1e-4 at their highest.
_TUNED_TRIALS = ({"pretrained_rate": 0.05}, {"pretrained_rate": 0.1})

PARTS = {
    part.name: part
    for part in (
        Part("frozen text", "official split, frozen MiniLM word pieces", official, {
            **_ridge("text"), **_pools(_TEXT, _LINEAR, _LINEAR_TRIALS, _FOUR),
            **_pools(_TEXT, _ENCODED, _ENCODED_TRIALS, _THREE),
            "streams, encoder: ECA + DNPL": Arm(_TEXT, _ENCODED | {"pool": "eca"} | _DNPL, _ENCODED_TRIALS,
                                                reference="streams, encoder: softmax"),
        }),
        Part("text, clips around", "the same, and the mean word piece of three clips before and after", official, {
            **_ridge(*_AROUND), **_pools(_AROUND, _ENCODED, _ENCODED_TRIALS, _THREE),
        }),
        Part("tuned text", "official split, MiniLM fine-tuned end to end", official, {
            **{
                f"tuned MiniLM: {label}": Arm((*seen,), _TUNED | {"pool": pool}, _TUNED_TRIALS, 3,
                                              None if label == "softmax" else "tuned MiniLM: softmax")
                for label, pool, *seen in (
                    ("mean", "mean", "words"), ("softmax", "softmax", "words"), ("ECA", "eca", "words"),
                    ("softmax, clips around", "softmax", "words", "around"),
                )
            },
            **{
                f"tuned MiniLM: {label}": Arm((*seen,), _TUNED | {"pool": "mean"} | more, _TUNED_TRIALS[1:], seeds,
                                              "tuned MiniLM: mean")
                for label, seeds, more, *seen in (
                    ("mean, clips around", 1, {}, "words", "around"),
                    ("mean, words around", 1, {"own_words": True}, "near"),
                    ("mean, words and clips around", 1, {"own_words": True}, "near", "around"),
                )
            },
        }),
        Part("text and audio", "official split, frozen word pieces and the audio of the whole clip", official, {
            **_ridge("audio"), **_ridge("text", "audio"), **_pools(_HEARD, _ENCODED, _ENCODED_TRIALS, _THREE),
            **_hosts(_HEARD, "text", _NINE, 3),
        }),
        Part("utterances", "split_bclstm, features of whole clips, each with its neighbours in the video", utterance, {
            **_ridge("text"), **_ridge("audio"), **_ridge("vision"), **_ridge(*_SEEN),
            **_pools(_SEEN, _ENCODED, _ENCODED_TRIALS, _THREE), **_hosts(_SEEN, "vision", (*_NINE, "iccn"), 3),
        }),
        Part("planted", "made clips, the signal in one frame of a homogeneous vision stream", planted, {
            f"streams, linear: {label}": Arm(
                ("vision",), _LINEAR | {"pool": pool, "weight_decay": 0.0, "epochs": 100, "patience": 25},
                ({"learning_rate": 1e-2}, {"learning_rate": 3e-2}), 3,
                None if pool == "softmax" else "streams, linear: softmax",
            )
            for label, pool in (("mean", "mean"), ("softmax", "softmax"), ("ECA", "eca"))
        }),
    )
}  # fmt: skip


def users_part(path: Path) -> Part:
    """All rows on a user's own file in MMSA's layout."""
    arms = {
        **_ridge("text"), **_ridge("audio"), **_ridge("vision"), **_ridge(*_SEEN),
        **_pools(_TEXT, _ENCODED, _ENCODED_TRIALS, _THREE), **_hosts(_SEEN, "vision", (*_NINE, "iccn"), 5),
    }  # fmt: skip
    return Part("MMSA file", f"{path.name}, its own split", partial(_of_user, path), arms)


def _of_user(path: Path, data: Any, *, modalities: tuple[str, ...], rows: int | None = None) -> Clips:  # noqa: ARG001
    return users(path, modalities=modalities)
