"""The default for tables on validation parts of the study ``tabular``: what its settings are chosen by.

It is fitted to the training part of a split (64 % of the rows) and predicts the validation part; no test part is read.

``python -m checks.default_validation [SET,SPLIT ...] [--seeds 0] [--starts 0 1] [--option NAME=NUMBER ...]``, the files
from EXCORA_DATA; a minute or two of one core for each fit.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from excora import TabularRegressor
from excora_studies import tabular
from excora_studies.tabular import sets

PLACES = ("Superconductivity,grouped", "Superconductivity,random", "Appliances,random", "News (partial),random")


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("places", nargs="*", default=PLACES)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0], help="of the split")
    parser.add_argument("--starts", nargs="*", type=int, default=[0], help="of the model")
    parser.add_argument("--option", nargs="*", default=[], help="of the model, such as members=5")
    asked = parser.parse_args()
    options = {name: json.loads(value) for name, value in (one.split("=") for one in asked.option)}
    for place in asked.places:
        name, split = place.split(",")
        dataset = sets.load(name, None)
        for seed in asked.seeds:
            data = tabular.parts(dataset, split, seed)
            for start in asked.starts:
                begun = time.process_time()
                model = TabularRegressor(random_state=start, seconds=1e6, **options)
                model.fit(data.train.x, data.train.y, groups=data.train.group)
                seconds = time.process_time() - begun
                found, y = np.asarray(model.predict(data.validation.x)), data.validation.y
                pcc, wrong = np.corrcoef(found, y)[0, 1], np.square(found - y).mean() / y.var()
                scores = f"PCC {pcc:.4f}, MSE / variance {wrong:.4f}, {seconds:.0f} CPU s"
                said = model.network_.carried()[1]
                print(f"{place}, split {seed}, start {start}: {scores}; {said}", flush=True)


if __name__ == "__main__":
    main()
