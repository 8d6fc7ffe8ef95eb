"""Excora: extrapolative correlation attention.

The public names, loaded on first use (PEP 562): a torch-only environment can use every core name.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_HOME = {
    "ECAPool": "pooling",
    "MeanPool": "pooling",
    "SoftmaxPool": "pooling",
    "GatedPool": "pooling",
    "Pooled": "pooling",
    "parameter_groups": "pooling",
    "ExtrapolativeAttention": "attention",
    "extrapolate_": "convert",
    "register_adapter": "convert",
    "PearsonLoss": "losses",
    "DispersionNormalizedPearsonLoss": "losses",
    "ConcordanceLoss": "losses",
    "JointLoss": "losses",
    "pearson": "moments",
    "concordance": "moments",
    "mse_decomposition": "moments",
    "dispersion": "functional",
    "eca_pool": "kernels.attend",
    "PearsonCorrelation": "metrics",
    "ConcordanceCorrelation": "metrics",
    "CorrelationSummary": "metrics",
    "PlateauMonitor": "monitor",
    "diagnose": "diagnosis",
    "Ragged": "ragged",
    "penalties": "reduce",
    "accumulate_backward": "accumulation",
    "Settings": "settings",
    "fit": "application",
    "predict": "application",
    "Run": "application",
    "validate": "data.validation",
    "compare": "application",
    "TabularRegressor": "estimators",
    "BagRegressor": "estimators",
    "TabularEnsemble": "estimators",
    "pearson_scorer": "estimators",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604  (names come from the table above)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'excora' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"excora.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
