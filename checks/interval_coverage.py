"""Do intervals of the default for tables hold what they say, and how wide would they be from single members?

``python -m checks.interval_coverage TABLE[@FOLDS[@SEED]] ...``, the files from EXCORA_DATA: the share of held-out
labels within intervals of 90 %, over FOLDS (5) of five folds that are drawn by SEED (5). "before" has the reach of one
member that has not seen a row, as it was until the reach became that of the mean of all; "width" is the ratio of both.
A TABLE is one of ``checks.default_model``, or FILE:TARGET for another draw of 600 rows: appliances:RH_out,
appliances:T2, bikes:cnt, superconductors:critical_temp.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import KFold

from checks.default_model import FOLDS, LEVEL, Floats, table
from excora import TabularRegressor
from excora.models import kriging
from excora_studies.small_tables import find_folder

#: A file and the columns of it that say too much of a target, or nothing.
FILES = {
    "appliances": ("energydata_complete.csv.xz", {"": ["date"], "T_out": ["T6"], "RH_out": ["RH_6"]}),
    "bikes": ("hour.csv", {"": ["instant", "dteday", "casual", "registered"]}),
    "superconductors": ("superconductivity.csv.xz", {}),
}
SOME, DRAW = 600, 3


def rows(name: str) -> tuple[pd.DataFrame, Floats]:
    """Columns and target."""
    file, _, target = name.partition(":")
    if not target:
        return table(name)
    path, without = FILES[file]
    frame = pd.read_csv(find_folder(None) / path).drop(columns=without.get("", []))
    frame = frame.sample(SOME, random_state=DRAW).reset_index(drop=True).drop(columns=without.get(target, []))
    return frame.drop(columns=target), frame[target].to_numpy(float)


def main() -> None:
    torch.set_num_threads(1)
    narrow: Any = kriging._narrow
    before = [0.0]

    def watched(network: Any, *rest: Any) -> None:
        before[0] = float(network.reach(LEVEL)[0])
        narrow(network, *rest)

    kriging._narrow = watched
    print(f"| within {LEVEL:.0%} | rows held out | before | now | width | CPU s |\n|" + "---|" * 6, flush=True)
    for word in sys.argv[1:]:
        name, folds, seed = (word.split("@") + [str(FOLDS), "5"][word.count("@") :])[:3]
        (x, y), begun, found = rows(name), time.process_time(), []
        for train, held in list(KFold(FOLDS, shuffle=True, random_state=int(seed)).split(x))[: int(folds)]:
            model = TabularRegressor(random_state=0).fit(x.iloc[train], y[train])
            low, high = model.predict_interval(x.iloc[held], LEVEL).T
            wrong, half, width = (
                np.abs(y[held] - (low + high) / 2),
                (high - low) / 2,
                float(model.network_.reach(LEVEL)[0]),
            )
            found.append(
                (len(held), (wrong <= half * before[0] / width).sum(), (wrong <= half).sum(), width / before[0])
            )
        n, old, new, _ = np.sum(found, 0)
        ratio, seconds = np.mean([one[3] for one in found]), time.process_time() - begun
        print(
            f"| {name} ({len(y)}) | {n:.0f} | {old / n:.3f} | {new / n:.3f} | {ratio:.2f} | {seconds:.0f} |", flush=True
        )


if __name__ == "__main__":
    main()
