"""``Run``: a run folder, read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import excora
from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.models import Network
from excora.models.files import read_weights
from excora.settings import Setup
from excora.storage import read_json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A trained run: its folder, and what is needed to predict."""

    path: Path
    config: dict[str, Any]
    setup: Setup
    preparation: Preparation
    network: Network
    results: dict[str, Any]  #: the content of results.json; empty in the other processes of a distributed run
    writes: bool = True  #: False in those

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read a run folder. Nothing in it is ever run; whatever is missing, broken or foreign is an InputError."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder; give a run folder of `excora fit`")
        config = read_json(folder / "config.json")
        try:
            setup = Setup.from_dict(config.get("settings", {}))
        except InputError as error:
            told = str(error).removesuffix(": written by another version of Excora?")
            raise InputError(f"{folder / 'config.json'}: {told}{_versions(config)}") from None
        preparation = Preparation.from_dict(read_json(folder / "preparation.json"))
        learned = config.get("network", {})
        network = read_weights(folder / "weights.safetensors", setup.model, preparation.spec, setup.options, learned)
        return cls(folder, config, setup, preparation, network, read_json(folder / "results.json"))

    @property
    def state(self) -> str:
        """ "finished" or "interrupted"; "training" while it runs, or if it was killed."""
        return str(self.config.get("state"))

    @property
    def predictions(self) -> pd.DataFrame:
        """Of the validation and the test part, as in predictions.csv."""
        from excora.data.frames import read_frame

        return read_frame(self.path / "predictions.csv")

    def __rich__(self) -> Any:
        """Result table, verdict and notes for rich consoles."""
        from excora.application.console import table_of

        return table_of(self)


def _versions(config: dict[str, Any]) -> str:
    """That another version wrote it, if one did."""
    wrote = config.get("excora")
    if not isinstance(wrote, str) or wrote == excora.__version__:
        return ""
    return f" (written by Excora {wrote[:20]}, and this is {excora.__version__})"
