"""Models of sentiment from text, audio and vision: one file each, behind the registry of all models."""

from excora.models.sentiment import almt, dlf, ef_lstm, graph_mfn, iccn, lf_dnn, lmf, misa, mult, streams, tfn

__all__ = ["almt", "dlf", "ef_lstm", "graph_mfn", "iccn", "lf_dnn", "lmf", "misa", "mult", "streams", "tfn"]
