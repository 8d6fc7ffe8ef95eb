"""The application: from a file to a run folder with its report, and from there to predictions."""

from excora.application.comparing import compare
from excora.application.explaining import Explanations, explain
from excora.application.fitting import fit
from excora.application.predicting import Predictions, predict
from excora.application.run import Run

__all__ = ["Explanations", "Predictions", "Run", "compare", "explain", "fit", "predict"]
