"""Training on Lightning: ``train`` is the core; ``fit``, ``predict`` and the run folder are the application."""

from excora.training.core import Training, is_main, train
from excora.training.prediction import Predictions, predict
from excora.training.run import Run, fit

__all__ = ["Predictions", "Run", "Training", "fit", "is_main", "predict", "train"]
