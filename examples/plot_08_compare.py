"""
Comparing models honestly
=========================

The same folds for all, paired intervals, all pairs judged at once, and "cannot tell" where that is so.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes

from excora import compare

torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
load_diabetes(as_frame=True).frame.iloc[:250].to_csv(folder / "diabetes.csv", index=False)
found = compare(
    folder / "diabetes.csv", target="target", models=["ridge", "neighbours", "mean"], seeds=1, progress=False
)
print(found)

table = found.frame()
print(table)
plt.barh(table.iloc[:, 0].astype(str), table.filter(like="pcc").iloc[:, 0])
plt.xlabel("PCC")
plt.show()

assert found.best != "mean"
