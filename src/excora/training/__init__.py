"""Training a network on Lightning, and a trained one on samples."""

from excora.training.trainer import Training, is_main, train

__all__ = ["Training", "is_main", "train"]
