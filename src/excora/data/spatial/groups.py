"""Parts that do not leak: slides of one picture or patient stay together; of one slide, blocks with a margin."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Index
from excora.data.spatial.slide import Floats, Slide
from excora.data.splits import Split
from excora.errors import InputError

#: Spots of one slide that are nearer than so many pitches to a held-out one are not trained on.
MARGIN = 1.5
#: Blocks along each side of a single slide, at most.
SIDE = 4


def groups_of(slides: Sequence[Slide], role: str | None, slide_of: Index, spot_of: Index) -> NDArray[np.object_]:
    """(n,) a name for what a split must not cut.

    By slide, or by what ``role`` names: ``patient`` or another column of spots or of the table of slides. Slides that
    show the same picture are one group whatever they are called. The spots of a single slide, where nothing else is
    asked for, are grouped by blocks of tissue.
    """
    if role is None and len(slides) == 1:
        return np.array([f"block {k}" for k in blocks(slides[0].coords)], object)[spot_of]
    words = [_words(slide, role) for slide in slides]
    found = np.array([words[s][k] for s, k in zip(slide_of, spot_of, strict=True)], object)
    return _joined(found, [slide.key for slide in slides], slide_of)


def _words(slide: Slide, role: str | None) -> Sequence[str]:
    if role in (None, "slide") and role not in slide.about:
        return [slide.name] * len(slide)
    found = slide.about.get(str(role))
    if found is None:
        have = ", ".join(map(repr, slide.about)) or "nothing else"
        raise InputError(f"slide {slide.name!r} has no {role!r} to group by; 'slide' always is one, and it has {have}")
    return [found] * len(slide) if isinstance(found, str) else [str(word) for word in found]


def _joined(words: NDArray[np.object_], keys: Sequence[str], slide_of: Index) -> NDArray[np.object_]:
    """The groups of slides that share a picture become one: union-find over their names."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for number in np.unique(slide_of):
        if list(keys).count(keys[number]) == 1:  # a group within a slide is meant to be one
            continue
        picture = f"\0{keys[number]}"
        for word in sorted(set(words[slide_of == number])):
            parent[root(picture)] = root(word)
    shown: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        shown.setdefault(root(word), []).append(word)
    return np.array([" + ".join(shown[root(word)]) for word in words], object)


def same_pictures(slides: Sequence[Slide]) -> list[str]:
    """A note for every picture that several slides show."""
    by_key: dict[str, list[str]] = {}
    for slide in slides:
        by_key.setdefault(slide.key, []).append(slide.name)
    return [
        f"slides {' and '.join(names)} show the same picture: no split puts them on two sides"
        for names in by_key.values()
        if len(names) > 1
    ]


def blocks(coords: Floats) -> NDArray[np.intp]:
    """(n,) the block of each spot of a slide: columns of equal numbers of spots, each cut into equal parts.

    >>> int(blocks(np.array([[x, y] for x in range(8) for y in range(6)], float)).max())
    3
    """
    n = len(coords)
    side = int(np.clip(np.sqrt(n / 12), 2, SIDE))
    found = np.zeros(n, np.intp)
    for column, members in enumerate(np.array_split(np.lexsort((coords[:, 1], coords[:, 0])), side)):
        ordered = members[np.argsort(coords[members, 1], kind="stable")]
        for row, spots in enumerate(np.array_split(ordered, side)):
            found[spots] = column * side + row
    return found


def kept_apart(slides: Sequence[Slide], slide_of: Index, spot_of: Index, parts: Split) -> Split:
    """The parts, without training spots near a held-out one of their slide, nor validation spots near a test one."""
    train = _far(slides, slide_of, spot_of, parts.train, np.concatenate([parts.validation, parts.test]))
    return Split(train, _far(slides, slide_of, spot_of, parts.validation, parts.test), parts.test)


def _far(slides: Sequence[Slide], slide_of: Index, spot_of: Index, index: Index, held: Index) -> Index:
    from scipy.spatial import cKDTree

    keep = np.ones(len(index), bool)
    for number in np.intersect1d(slide_of[index], slide_of[held]):
        slide = slides[number]
        here = slide_of[index] == number
        tree = cKDTree(slide.coords[spot_of[held[slide_of[held] == number]]])
        keep[here] = tree.query(slide.coords[spot_of[index[here]]])[0] > MARGIN * slide.pitch
    return index[keep]


def check_leak(dataset: Any, parts: Split, *, warn: bool = False) -> None:
    """Refuse parts in which training and test show the same picture; with ``warn`` say so and go on.

    Blocks of one slide are another matter: they are of one slide on purpose.
    """
    content = dataset.content
    key = np.array([content.slides[s].key for s in content.slide_of], object)
    for name, index in (("validation", parts.validation), ("test", parts.test)):
        shared = sorted(set(key[parts.train]) & set(key[index]))
        if shared:
            pairs = [sorted({content.slides[s].name for s in np.unique(content.slide_of[part[key[part] == shared[0]]])})
                     for part in (parts.train, index)]  # fmt: skip
            message = (
                f"the training and the {name} part show the same picture (slides {', '.join(pairs[0])} and "
                f"{', '.join(pairs[1])}): what is measured there is no prediction of a new slide"
            )
            if not warn:
                raise InputError(message + "; keep them in one part")
            warnings.warn(message, UserWarning, stacklevel=2)
