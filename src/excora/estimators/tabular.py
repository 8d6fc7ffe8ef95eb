"""The regressor for tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from excora.data.cells import numbers
from excora.data.dataset import Dataset
from excora.data.table import Table
from excora.errors import InputError
from excora.estimators.base import Regressor
from excora.estimators.checks import framed, input_errors, unlabelled


class TabularRegressor(Regressor, kind="table"):
    """A network for tables, trained by MSE + correlation loss; ``model`` says which one.

    >>> x = np.random.default_rng(0).normal(size=(80, 3))
    >>> y = 5 + x @ [2.0, -1.0, 0.0]
    >>> model = TabularRegressor(random_state=0).fit(x, y)
    >>> model.setup_.model, model.predict(x[:2]).shape, model.score(x, y) > 0.8
    ('kriging', (2,), True)

    - ``"kriging"``: the best linear prediction from the training rows most like a row, in learned metrics, on a stack
      of ridge, curves and, unless ``trees=False``, boosted trees. It is not trained in epochs, holds out rows itself,
      so that all are used, and gives intervals: :meth:`predict_interval`. **The fitted model carries its
      training rows** here too.
    - ``"retrieval"``: attention over the ``neighbours`` training rows most like a row, in a ``metric`` learned first.
      **The fitted model carries its training rows**, and so does every file it is saved or pickled to: about 5 bytes a
      number, 8 a category and 4 a label, and who has the file can read them. In training a row sees neither itself nor
      its duplicates nor rows of its group.
    - ``"ft-transformer"``: attention over columns, read by a CLS token; ``embeddings`` of numbers.
    - ``"pool"``: a token a column, transformer layers, a pool, a head (linear, after ``head`` hidden layers).
    - ``"best"``: "kriging", "ft-transformer" or "retrieval", whichever is best on the validation part (``eval_set``, or
      a share of the samples) among those that there is time for (``seconds``, 600); it is then fitted as if it had been
      named. ``candidates_`` has what each reached.
    - ``"auto"``: "kriging"; where an option is named that it does not have, or one of the training, "ft-transformer" or
      the first that has it.

    ``X`` is a DataFrame (of pandas or polars, or an Arrow table) with columns of numbers, text, categories, booleans or
    dates, or an array of numbers (n, columns); empty cells (None, NaN) are fine, infinite ones are an
    :class:`InputError`. ``y`` is (n,) or (n, targets).
    Columns that are constant in the training part, and text that hardly ever repeats, are not used
    (``preparation_.notes`` says so); if none is left it is an :class:`InputError`.

    The parameters are the options of its models (``excora fit --model NAME --help``; one that a model does not have is
    refused) and of the :class:`excora.settings.Recipe`, where None is what the model wants, and

    - ``validation_fraction``: share of the samples (whole groups) that picks the epoch and stops training. Where that
      is fewer than 2 samples, or all are of one group, all samples are trained on, and pick the epoch as well.
    - ``warm_start``: another call of ``fit`` goes on from the present weights, in the scales of the first one.
    - ``random_state``: an int gives the same predictions bit for bit on one machine; None is fresh at each fit.
    - ``verbose``: a progress bar, where there is a terminal.
    - ``baselines``: fit simple models of four kinds to the same split as well; ``baselines_`` is then a list of
      ``{"name": ..., "validation": {"pcc": ..., "mse": ...}}``.

    After ``fit``: ``network_``, ``preparation_`` (scales and codes), ``setup_``, ``history_`` (a dict an epoch),
    ``best_epoch_`` (from 0; its weights are kept; -1: the ridge that it starts from), ``n_iter_`` (epochs run),
    ``verdict_`` (of the plateau monitor), ``n_features_in_``, ``feature_names_in_``. At least 2 samples are needed. A
    constant ``y`` is predicted as it is.
    """

    def _samples(self, X: Any, *, reset: bool) -> Dataset:
        X = framed(X)
        with input_errors():
            if isinstance(X, pd.DataFrame):
                validate_data(self, X, reset=reset, skip_check_array=True)
                frame = X
            else:
                values = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
                frame = pd.DataFrame(values)
        # scikit-learn has compared names and their order, where both sides have names; from here on places count.
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(self.n_features_in_)])
        frame = frame.set_axis(list(names), axis=1).reset_index(drop=True)
        _check_frame(frame)
        return unlabelled(Table(frame))

    def _joined(self, first: Table, second: Table) -> Table:
        return Table(pd.concat([first.frame, second.frame], ignore_index=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _check_frame(frame: pd.DataFrame) -> None:
    if not len(frame):
        raise InputError("X must have at least one row, got a DataFrame with 0 sample(s)")
    for name, column in frame.items():
        bad = np.flatnonzero(np.isinf(numbers(column)))
        if len(bad):
            raise InputError(f"column {name!r} of X holds infinity in row {bad[0]}: leave the cell empty or correct it")
