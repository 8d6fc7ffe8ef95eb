"""Study ``sentiment``: MOSI with label-free features, from ridge to fine-tuned text, every arm tuned alike.

Each arm has its trials with the first seed; validation picks one, and the other seeds run with it. The epoch is chosen
on validation, one for all figures, and the test part is predicted once. With the protocol "published" the test part
chooses the epoch: those numbers are labelled so.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.sentiment import fits, page
from excora_studies.sentiment.arms import PARTS, SEEDS, Arm, Part, users_part
from excora_studies.sentiment.clips import Clips, mmsa_file
from excora_studies.tabular.scores import pack, pack_codes

BLOCKS = page.BLOCKS
#: "published": the best test epoch, as many published numbers have it.
PRESETS = ("quick", "cpu", fits.PUBLISHED)
QUICK: dict[str, Any] = {
    "rows": 30,
    "epochs": 1,
    "arms": ("ridge, text", "streams, linear: softmax", "streams, linear: ECA"),
}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
    """Everything that the numbers depend on."""
    quick, file = preset == "quick", mmsa_file(data)
    parts = ["frozen text"] if quick else [*PARTS, *([] if file is None else ["MMSA file"])]
    return {
        "preset": preset,
        "protocol": fits.PUBLISHED if preset == fits.PUBLISHED else "validation",
        "seeds": list(SEEDS[: seeds or (1 if quick else len(SEEDS))]),
        "parts": {name: _described(_part(name, data), quick=quick) for name in parts},
        "quick": {name: QUICK[name] for name in ("rows", "epochs")} if quick else None,
    }


def _part(name: str, data: Path | None) -> Part:
    if name in PARTS:
        return PARTS[name]
    file = mmsa_file(data)
    assert file is not None
    return users_part(file)


def _described(part: Part, *, quick: bool) -> dict[str, Any]:
    arms = {name: arm for name, arm in part.arms.items() if not quick or name in QUICK["arms"]}
    trials = {name: [dict(trial) for trial in arm.trials[: 1 if quick else None]] for name, arm in arms.items()}
    return {"says": part.says, "arms": {
        name: {"modalities": list(arm.modalities), "settings": dict(arm.settings), "trials": trials[name],
               "seeds": arm.seeds, "reference": arm.reference, "published": arm.published}
        for name, arm in arms.items()
    }}  # fmt: skip


def trial_key(part: str, arm: str, trial: int, seed: int) -> str:
    """The chunk of a trial, which is the run of the first seed if it is picked."""
    return f"{part} | {arm} | trial {trial + 1} | seed {seed}"


def run_key(part: str, arm: str, seed: int) -> str:
    """The chunk of a further seed."""
    return f"{part} | {arm} | seed {seed}"


def table_of(chunk: str) -> str:
    """The file of a chunk: its part."""
    return chunk.split(" | ", maxsplit=1)[0]


def chosen(about: dict[str, Any], part: str, arm: str, results: Results) -> int | None:
    """The trial with the best criterion on validation; None until all are there."""
    keys = [key for key in results if key.startswith(f"{part} | {arm} | trial ")]
    found = [results[key]["criterion"] for key in sorted(keys)]
    if len(found) < len(about["trials"]):
        return None
    return min(range(len(found)), key=lambda k: float("inf") if found[k] is None else found[k])


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """For each part its test part, the trials of its arms, and the other seeds."""
    found: list[Chunk] = []
    quick = configuration["quick"]
    first, *others = configuration["seeds"]
    for name, about in configuration["parts"].items():
        part = _part(name, data)
        read = functools.lru_cache(4)(functools.partial(_read, part, data, quick["rows"] if quick else None))
        found.append(
            Chunk(f"{name} | test part", 1, functools.partial(_test_part, read, next(iter(part.arms.values()))))
        )
        for label, one in about["arms"].items():
            arm = part.arms[label]
            make = functools.partial(_fit, configuration, name, label, arm, read)
            for number in range(len(one["trials"])):
                found.append(Chunk(trial_key(name, label, number, first), 1, functools.partial(make, number, first)))
            for seed in others[: arm.seeds - 1]:
                found.append(Chunk(run_key(name, label, seed), 1, functools.partial(make, None, seed)))
    return found


def _read(part: Part, data: Path | None, rows: int | None, modalities: tuple[str, ...]) -> Clips:
    return part.read(data, modalities=modalities, rows=rows)


def _test_part(read: Any, arm: Arm, results: Results, tick: Tick) -> Any:  # noqa: ARG001
    clips = read(arm.modalities)
    test = clips.split.test
    tick()
    sizes = [len(index) for index in clips.split]
    return {"target": pack(clips.dataset.target[test, 0]), "unit": pack_codes(clips.unit[test]), "sizes": sizes}


def _fit(
    configuration: dict[str, Any], part: str, label: str, arm: Arm, read: Any, number: int | None, seed: int,
    results: Results, tick: Tick,
) -> Any:  # fmt: skip
    about, quick = configuration["parts"][part]["arms"][label], configuration["quick"]
    if number is None:
        number = chosen(about, part, label, results)
        assert number is not None, "the trials come first"
    found = fits.run(
        read(arm.modalities), arm, about["trials"][number], seed, protocol=configuration["protocol"],
        epochs=quick["epochs"] if quick else None,
    )  # fmt: skip
    tick()
    return found | {"trial": number}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """What is there."""
    from excora_studies.sentiment.table import make

    return make(configuration, results)
