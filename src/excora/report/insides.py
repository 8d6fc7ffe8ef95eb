"""The parts of inside.json: a look inside the network; a field that a file may lack has a default."""

from __future__ import annotations

from dataclasses import dataclass, field

Number = float | None  #: None where undefined


@dataclass(frozen=True, kw_only=True)
class InsidePool:
    """What the weights of one pool are worth; with a ``reason`` why that is not known."""

    pool: str
    reason: str = ""
    places: int = 0
    gain: Number = None
    even_gain: Number = None
    best_gain: Number = None
    strength: Number = None
    threshold: Number = None
    alignment: Number = None


@dataclass(frozen=True, kw_only=True)
class InsideLayer:
    """How one layer moves its points."""

    layer: str
    kind: str
    points: int
    optimality: Number
    matching: Number
    monge_gap: Number


@dataclass(frozen=True, kw_only=True)
class InsideSpectrum:
    """How the singular values of elements or of attention fall."""

    of: str
    kind: str
    directions: float  #: that carry 90 % of the energy, mean
    most: float  #: that there could be
    shares: list[float]  #: of the energy, largest first
    reading: str
    mean_cosine: Number = None


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A look inside the network: inside.json."""

    samples: int
    pools: list[InsidePool]
    layers: list[InsideLayer] = field(default_factory=list)
    spectra: list[InsideSpectrum] = field(default_factory=list)
