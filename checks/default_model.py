"""Is the default for tables worth being one? Ten small tables that it was not designed on, and its intervals.

Five folds of each table: a model is fitted on four of them and predicts the fifth. ``TabularRegressor()`` has nothing
set but its seed; ExtraTrees has 300 trees, LightGBM its defaults, ridge a penalty by leave-one-out. PCC over all folds
together; ``coverage`` is the share of labels within the interval of 90 %, whose reach is learned from training rows.

``python -m checks.default_model [--development] [TABLE ...]``, the files from EXCORA_DATA.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from excora import TabularRegressor
from excora_studies.small_tables import find_folder, load

Floats = NDArray[np.float64]
#: The model was designed on these, and the others kept aside.
DEVELOPMENT = ("Auto MPG", "Bike Sharing", "Garment", "Servo")
ASIDE = ("Automobile", "Real Estate", "Shares", "Solar Flare", "Diabetes", "Wine", "Breast cancer",
         "Appliances, T_out", "Superconductivity", "Bike hours")  # fmt: skip
PEERS = ("ExtraTrees", "LightGBM", "ridge")
FOLDS, LEVEL, SOME = 5, 0.9, 1000


def table(name: str) -> tuple[pd.DataFrame, Floats]:
    """Columns and target; of a large table :data:`SOME` rows."""
    folder = find_folder(None)
    if name in ("Diabetes", "Wine", "Breast cancer"):
        made = {"Diabetes": load_diabetes, "Wine": load_wine, "Breast cancer": load_breast_cancer}[name](as_frame=True)
        if name == "Diabetes":
            return made.data, made.target.to_numpy(float)
        first = {"Wine": "alcohol", "Breast cancer": "mean smoothness"}[name]
        return made.data.drop(columns=first), made.data[first].to_numpy(float)
    large = {
        "Appliances, T_out": ("energydata_complete.csv.xz", "T_out", ("date", "T6")),
        "Superconductivity": ("superconductivity.csv.xz", "critical_temp", ()),
        "Bike hours": ("hour.csv", "cnt", ("instant", "dteday", "casual", "registered")),
    }
    if name in large:
        file, target, drop = large[name]
        frame = pd.read_csv(folder / file).drop(columns=list(drop)).sample(SOME, random_state=0).reset_index(drop=True)
        return frame.drop(columns=target), frame[target].to_numpy(float)
    numeric, codes, found = load(name, folder)
    return pd.concat([numeric, codes.astype(str).astype(object)], axis=1).rename(columns=str), found.to_numpy()


def peer(name: str) -> Any:
    """What has ``fit`` and ``predict``."""
    words = make_column_selector(dtype_include=object)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (OneHotEncoder(handle_unknown="ignore"), words)
    )
    if name == "LightGBM":
        from lightgbm import LGBMRegressor

        return make_pipeline(columns.set_output(transform="default"), LGBMRegressor(n_jobs=1, verbose=-1))
    last = RidgeCV(10.0 ** np.arange(-3, 5)) if name == "ridge" else ExtraTreesRegressor(300, random_state=0)
    return make_pipeline(columns, last)


def scores(x: pd.DataFrame, y: Floats) -> tuple[list[float], float, float]:
    """PCC of the default and the peers, coverage of the intervals, CPU seconds of a fit."""
    found, inside, seconds = np.empty((1 + len(PEERS), len(y))), np.empty(len(y), bool), 0.0
    for train, held in KFold(FOLDS, shuffle=True, random_state=0).split(x):
        begun = time.process_time()
        model = TabularRegressor(random_state=0).fit(x.iloc[train], y[train])
        seconds += time.process_time() - begun
        found[0, held] = model.predict(x.iloc[held])
        low, high = model.predict_interval(x.iloc[held], LEVEL).T
        inside[held] = (low <= y[held]) & (y[held] <= high)
        for k, name in enumerate(PEERS):
            rows = x.set_axis([f"c{j}" for j in range(x.shape[1])], axis=1)
            found[1 + k, held] = peer(name).fit(rows.iloc[train], y[train]).predict(rows.iloc[held])
    return [float(np.corrcoef(p, y)[0, 1]) for p in found], float(inside.mean()), seconds / FOLDS


def main() -> None:
    torch.set_num_threads(1)
    asked = [name for name in sys.argv[1:] if not name.startswith("--")]
    names = asked or (DEVELOPMENT if "--development" in sys.argv else ASIDE)
    print("| PCC | default |", *(f"{name} |" for name in PEERS), f"coverage of {LEVEL:.0%} | CPU s a fit |")
    print("|" + "---|" * (4 + len(PEERS)), flush=True)
    every = []
    for name in names:
        x, y = table(name)
        pcc, coverage, seconds = scores(x, y)
        every.append(pcc)
        cells = " | ".join(f"{value:.4f}" for value in pcc)
        print(f"| {name} ({len(y)}) | {cells} | {coverage:.3f} | {seconds:.1f} |", flush=True)
    values = np.array(every)
    ranks = 1 + (values[:, :, None] < values[:, None]).sum(2).mean(0)
    print("| mean |", *(f"{value:.4f} |" for value in values.mean(0)), "| |")
    print("| mean rank |", *(f"{value:.2f} |" for value in ranks), "| |")
    print(f"least lead over ridge on a table: {(values[:, 0] - values[:, -1]).min():+.4f}")


if __name__ == "__main__":
    main()
