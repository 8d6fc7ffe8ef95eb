"""Models, pools and peers on the same folds and features, with paired intervals."""

from excora.comparison.core import compare
from excora.comparison.result import Comparison

__all__ = ["Comparison", "compare"]
