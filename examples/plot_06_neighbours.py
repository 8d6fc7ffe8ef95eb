"""
The neighbours of a table row
=============================

The default model for tables, kriging attention, predicts a row from the training rows most like it, and says which they are. Their weights know how alike the neighbours
are to each other; they sum to 1 and may be negative. An interval comes with each prediction.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from excora import TabularRegressor

x, y = load_diabetes(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=0)
model = TabularRegressor(random_state=0).fit(train_x, train_y)
low, high = model.predict_interval(test_x, 0.9).T
prediction = model.predict(test_x)
pcc = np.corrcoef(prediction, test_y)[0, 1]
print(f"PCC {pcc:.3f}; {np.mean((low <= test_y) & (test_y <= high)):.0%} of the test rows lie in their 90 % interval")

order = np.argsort(prediction)
plt.fill_between(range(len(order)), low[order], high[order], alpha=0.3, label="90 % interval")
plt.plot(prediction[order], label="prediction")
plt.plot(test_y[order], ".", label="test rows")
plt.legend()
plt.show()

assert pcc > 0.6
