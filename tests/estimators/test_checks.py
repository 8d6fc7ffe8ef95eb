"""Labels, weights, groups and seeds as users hand them in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from excora.data.table import Table
from excora.errors import InputError
from excora.estimators.checks import TINY, input_errors, labelled, plain, prepare, seed, take, unlabelled


class Estimator:
    """Names itself in errors."""


def samples(count: int = 6):
    return unlabelled(Table(pd.DataFrame({"a": np.arange(float(count)), "b": np.arange(float(count)) ** 2})))


def test_a_value_error_of_scikit_learn_is_an_input_error_in_its_words():
    with pytest.raises(InputError, match="their words") as caught, input_errors():
        raise ValueError("their words")
    assert type(caught.value.__cause__) is ValueError


@pytest.mark.parametrize("state", [7, np.int64(7)])
def test_a_seed_is_itself(state):
    assert seed(state) == 7
    assert type(seed(state)) is int


def test_a_random_state_is_drawn_from_and_none_is_fresh():
    state = np.random.RandomState(0)
    assert seed(np.random.RandomState(0)) == seed(state) != seed(state)
    np.random.seed(0)
    first = seed(None)
    np.random.seed(0)
    assert seed(None) != first


@pytest.mark.parametrize("state", [-1, 2**32, 1.5, "x", True])
def test_what_is_no_seed_is_refused(state):
    with pytest.raises(InputError, match="random_state must be None, an int"):
        seed(state)


def test_numbers_of_numpy_become_those_of_python():
    assert [type(plain(value)) for value in (np.float32(0.5), np.int64(3), np.bool_(1), "x")] == [float, int, bool, str]


def test_names_tell_a_vector_from_a_column():
    x, y = samples(), np.arange(6.0)
    assert labelled(x, y, None, None, Estimator()).targets == ("y",)
    assert labelled(x, y[:, None], None, None, Estimator()).targets == ("y0",)


def test_samples_of_weight_0_are_absent_and_weights_are_at_most_1():
    groups = [1, 1, 2, 2, 3, 3]
    found = labelled(samples(), np.arange(6.0), [0, 4, 0, 2, 1, 0], groups, Estimator())
    assert found.target[:, 0].tolist() == [1.0, 3.0, 4.0]
    assert found.weight.tolist() == [1.0, 0.5, 0.25]
    assert (found.ids.tolist(), found.group.tolist()) == (["0", "1", "2"], ["1", "2", "3"])


def test_a_sample_may_be_taken_twice():
    found = take(labelled(samples(), np.arange(6.0), None, None, Estimator()), np.array([4, 4, 0]))
    assert found.target[:, 0].tolist() == [4.0, 4.0, 0.0]
    assert found.ids.tolist() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("y", "weight", "groups", "message"),
    [
        (None, None, None, "Estimator requires y"),
        (np.arange(5.0), None, None, "X has 6 samples, y has 5"),
        ([0, 1, 2, 3, 4, np.nan], None, None, "NaN"),
        (np.arange(6.0), np.ones(5), None, "sample_weight has 5"),
        (np.arange(6.0), np.ones((6, 1)), None, r"shape \(6,\), got \(6, 1\)"),
        (np.arange(6.0), [1, 1, 1, -2, 1, 1], None, "got -2 for sample 3"),
        (np.arange(6.0), [0, 0, 1, 0, 0, 0], None, "above zero for at least 2"),
        (np.arange(6.0), None, np.ones((6, 2)), r"groups must have the shape \(6,\)"),
        (np.arange(6.0), None, [1, 2], "groups has 2"),
    ],
)
def test_what_breaks_a_rule_is_named(y, weight, groups, message):
    with pytest.raises(InputError, match=message):
        labelled(samples(), y, weight, groups, Estimator())


def test_one_sample_is_nothing_to_learn_from():
    with pytest.raises(InputError, match="at least 2 samples"):
        labelled(samples(1), [1.0], None, None, Estimator())


def test_a_label_that_is_constant_in_the_training_part_has_the_scale_it_has_elsewhere():
    y = np.array([[3.0, 5.0], [3.0, 5.0], [3.0, 5.0], [3.0, 5.0], [9.0, 5.0], [0.0, 5.0]])
    found = prepare(labelled(samples(), y, None, None, Estimator()), np.arange(4))
    assert found.mean == (3.0, 5.0)
    assert found.std == pytest.approx((y[:, 0].std(), TINY))
    assert found.unscale(np.array([[0.0, 1.0]])).tolist() == [[3.0, 5.0]]
