"""Bags: files, long tables, statistics of elements, preparation. A set of elements is a sample."""

from excora.data.bags.content import BagFeatures, BagSet, BagSpec
from excora.data.bags.preparation import PreparedBags
from excora.data.bags.source import BagSource
from excora.data.bags.stores import ArrayBags, Bags, ChosenBags, FileBags, PickedBags, finite

__all__ = [
    "ArrayBags", "BagFeatures", "BagSet", "BagSource", "BagSpec", "Bags", "ChosenBags", "FileBags", "PickedBags",
    "PreparedBags", "finite",
]  # fmt: skip
