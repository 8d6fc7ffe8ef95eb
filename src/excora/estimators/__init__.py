"""scikit-learn regressors: two over the training of ``excora fit``, and an ensemble."""

from excora.estimators.bags import BagRegressor
from excora.estimators.ensemble import TabularEnsemble
from excora.estimators.tabular import TabularRegressor

__all__ = ["BagRegressor", "TabularEnsemble", "TabularRegressor"]
