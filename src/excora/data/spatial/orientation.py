"""Do spots lie on the tissue? On a square picture nothing else tells x and y that are swapped.

The rim of a picture is background nearly always. A place is covered where its colour is not that of the rim; spots are
on tissue, so they are covered more often than their mirror images, or x and y have changed places.
"""

from __future__ import annotations

import numpy as np

from excora.data.spatial.pictures import ArrayPicture, Picture, TiledPicture
from excora.data.spatial.slide import Floats, Slide
from excora.errors import ExcoraError

#: Spots that are looked at, and places of the rim, at most.
MOST, RIM = 120, 48
#: Out of 255, how far a mean colour must be from that of the rim.
APART = 20.0
#: Fewer spots than this are covered, and as many more of their mirror images: then a note says so. Of seven real
#: slides 0.996 and more of the spots were, and 0.17 to 0.86 of their mirror images.
FEW, MORE = 0.9, 0.1


def orientation_note(slide: Slide) -> tuple[str, ...]:
    """A line where x and y look swapped though every spot lies in the picture."""
    if slide.picture is None or len(slide) < 8:
        return ()
    width, height = (side / slide.picture.scale for side in slide.picture.size)
    if (slide.coords > (height, width)).any():  # (y, x) would leave it
        return ()
    some = slide.coords[np.unique(np.linspace(0, len(slide) - 1, MOST).astype(np.intp))]
    try:
        picture = _small(slide.picture)
        own, mirrored = covered(picture, some, slide.pitch), covered(picture, some[:, ::-1], slide.pitch)
    except ExcoraError:  # whoever needs the picture will be told
        return ()
    if own >= FEW or mirrored < own + MORE:
        return ()
    return (
        f"{slide.name}: {own:.0%} of the spots lie on tissue as the image shows it, and {mirrored:.0%} would with x "
        "and y swapped: look at the coordinates",
    )


def _small(picture: Picture) -> Picture:
    """Quick to look at: of a .tif a window at a time is, of others a small copy."""
    if isinstance(picture, TiledPicture):
        return picture
    pixels, scale = picture.thumbnail(800)
    return ArrayPicture(pixels, scale=scale)


def covered(picture: Picture, coords: Floats, pitch: float) -> float:
    """The share of places whose colour is not that of the rim."""
    width, height = (side / picture.scale for side in picture.size)
    inset = min(pitch / 2, width / 4, height / 4)
    t = np.linspace(0.02, 0.98, RIM // 4)
    sides = [(t * width, 0 * t + inset), (t * width, 0 * t + height - inset)]
    sides += [(0 * t + inset, t * height), (0 * t + width - inset, t * height)]
    rim = np.concatenate([np.stack(side, 1) for side in sides])
    background = np.median(_colours(picture, rim, pitch), 0)
    return float((np.abs(_colours(picture, coords, pitch) - background).max(1) > APART).mean())


def _colours(picture: Picture, coords: Floats, pitch: float) -> Floats:
    """(n, 3) the mean colour of half a pitch around each place."""
    return np.stack([picture.window(x, y, pitch / 2, 4).mean((0, 1), dtype=np.float64) for x, y in coords])
