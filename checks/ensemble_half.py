"""Why half of ``TabularEnsemble`` is the default for tables: shares of it, on the validation part of seed 0 of a study.

Several attentions over neighbours, of the settings that the study ``tabular`` has on file, and ``TabularRegressor()``
are fitted to the training part (64 % of the rows) and predict the validation part; no test part is read.

``python -m checks.ensemble_half [SET,SPLIT ...]``, the files from EXCORA_DATA; half an hour of one core for all four.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from excora.storage import slug
from excora_studies import tabular
from excora_studies.tabular import sets
from excora_studies.tabular.table import DEFAULT, SEVERAL

PLACES = ("Superconductivity,grouped", "Superconductivity,random", "Appliances,random", "News (partial),random")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "tabular"


def line(name: str, split: str) -> str:
    """PCC and squared error, in units of the variance, by the share of the default."""
    stored = json.loads((RESULTS / f"{slug(f'{name} {split}')}.json").read_text())
    chosen = stored[tabular.key(name, split, "retrieval, softmax", "tuning")]["result"]["chosen"]
    data = tabular.parts(sets.load(name, None), split, tabular.TUNING_SEED)
    rows = tabular.all_rows(tabular.SIZES["cpu"], split)
    several, default = (
        rows[row].predict(settings, data.train, data.validation.x, tabular.TUNING_SEED)
        for row, settings in ((SEVERAL, chosen), (DEFAULT, [rows[DEFAULT].defaults]))
    )
    y, cells = data.validation.y, []
    for share in SHARES:
        made = share * default + (1.0 - share) * several
        cells.append(f"{np.corrcoef(made, y)[0, 1]:.4f}, {np.square(made - y).mean() / y.var():.4f}")
    return f"| {name}, {split} | " + " | ".join(cells) + " |"


def main() -> None:
    torch.set_num_threads(1)
    print("| PCC, MSE / variance by share of the default |", *(f"{share:g} |" for share in SHARES))
    print("|" + "---|" * (1 + len(SHARES)))
    for place in sys.argv[1:] or PLACES:
        print(line(*place.split(",")), flush=True)


if __name__ == "__main__":
    main()
