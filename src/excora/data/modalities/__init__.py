"""Clips of several modalities: MMSA's files, read without their powers, checked, repaired with a count, prepared."""

from excora.data.modalities.content import MODALITIES, Frames, Modality, ModalityFeatures, ModalitySet, ModalitySpec
from excora.data.modalities.preparation import PreparedModalities
from excora.data.modalities.source import ModalitySource, convert

__all__ = [
    "MODALITIES", "Frames", "Modality", "ModalityFeatures", "ModalitySet", "ModalitySource", "ModalitySpec",
    "PreparedModalities", "convert",
]  # fmt: skip
