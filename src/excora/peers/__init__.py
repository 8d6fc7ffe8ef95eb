"""What one would use instead: models of other packages behind one interface, for comparisons, studies and baselines.

``peers`` names them; :func:`tuned` fits one by its usual list of settings, :func:`search` tries any.
"""

from excora.peers.base import Fitted, MeanOfLabels, Parameters, Part, Peer, peers
from excora.peers.tuning import Trial, drawn, search, tuned

__all__ = ["Fitted", "MeanOfLabels", "Parameters", "Part", "Peer", "Trial", "drawn", "peers", "search", "tuned"]
