"""The sentiment scores against MMSA's formulas in scikit-learn: with ties, zeros and half values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.mosi import mosi

from excora.errors import InputError
from excora.stats.sentiment import NAMES, SentimentScores, sentiment_scores

halves = st.integers(-8, 8).map(lambda k: k / 2)  # .5 is a tie of rounding, 0 one of the classes, beyond 3 is clipped


@given(st.lists(st.tuples(halves, halves.filter(lambda v: abs(v) <= 3)), min_size=3, max_size=30))
def test_all_eight_are_those_of_the_reference(pairs):
    p, y = np.array(pairs).T
    assume(p.std() > 0 and y.std() > 0)
    np.testing.assert_allclose(sentiment_scores(p, y), mosi(p, y), rtol=1e-12, atol=1e-12)


def test_of_686_predictions_as_in_the_test_part():
    generator = np.random.default_rng(0)
    y = np.round(generator.normal(-0.3, 1.6, 686).clip(-3, 3), 1)
    p = y + generator.normal(0, 0.8, 686)
    p[:10], p[10:20], y[:5] = 0.0, np.arange(10) - 4.5, 0.0
    found = sentiment_scores(p, y)
    np.testing.assert_allclose(found, mosi(p, y), rtol=1e-12)
    assert list(found.named()) == list(NAMES)


def test_halves_go_to_the_even_number_and_zeros_are_a_class_of_has0_alone():
    found = sentiment_scores([0.5, 1.5, 0.0, -1e-9], [0.0, 2.0, 1.0, -1.0])
    assert found.acc7 == 0.5  # round(0.5) = 0, round(1.5) = 2
    assert found.acc2_has0 == 1.0
    assert found.acc2_non0 == pytest.approx(2 / 3)  # 0 is not above 0


def test_what_is_undefined_is_nan():
    assert np.isnan(sentiment_scores([], [])).all()
    constant = sentiment_scores([1.0, 1.0], [0.0, 0.0])
    assert np.isnan([constant.pcc, constant.acc2_non0, constant.f1_non0]).all()
    assert constant.mae == 1.0
    some = sentiment_scores([1.0, 2.0, 5.0], [1.0, 2.0, np.nan])
    assert some == SentimentScores(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, pytest.approx(1.0))


def test_another_number_of_labels_is_refused():
    with pytest.raises(InputError, match="got 2 and 3"):
        sentiment_scores([1, 2], [1, 2, 3])
