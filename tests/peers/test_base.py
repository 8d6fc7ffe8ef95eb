"""What is the same for all peers: labels that are unknown, and settings that differ by target."""

from __future__ import annotations

import numpy as np

from excora.peers import Fitted, MeanOfLabels, Part, Peer


class Noting(Peer):
    """Predicts the mean and notes what it was given."""

    label = "noting"

    def __init__(self, separate: bool = False) -> None:
        self.separate = separate
        self.seen: list[tuple] = []

    def _fits(self, train, candidates, context):
        for parameters in candidates:
            held = None if context.validation is None else context.validation.y.shape
            self.seen.append((train.y.shape, held, parameters))
            yield Fitted(MeanOfLabels(train), parameters | {"rows": len(train.y)})


X = np.zeros((4, 1))
NAN = np.nan
Y = np.array([[1.0, NAN, 3.0, NAN], [2.0, 5.0, 2.0, NAN], [3.0, 7.0, 1.0, NAN], [4.0, NAN, 6.0, 9.0]])


def test_targets_known_for_the_same_samples_are_fitted_together_and_others_apart():
    peer = Noting()
    found = peer.fit(Part(X, Y), {"a": 1}, validation=Part(X[:2], Y[:2]))
    assert [shape for shape, _, _ in peer.seen] == [(4, 2), (2, 1)]
    assert [held for _, held, _ in peer.seen] == [(2, 2), (1, 1)]
    # The last target has one label, which is all that is known of it.
    assert found.predict(np.zeros((1, 1))).tolist() == [[2.5, 6.0, 3.0, 9.0]]
    assert [one.get("rows") for one in found.parameters["targets"]] == [4, 2, 4, None]


def test_settings_by_target_go_to_their_targets():
    peer = Noting(separate=True)
    peer.fit(Part(X, Y[:, :3]), {"targets": [{"a": 1}, {"a": 2}, {"a": 3}]})
    assert [(shape[0], given["a"]) for shape, _, given in peer.seen] == [(4, 1), (2, 2), (4, 3)]


def test_a_target_without_a_label_is_predicted_as_0_and_one_without_validation_labels_has_no_validation_part():
    peer = Noting()
    found = peer.fit(Part(X, np.full((4, 1), NAN)), {})
    assert found.predict(X).tolist() == [[0.0]] * 4
    peer.fit(Part(X, Y[:, :1]), {}, validation=Part(X, np.full((4, 1), NAN)))
    assert peer.seen[-1][1] is None


def test_a_weighted_mean():
    found = MeanOfLabels(Part(X, Y[:, :1], np.array([1.0, 0.0, 0.0, 1.0])))
    assert found(X[:1]).tolist() == [[2.5]]
    assert MeanOfLabels(Part(X, Y[:, :1], np.zeros(4)))(X[:1]).tolist() == [[2.5]]
