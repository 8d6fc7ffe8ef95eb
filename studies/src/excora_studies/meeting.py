"""Study ``meeting``: where companion systems and extrapolating attention meet.

Auto MPG (UCI): retrieval with and without re-ranked neighbours, read by ECA and by a local line; NPT read by softmax
and by ECA. The same splits and settings for both arms of a pair; validation picks the epoch, the test part is looked at
once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora_studies.companion_runs import run
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import find_folder

TABLE, FILE = "Auto MPG", "auto-mpg.data"
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "retrieval, ECA": ("retrieval", {"pool": "eca"}),
    "retrieval, ECA, re-ranked": ("retrieval", {"pool": "eca", "rerank": True}),
    "retrieval, local-linear": ("retrieval", {"pool": "local-linear"}),
    "retrieval, local-linear, re-ranked": ("retrieval", {"pool": "local-linear", "rerank": True}),
    "NPT, softmax read-out": ("npt", {"pool": "softmax"}),
    "NPT, ECA read-out": ("npt", {"pool": "eca"}),
}
PAIRS = tuple(zip(list(ARMS)[::2], list(ARMS)[1::2], strict=True))


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 2))), "epochs": 1 if quick else 15}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk an arm and seed."""
    folder = find_folder(data, [FILE])

    def one(arm: str, seed: int) -> Chunk:
        model, options = ARMS[arm]

        def compute(_: Results, tick: Tick) -> Any:
            found = run(TABLE, folder, model, seed, epochs=configuration["epochs"], start="none", **options)
            tick()
            return found

        return Chunk(f"{arm}, seed {seed}", 1, compute)

    return [one(arm, seed) for seed in configuration["seeds"] for arm in ARMS]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Test PCC of each arm, and differences by seed."""
    seeds = configuration["seeds"]
    tests = {arm: np.array([results[f"{arm}, seed {seed}"]["test"] for seed in seeds]) for arm in ARMS}
    rows = [{"arm": arm, "test PCC": float(t.mean()), "test PCC sd": float(t.std())} for arm, t in tests.items()]
    gains = {f"{b} minus {a}": (tests[b] - tests[a]).tolist() for a, b in PAIRS}
    places = [float(k) for k in range(len(PAIRS))]
    lines = [
        Line(
            label=f"seed {seed}", x=places, y=[gains[f"{b} minus {a}"][k] for a, b in PAIRS], markers=True, joined=False
        )
        for k, seed in enumerate(seeds)
    ]
    ticks = {place: pair[1].replace(", ", ",\n") for place, pair in zip(places, PAIRS, strict=True)}
    panel = Panel(
        title="difference of test PCC, by seed", x="", y="with minus without", lines=lines, level=0.0, ticks=ticks
    )
    figure = Figure(title="Where companion systems and ECA meet", panels=[panel], columns=1, size=(7.0, 3.6))
    return Report(rows, {"gains": gains}, {"meeting": figure}, [])


def _block(contents: Contents) -> str:
    rows = [[r["arm"], f"{r['test PCC']:.3f} ± {r['test PCC sd']:.3f}"] for r in contents["meeting"]["table"]]
    return table(("arm", "test PCC, Auto MPG"), rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {"meeting": _block}
