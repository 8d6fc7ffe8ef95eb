"""Slides: pictures, spots, counts and patch features. A spot is a sample, its labels are genes."""

from excora.data.spatial.content import SpatialSet, SpatialSpec
from excora.data.spatial.groups import check_leak
from excora.data.spatial.preparation import PreparedSpots
from excora.data.spatial.slide import Slide
from excora.data.spatial.source import SpatialSource
from excora.data.spatial.spots import SpotFeatures

__all__ = ["PreparedSpots", "Slide", "SpatialSet", "SpatialSource", "SpatialSpec", "SpotFeatures", "check_leak"]
