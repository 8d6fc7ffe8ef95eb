"""Models of sentiment from text, audio and vision: one file each, behind the registry of all models."""

from excora.models.sentiment import almt, ef_lstm, lf_dnn, lmf, streams, tfn

__all__ = ["almt", "ef_lstm", "lf_dnn", "lmf", "streams", "tfn"]
