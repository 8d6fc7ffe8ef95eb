"""scikit-learn regressors over the training of ``excora fit``."""

from excora.estimators.bags import BagRegressor
from excora.estimators.tabular import TabularRegressor

__all__ = ["BagRegressor", "TabularRegressor"]
