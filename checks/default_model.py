"""Which network should tables have by default? Held-out folds of the 8 small UCI sets (11 CPU minutes).

Three folds of the rows that are not in the test part of seed 0 of ``excora reproduce plateau``: a model is fitted on
two of them and predicts the third. The networks are ``TabularRegressor`` with nothing set but ``model`` and ``metric``
(a fifth of the rows it is given picks the epoch). PCC and MSE, in units of the target's variance, are over all folds
together. Ridge and ExtraTrees are there for reference.

``python -m checks.default_model [SET ...]``, the files from EXCORA_DATA.
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
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from excora import TabularRegressor
from excora_studies.plateau import parts
from excora_studies.small_tables import SETS, find_folder, load

NETWORKS: dict[str, dict[str, Any]] = {
    "ft-transformer": {"model": "ft-transformer"},
    "retrieval, full": {"model": "retrieval", "metric": "full"},
    "retrieval, diagonal": {"model": "retrieval", "metric": "diagonal"},
    "retrieval, plain": {"model": "retrieval", "metric": "plain"},
}
PEERS = ("ridge", "ExtraTrees")
FOLDS = 3


def model(name: str) -> Any:
    """What has ``fit`` and ``predict``."""
    if name in NETWORKS:
        return TabularRegressor(**NETWORKS[name], random_state=0)
    words = make_column_selector(dtype_include=object)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (OneHotEncoder(handle_unknown="ignore"), words)
    )
    last = RidgeCV(10.0 ** np.arange(-3, 5)) if name == "ridge" else ExtraTreesRegressor(300, random_state=0)
    return make_pipeline(columns, last)


def rows_of(name: str) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Columns and target of the rows that may be seen."""
    numeric, codes, target = load(name, find_folder(None))
    frame = pd.concat([numeric, codes.astype(str).astype(object)], axis=1)
    seen = np.sort(torch.cat(parts(len(frame), 0)[:2]).numpy())
    return frame.rename(columns=str).iloc[seen].reset_index(drop=True), target.to_numpy()[seen]


def score(name: str, x: pd.DataFrame, y: NDArray[np.float64]) -> tuple[float, float, float]:
    """PCC and MSE of the predictions for the held-out folds, and CPU seconds."""
    prediction, begun = np.empty_like(y), time.process_time()
    for train, held in KFold(FOLDS, shuffle=True, random_state=0).split(x):
        prediction[held] = model(name).fit(x.iloc[train], y[train]).predict(x.iloc[held])
    mse = float(np.square(prediction - y).mean() / y.var())
    return float(np.corrcoef(prediction, y)[0, 1]), mse, time.process_time() - begun


def main() -> None:
    torch.set_num_threads(1)
    names = (*NETWORKS, *PEERS)
    found = []
    print("| PCC, MSE |", *(f"{name} |" for name in names), flush=True)
    print("|" + "---|" * (1 + len(names)))
    for name in sys.argv[1:] or SETS:
        x, y = rows_of(name)
        found.append([score(one, x, y) for one in names])
        print(f"| {name} ({len(y)}) |", *(f"{pcc:.3f}, {mse:.3f} |" for pcc, mse, _ in found[-1]), flush=True)
    values = np.array(found)  # (sets, models, 3)
    networks = values[:, : len(NETWORKS), :2] * [-1, 1]  # the lower the better
    ranks = 1 + (networks[:, :, None] > networks[:, None]).sum(2).mean(0)  # (networks, 2)
    print("| mean |", *(f"{pcc:.4f}, {mse:.4f} |" for pcc, mse in values[..., :2].mean(0)))
    print("| rank of four |", *(f"{pcc:.2f}, {mse:.2f} |" for pcc, mse in ranks), *("|" for _ in PEERS))
    print("| CPU s |", *(f"{seconds:.0f} |" for seconds in values[..., 2].sum(0)))
    print(f"default for tables, by mean rank among the networks: {list(NETWORKS)[int(ranks.mean(1).argmin())]}")


if __name__ == "__main__":
    main()
