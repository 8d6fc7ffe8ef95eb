"""TabularRegressor with the retrieval model: rows that see each other, weights, warm starts, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from excora.errors import InputError
from excora.estimators import TabularRegressor, base
from excora.training.building import build

OPTIONS = {"model": "retrieval", "dim": 8, "neighbours": 5, "metric": "plain", "epochs": 2, "batch_size": 32}


def frame(rows: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, colour = rng.normal(size=(rows, 3)), rng.choice(["red", "blue"], rows)
    found = pd.DataFrame(x, columns=list("abc")).assign(colour=colour, always=1.0)
    found.loc[::8, "b"] = np.nan
    y = x[:, 0] + np.sin(x[:, 1]) + (colour == "red")
    return found, np.stack([y, 10 * y + x[:, 2]], 1)


def test_every_kind_of_column_and_two_targets():
    x, y = frame(150)
    model = TabularRegressor(**OPTIONS | {"epochs": 8, "scaling": "quantile"}, random_state=0).fit(x[:120], y[:120])
    assert model.setup_.model == "retrieval"
    assert np.corrcoef(model.predict(x[120:])[:, 0], y[120:, 0])[0, 1] > 0.6
    assert "always" in " ".join(model.preparation_.notes)
    alone = np.concatenate([model.predict(x[k : k + 1]) for k in range(120, 124)])
    assert alone == pytest.approx(model.predict(x[120:])[:4], abs=1e-9)


def test_it_has_the_numbers_for_its_rows():
    options = {name: value for name, value in OPTIONS.items() if name not in ("epochs", "batch_size")}
    model = TabularRegressor(**options, epochs=2).fit(*frame(90))
    assert (model.setup_.recipe.epochs, model.setup_.recipe.batch_size) == (2, 32)


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_a_handful_of_rows_works_and_no_row_meets_itself(rows, monkeypatch):
    seen = []
    monkeypatch.setattr(base, "build", lambda *a, **k: seen.append(build(*a, **k)) or seen[-1])
    x, y = np.arange(2.0 * rows).reshape(rows, 2) ** 2, np.arange(float(rows))
    model = TabularRegressor(**OPTIONS, random_state=0).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    features = seen[0].features
    originals = torch.arange(rows)[:, None]
    for part in (slice(0, rows), slice(rows, 2 * rows)):
        assert features.allowed[part].sum() == rows * min(rows - 1, 5)
        assert not (features.allowed[part] & (features.neighbours[part] == originals)).any()


def test_rows_of_one_group_cannot_look_at_each_other():
    x, y = frame(30)
    with pytest.raises(InputError, match=r"may see another.*of one group"):
        TabularRegressor(**OPTIONS).fit(x, y, groups=np.zeros(30))
    other = TabularRegressor(model="pool", dim=4, epochs=1).fit(x, y, groups=np.zeros(30))
    assert np.isfinite(other.predict(x)).all()


def test_weights_count_and_a_row_of_weight_zero_is_absent():
    x, y = frame(80)
    weight = np.ones(80)
    weight[:20] = 0
    first = TabularRegressor(**OPTIONS, random_state=0).fit(x, y, sample_weight=weight)
    second = TabularRegressor(**OPTIONS, random_state=0).fit(x[20:], y[20:], sample_weight=weight[20:])
    assert np.array_equal(first.predict(x), second.predict(x))
    third = TabularRegressor(**OPTIONS, random_state=0).fit(x[20:], y[20:], sample_weight=1.0 + np.arange(60))
    assert not np.array_equal(third.predict(x), second.predict(x))


def test_wide_tables():
    x = np.random.default_rng(0).normal(size=(40, 520))
    model = TabularRegressor(**OPTIONS | {"metric": "full", "epochs": 1}, random_state=0).fit(x, x[:, 0])
    assert model.network_.metric_mix is None
    assert np.isfinite(model.predict(x)).all()


def test_a_warm_start_goes_on_with_the_rows_it_is_given():
    x, y = frame(80)
    model = TabularRegressor(**OPTIONS, random_state=0, warm_start=True).fit(x, y)
    before = model.predict(x)
    model.set_params(learning_rate=0.0).fit(x, y)
    assert np.array_equal(model.predict(x), before)
    metric = model.network_.metric_weight.clone()
    model.set_params(learning_rate=0.01).fit(x[:50], y[:50])
    assert model.network_.learned["context"] == 40
    assert torch.equal(model.network_.metric_weight, metric)
    with pytest.raises(InputError, match=r"neighbours is 7 .*has 5"):
        model.set_params(neighbours=7).fit(x, y)


def test_a_saved_regressor_carries_its_rows(tmp_path):
    x, y = frame(60)
    model = TabularRegressor(**OPTIONS, random_state=0).fit(x, y)
    model.save(tmp_path / "model.safetensors")
    again = TabularRegressor.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict(x), model.predict(x))
    assert again.get_params() == model.get_params()
    assert again.setup_ == model.setup_
    assert len(load_file(tmp_path / "model.safetensors")["context_labels"]) == 48


def test_the_best_model_is_chosen_on_rows_that_are_then_used():
    x, y = frame(90)
    model = TabularRegressor(model="best", neighbours=5, epochs=1, batch_size=32, random_state=0).fit(x, y[:, 0])
    assert [one["model"] for one in model.candidates_] == ["kriging", "retrieval"]
    least = min(model.candidates_, key=lambda one: one["validation"]["criterion"])
    assert model.setup_.model == least["model"]
    assert len(model.network_.context_x if least["model"] == "kriging" else x) == 90
    model.set_params(warm_start=True)
    before = model.candidates_
    assert model.fit(x, y[:, 0]).candidates_ is before
    with pytest.raises(InputError, match="is chosen on the validation part"):
        TabularRegressor(model="best", validation_fraction=0.0).fit(x, y)


def test_an_arrow_table_is_read_by_its_columns():
    """As polars' frames are, which have the same method; as an array its text would be refused."""
    arrow = pytest.importorskip("pyarrow")
    x = np.random.default_rng(0).normal(size=40)
    frame = pd.DataFrame({"x": x, "colour": np.where(x > 0, "red", "blue")})
    table = arrow.Table.from_pandas(frame)
    model = TabularRegressor(members=1, trees=False, random_state=0).fit(table, x)
    assert list(model.feature_names_in_) == ["x", "colour"]
    assert np.array_equal(model.predict(table), model.predict(frame))
