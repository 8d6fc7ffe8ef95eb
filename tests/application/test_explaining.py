"""explain on runs: the planted columns of a table, elements of a bag, files that stay, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from excora import Settings, fit
from excora.application.explaining import explain
from excora.errors import InputError


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", "b", "idle"])
    frame["kind"] = rng.choice(list("uvw"), 240)
    return frame.assign(y=2 * frame["a"] + 1.5 * (frame["kind"] == "u"))


@pytest.fixture(scope="module")
def file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def runs(file):
    def made(model: str, **more):
        settings = Settings(model=model, epochs=8, accelerator="cpu", dim=8, **more)
        output = file.parent / model
        return fit(file, target="y", output=output, settings=settings, baselines=False, progress=False)

    return {
        "ft-transformer": made("ft-transformer", heads=2, start="none", learning_rate=0.01),
        "retrieval": made("retrieval"),
    }


def test_a_prediction_hangs_on_the_columns_that_make_the_label(runs, rows):
    found = explain(runs["ft-transformer"], runs["ft-transformer"].path.parent / "rows.csv", most_rows=4, tolerance=0.4)
    for number, one in enumerate(found.rows.values()):
        assert one.names == ("a", "b", "idle", "kind")
        assert one.graph.nodes == 5
        assert abs(one.changes[[1, 2]]).max() < 0.5 * rows["y"].std()
        far = abs(rows["a"][number]) > 0.8
        assert not far or ["a"] in [one.named(e) for e in one.sets]
        for e in one.sets:
            assert abs(e.change) > one.tolerance


def test_a_model_without_attention_between_columns_has_no_graph(runs, file):
    found = explain(runs["retrieval"], file, most_rows=1)
    (one,) = found.rows.values()
    assert one.graph is None
    assert [row["edges"] for row in found.to_dict()["rows"].values()] == [None]


def test_the_page_is_written_once(runs, file, tmp_path):
    found = explain(runs["ft-transformer"].path, file, most_rows=2)
    page = found.save(tmp_path / "why.html").read_text()
    assert "knob and no sample size" in page
    assert page.count("<svg") == 2
    with pytest.raises(InputError, match="there already"):
        found.save(tmp_path / "why.html")


def test_elements_of_a_bag(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["u", "v", "w"]).assign(bag=np.repeat(np.arange(50), 4))
    frame["y"] = frame.groupby("bag")["u"].transform("sum")
    frame.to_csv(tmp_path / "bags.csv", index=False)
    settings = Settings(model="pool", epochs=2, accelerator="cpu", dim=8, start="none")
    run = fit(tmp_path / "bags.csv", target="y", bag="bag", output=tmp_path / "run", settings=settings,
              baselines=False, progress=False)  # fmt: skip
    found = explain(run, tmp_path / "bags.csv", most_rows=1)
    (one,) = found.rows.values()
    assert one.names == tuple(f"element {i}" for i in range(4))
    assert np.abs(one.changes).min() > 0


def test_what_cannot_be_explained_is_refused(runs, file):
    for wrong, message in (({"target": "z"}, "target must be one of y"), ({"tolerance": 0.0}, "tolerance positive")):
        with pytest.raises(InputError, match=message):
            explain(runs["retrieval"], file, **wrong)
