"""Tuning: what is chosen, what it may see, and the budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from excora.peers import Fitted, Part, drawn, peers, search, tuned
from excora.stats.scores import criterion
from peers.samples import parts


def constant(level: float, name: str) -> Fitted:
    return Fitted(lambda x: np.full((len(x), 1), level), {"name": name})


def test_the_best_comes_first_and_the_first_of_equals_before_the_others():
    held = Part(np.zeros((3, 1)), np.zeros((3, 1)))
    fits = [constant(1.0, "a"), constant(0.5, "b"), constant(math.nan, "c"), constant(-0.5, "d")]
    found = search(fits, held)
    assert [trial.fitted.parameters["name"] for trial in found] == ["b", "d", "a", "c"]
    assert [trial.score for trial in found[:3]] == [0.25, 0.25, 1.0]


def test_no_fit_is_asked_for_after_the_budget_but_the_first():
    asked = []

    def fits():
        for number in range(4):
            asked.append(number)
            yield constant(0.0, str(number))

    held = Part(np.zeros((3, 1)), np.zeros((3, 1)))
    assert len(search(fits(), held, seconds=-1.0)) == 1
    assert asked == [0]
    assert len(search(fits(), held, seconds=60.0)) == 4


def test_drawn_settings_begin_with_the_defaults_and_are_always_the_same():
    space = {"a": (1, 2, 3), "b": ("x", "y")}
    found = drawn({"a": 1, "c": 0}, space, 20)
    assert found == drawn({"a": 1, "c": 0}, space, 20)
    assert found[0] == {"a": 1, "c": 0}
    assert {(one["a"], one["b"]) for one in found[1:]} == {(a, b) for a in (1, 2, 3) for b in ("x", "y")}
    assert drawn({"a": 1}, {}, 20) == [{"a": 1}]


@pytest.mark.parametrize("name", ["ridge", "neighbours", "lightgbm"])
def test_what_is_chosen_is_best_on_validation(name):
    train, validation, _ = parts()
    measure = criterion()
    found = tuned(peers[name], train, validation, measure)
    bad = measure(np.zeros_like(validation.y), validation.y, None)
    best = measure(found.predict(validation.x), validation.y, None)
    assert best < 0.7 * bad
    again = (peers[name].fit(train, one, validation=validation, measure=measure) for one in peers[name].candidates)
    assert best == pytest.approx(min(measure(one.predict(validation.x), validation.y, None) for one in again))


def test_a_peer_with_a_model_a_target_chooses_each_by_itself():
    train, validation, test = parts(targets=2)
    both = tuned(peers["lightgbm"], train, validation, criterion())
    for t in range(2):
        one = [part._replace(y=part.y[:, [t]]) for part in (train, validation)]
        alone = tuned(peers["lightgbm"], *one, criterion())
        np.testing.assert_array_equal(both.predict(test)[:, [t]], alone.predict(test))
        assert both.parameters["targets"][t] == alone.parameters
    assert [sorted(one) for one in peers["lightgbm"].chosen(both.parameters)["targets"]] == [["leaves", "trees"]] * 2
    # What was chosen can be fitted again, without a validation part.
    again = peers["lightgbm"].fit(train, both.parameters)
    np.testing.assert_array_equal(again.predict(test), both.predict(test))
