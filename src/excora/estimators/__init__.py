"""scikit-learn regressors: two over the training of ``excora fit``, an ensemble, and one for rows in time order."""

from excora.estimators.bags import BagRegressor
from excora.estimators.ensemble import TabularEnsemble
from excora.estimators.steady import SteadyRegressor
from excora.estimators.tabular import TabularRegressor

__all__ = ["BagRegressor", "SteadyRegressor", "TabularEnsemble", "TabularRegressor"]
