"""scikit-learn regressors: two over the training of ``excora fit``, an ensemble, and a scorer."""

from excora.estimators.bags import BagRegressor
from excora.estimators.ensemble import TabularEnsemble
from excora.estimators.scoring import pearson_score, pearson_scorer
from excora.estimators.tabular import TabularRegressor

__all__ = ["BagRegressor", "TabularEnsemble", "TabularRegressor", "pearson_score", "pearson_scorer"]
