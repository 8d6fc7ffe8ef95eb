"""What a report knows of clips: how much each modality is used, as results.json has it."""

from __future__ import annotations

from dataclasses import dataclass, field

Number = float | None  #: None where undefined


@dataclass(frozen=True, kw_only=True)
class ModalityUse:
    """A modality that was taken from other clips."""

    modality: str
    moved: Number  #: how far predictions moved, in deviations of the labels
    pcc: Number


@dataclass(frozen=True, kw_only=True)
class ClipUse:
    """The same of one clip, by modality."""

    id: str
    moved: dict[str, Number]


@dataclass(frozen=True, kw_only=True)
class ModalityShare:
    """What a modality brings to another in a layer."""

    layer: str
    receiver: str
    giver: str
    share: Number
    by_head: list[Number] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Modalities:
    """All of it."""

    clips: int
    pcc: Number
    uses: list[ModalityUse]
    by_clip: list[ClipUse] = field(default_factory=list)
    brought: list[ModalityShare] = field(default_factory=list)
