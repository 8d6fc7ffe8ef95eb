"""The models: one file each, behind the registry :data:`models`."""

from excora.models.base import Model, Network, Output, Samples, default_model, models, register_model

__all__ = ["Model", "Network", "Output", "Samples", "default_model", "models", "register_model"]
