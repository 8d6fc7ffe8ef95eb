"""Slides in a record: pictures, and where spots lie on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

#: A picture in a page: nothing else is taken for one.
ADDRESS = re.compile(r"data:image/(jpeg|png);base64,[A-Za-z0-9+/=]+")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture and the rectangle that it covers, on the scale of what lies on it."""

    picture: str  #: a data: address
    x: float
    y: float
    width: float
    height: float

    def image(self, axes: str = "") -> list[dict[str, Any]]:
        """As plotly's layout has it, under axes of that number; nothing where it is no picture."""
        if not ADDRESS.fullmatch(self.picture):
            return []
        size = {"x": self.x, "y": self.y, "sizex": self.width, "sizey": self.height, "sizing": "stretch"}
        return [{"source": self.picture, "xref": f"x{axes}", "yref": f"y{axes}", "layer": "below", **size}]


@dataclass(frozen=True, kw_only=True)
class Slide:
    """A slide: the picture covers ``width`` x ``height`` from the corner."""

    name: str
    pitch: float
    picture: str = ""
    width: float = 0.0
    height: float = 0.0

    @property
    def under(self) -> Picture:
        """The whole picture."""
        return Picture(picture=self.picture, x=0.0, y=0.0, width=self.width, height=self.height)


@dataclass(frozen=True, kw_only=True)
class Tissue:
    """Slides, and where spots lie: tissue.json."""

    slides: list[Slide]
    ids: list[str]
    slide: list[int]
    x: list[float]
    y: list[float]
