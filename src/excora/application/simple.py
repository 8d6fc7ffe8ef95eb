"""The simple models of a run, with a word on the terminal while they are fitted and once they are."""

from __future__ import annotations

import contextlib
from typing import Any

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.peers.baselines import Baselines, baselines
from excora.settings import Setup
from excora.training.building import Built


def simple_models(dataset: Dataset, split: Split, setup: Setup, built: Built, *, progress: bool) -> Baselines:
    """Simple models on the split of a run; with ``progress`` their validation PCC, where there is a terminal."""
    console = _console() if progress else None
    waiting = contextlib.nullcontext() if console is None else console.status("simple models on the same split")
    with waiting:
        found = baselines(dataset, split, built.preparation, setup.recipe)
    if console is not None:
        scores = {name: found.scores(name, split.validation)["pcc"] for name in found.fitted}
        console.print(", ".join(f"{name}: validation PCC {pcc:.3f}" for name, pcc in scores.items()), highlight=False)
    return found


def _console() -> Any:
    """Of stderr; None where nobody would see it."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal or console.is_jupyter else None
