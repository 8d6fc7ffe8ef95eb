"""Pools and peers on the same folds and features, with paired intervals."""

from excora.comparison.core import compare
from excora.comparison.result import Comparison
from excora.comparison.runs import LABELS, MODELS

__all__ = ["LABELS", "MODELS", "Comparison", "compare"]
