"""Dates as text: common forms are known, a day that could be a month is not guessed."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from excora.data.dates import FORMS, ISO, date_form, form_of, moments

WHEN = [datetime.datetime(2024, 1, 31, 17, 5), datetime.datetime(1999, 12, 1, 5, 30), datetime.datetime(2030, 3, 14)]
EPOCH = datetime.datetime(1970, 1, 1)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_recognised_and_read(form):
    column = pd.Series([when.strftime(form) for when in WHEN])
    cut = [datetime.datetime.strptime(text, form) for text in column]
    days = [(when - EPOCH) / datetime.timedelta(days=1) for when in cut]
    found = date_form(column)
    np.testing.assert_allclose(moments(column, found), days, rtol=0, atol=1e-9)
    gappy = pd.Series([None, *column])
    assert form_of(gappy) == found
    assert np.isnan(moments(gappy, found)[0])


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["01/02/2024", "13/02/2024"], "%d/%m/%Y"), (["01/02/2024", "02/13/2024"], "%m/%d/%Y"),
        (["01/02/2024", "02/03/2024"], None), (["05/05/2024"], "%d/%m/%Y"), (["13/02/2024", "02/13/2024"], None),
        (["1.2.2024", "02.03.2024"], "%d.%m.%Y"), (["2024-01-31", "2024-02-01T10:00Z"], ISO),
        (["31.12.9999", "01.01.2024"], "%d.%m.%Y"), (["2024-01-31", "31.01.2024"], None), (["32.01.2024"], None),
        (["1/2"], None), (["red"], None),
    ],
)  # fmt: skip
def test_which_form_a_column_has(cells, form):
    assert date_form(pd.Series(cells)) == form


def test_a_date_type_needs_no_form():
    days = pd.Series(pd.date_range("2024-01-31", periods=2))
    assert form_of(days) == ISO
    assert moments(days, "%d.%m.%Y").tolist() == [19753, 19754]
