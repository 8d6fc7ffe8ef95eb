"""The mean of the labels: what every model has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from excora.peers.base import Context, Fitted, MeanOfLabels, Parameters, Part, Peer, peers


class Mean(Peer):
    """yhat = sum_i v_i y_i / sum_i v_i."""

    label = "mean of the labels"

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:  # noqa: ARG002
        return (Fitted(MeanOfLabels(train), parameters) for parameters in candidates)


peers.register("mean", Mean())
