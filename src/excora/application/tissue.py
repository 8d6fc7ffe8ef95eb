"""The tissue under the spots of a run, for the report: tissue.json, and what lies under the elements of a spot."""

from __future__ import annotations

import base64
import functools
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Index

#: Pixels along the longer side of a slide's picture in the report, and of the one that details are cut from.
PICTURE, DETAIL = 560, 2400
QUALITY = 70


def tissue(dataset: Dataset, index: Index) -> dict[str, Any] | None:
    """Slides with a small picture each, and where the samples of ``index`` lie; None for other samples than spots.

    Places are pixels of full resolution, and so are the width and height that a picture covers.
    """
    content: Any = dataset.content
    if getattr(content, "kind", None) != "spatial" or not len(index):
        return None
    numbers, slide_of = np.unique(content.slide_of[index], return_inverse=True)
    coords = content.coords[index]
    return {
        "slides": [_slide(content.slides[number]) for number in numbers],
        "ids": [str(name) for name in dataset.ids[index]],
        "slide": slide_of.reshape(-1).tolist(),
        "x": [float(f"{x:.6g}") for x in coords[:, 0]],
        "y": [float(f"{y:.6g}") for y in coords[:, 1]],
    }


def _slide(slide: Any) -> dict[str, Any]:
    found = slide.tissue(PICTURE)
    about = {"name": str(slide.name), "pitch": float(slide.pitch)}
    if found is None:
        return about
    pixels, scale = found
    return about | {"picture": jpeg(pixels), "width": pixels.shape[1] / scale, "height": pixels.shape[0] / scale}


def backdrop(dataset: Dataset, sample: int, where: NDArray[np.float64]) -> dict[str, Any] | None:
    """The picture under these places (elements, 2) of a spot, and the square that it covers; None without one."""
    content: Any = dataset.content
    if getattr(content, "kind", None) != "spatial":
        return None
    slide = content.slides[content.slide_of[sample]]
    found = _detail(slide)
    if found is None:
        return None
    pixels, scale = found
    centre = content.coords[sample]
    reach = float(np.abs(where - centre).max()) + 0.5 * float(slide.pitch)
    left, top = (centre - reach) * scale
    right, bottom = (centre + reach) * scale
    box = [max(int(np.floor(v)), 0) for v in (left, top)] + [int(np.ceil(v)) for v in (right, bottom)]
    cut = pixels[box[1] : box[3], box[0] : box[2]]
    if not cut.size:
        return None
    corner, size = (np.array(v) / scale for v in ((box[0], box[1]), (cut.shape[1], cut.shape[0])))
    return {"picture": jpeg(cut), "x": corner[0], "y": corner[1], "width": size[0], "height": size[1]}


@functools.lru_cache(maxsize=2)
def _detail(slide: Any) -> tuple[NDArray[np.uint8], float] | None:
    found: tuple[NDArray[np.uint8], float] | None = slide.tissue(DETAIL)
    return found


def jpeg(pixels: NDArray[np.uint8]) -> str:
    """Pixels (height, width, 3) as the address of an image that a page can hold.

    >>> jpeg(np.zeros((2, 2, 3), np.uint8))[:23]
    'data:image/jpeg;base64,'
    """
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
