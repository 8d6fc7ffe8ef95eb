"""The paper's experiments, one file each, run by ``excora reproduce NAME`` or :func:`reproduce`.

Importing this package loads nothing heavy: the command line lists :data:`NAMES` without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = {
    "synthetic": "mean, softmax, ECA and its ablations at four homogeneity levels (Fig 5)",
    "gradients": "the PCC/MSE gradient ratio, its bound and the spread of predictions over training (Fig 3, 4)",
    "batch-size": "the plateau at batch sizes 32, 64 and 128 (Fig 10)",
    "grid": "where extrapolation helps and where it costs: 12 settings of the signal",
    "plateau": "MSE still falling after PCC is flat, on 8 small UCI sets, with softmax and with ECA (Fig 7)",
    "tabular": "Excora's tabular models and what users would pick instead, on three UCI sets (Table 1)",
    "elements": "superconductors as bags of chemical elements, against 81 features made by hand",
    "verdicts": "what the monitor says of runs trained into a known fault: the confusion matrix",
}


def reproduce(
    name: str,
    output: Path,
    *,
    data: Path | None = None,
    seeds: int | None = None,
    preset: str = "cpu",
    only: Sequence[str] = (),
    console: Any = None,
) -> dict[str, Any]:
    """Run the study ``name`` into the folder ``output`` and return what results.json holds.

    The folder gets results.json (all numbers, seeds, versions, configuration), table.csv, a PNG of each figure and
    figures.html (interactive, works offline). Each part is saved as it is done: after Ctrl-C the same call goes on
    from there, and a finished study is only drawn again. ``seeds`` repeats. ``preset``:
    "quick" is for trying it out, its numbers mean nothing; "cpu" is the study; "paper" has the paper's sizes, for
    ``tabular`` on a GPU. ``only``: the parts of ``tabular`` whose name contains one of these texts, for several
    processes on one folder. ``data`` is the folder of the UCI files, for the studies on real data; else
    EXCORA_DATA, else ``../shared/data`` beside the repository. ``console`` is a rich console; None prints nothing.

    An unknown name or preset, or a folder with results of another configuration, raises :class:`InputError`.
    """
    from excora.errors import InputError

    if name not in NAMES:
        raise InputError(f"study must be one of {', '.join(NAMES)}, got {name!r}")
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    study = importlib.import_module(f"excora.studies.{name.replace('-', '_')}")
    presets = getattr(study, "PRESETS", ("quick", "cpu"))
    if preset not in presets:
        raise InputError(f"the preset of {name} must be one of {', '.join(presets)}, got {preset!r}")
    runner = importlib.import_module("excora.studies.runner")
    options = {"seeds": seeds, "preset": preset, "data": data, "only": only, "console": console}
    return runner.run(name, study, Path(output), **options)
