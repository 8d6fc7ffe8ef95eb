"""Long tables: rows in any order, columns by name, and contradictions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from data.bags.made import BAGS, IDS, TARGET, same
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.validation import validate
from excora.errors import DataError


def test_a_long_table_in_any_order(tmp_path):
    rows = [(name, *map(float, row), y) for name, bag, y in zip(IDS, BAGS, TARGET, strict=True) for row in bag]
    frame = pd.DataFrame(rows, columns=["bag", "a", "b", "c", "y"])
    frame["case"] = frame["bag"].str[-1]
    frame.to_csv(tmp_path / "long.csv", index=False)
    data = read(tmp_path / "long.csv", bag="bag", target="y", group="case")
    assert data.ids.tolist() == IDS
    same(data)
    mixed = frame.iloc[np.argsort(np.arange(len(frame)) % 3, kind="stable")]  # stable: elements keep their order
    mixed.to_parquet(tmp_path / "long.parquet")
    data = read(tmp_path / "long.parquet", bag="bag", target="y", drop="case")
    order = [IDS.index(name) for name in data.ids]
    np.testing.assert_array_equal(data.target[:, 0], TARGET[order])
    for k, place in enumerate(order):
        assert sorted(data.content.bags.read(k).tolist()) == sorted(BAGS[place].tolist())
    assert data.notes == ("a column without a name is left out: (unnamed) __index_level_0__",)  # of pandas
    assert validate(tmp_path / "long.csv", bag="bag", target="y").to_dict()["elements"]["max"] == 4


def test_columns_of_elements_are_known_by_name(tmp_path):
    frame = pd.DataFrame(
        {"b": list("pqrst") * 2, "x": np.arange(10.0), "z": np.arange(10.0) ** 2, "y": [*range(5)] * 2}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame[["z", "b", "x"]].assign(more=1).to_csv(tmp_path / "b.csv", index=False)
    frame[["b", "x"]].to_csv(tmp_path / "c.csv", index=False)
    data = read(tmp_path / "a.csv", bag="b", target="y")
    prepared = Preparation.fit(data, np.arange(5))
    assert prepared.matrix_names[:2] == ("mean of x", "mean of z")
    new = read(tmp_path / "b.csv", bag="b", target="y", labelled=False)
    assert prepared.examine(new).notes == ("column 'more' is ignored: training has not seen it",)
    np.testing.assert_array_equal(prepared.matrix(new), prepared.matrix(data))
    wanted = prepared.features(data).read(np.arange(5))
    torch.testing.assert_close(prepared.features(new).read(np.arange(5)), wanted, rtol=0, atol=0)
    with pytest.raises(DataError, match="column 'z' is missing"):
        prepared.features(read(tmp_path / "c.csv", bag="b", target="y", labelled=False))


LONG = "b,x,y,g\np,1,5,u\np,2,5,u\nq,3,6,v\nq,4,6,v\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LONG.replace("q,4,6", "q,4,7"), "'y' must be the same in every row of a bag, got '6' and '7' in bag 'q'"),
        (LONG.replace("p,2,5,u", "p,2,5,v"), "'g' must be the same in every row of a bag, got 'u' and 'v' in bag 'p'"),
        (LONG.replace("p,2,5,u", "p,2,,u"), "'y' must be the same in every row of a bag, got '5.0' and 'nan'"),
        (LONG + "q,5,6,v\n" * 9 + "q,red,6,v\n", "column 'x' must hold finite numbers or .*, got 'red' in row 15"),
        (LONG.replace("q,4", "q,inf"), "column 'x' must hold finite numbers or empty cells, got 'inf' in row 5"),
        (LONG.replace("q,4", ",4"), "the bag 'b' must be there in every row, got nothing in row 5"),
    ],
)  # fmt: skip
def test_long_tables_that_contradict_themselves(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.csv", bag="b", target="y", group="g")


def test_a_column_that_nobody_can_read_matters_only_if_training_had_it(tmp_path):
    def at(name, text):
        (tmp_path / name).write_text(text)
        return read(tmp_path / name, bag="b", target="y", labelled=name == "train.csv")

    data = at("train.csv", "b,x,y\np,1,1\np,2,1\nq,3,2\nr,4,3\n")
    prepared = Preparation.fit(data, np.arange(3))
    new = at("more.csv", "word,b,x\nu,p,1\nv,p,2\n,q,3\nw,r,4\n")
    np.testing.assert_array_equal(prepared.matrix(new), prepared.matrix(data))
    assert prepared.examine(new).notes == ("column 'word' is ignored: training has not seen it",)
    with pytest.raises(DataError, match="column 'x' must be a finite number in every row of a bag, got 'u' in row 2"):
        prepared.features(at("bad.csv", "b,x,z\np,u,1\nq,1,2\n"))
    with pytest.raises(DataError, match="column 'x' must be a finite number in every row of a bag, got 'u' in row 2"):
        prepared.features(at("worse.csv", "b,x\np,u\nq,1\n"))


def test_bags_without_a_label_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("b,x,y\np,1,1\nq,2,\nq,3,\nr,4,2\n")
    data = read(tmp_path / "a.csv", bag="b", target="y")
    assert (data.ids.tolist(), data.target.tolist()) == (["p", "r"], [[1], [2]])
    assert data.content.bags.gather(np.array([1, 0])).tolist() == [[4], [1]]
    assert data.notes == ("1 of 3 bags has no label and is left out",)


def test_gaps_categories_and_dates_are_as_in_a_plain_table(tmp_path):
    path = tmp_path / "a.csv"
    lines = [
        f"b{k // 3},{k if k % 4 else '?'},{('red', 'blue', '')[k % 3]},2024-01-{k + 1:02d},{k // 3}" for k in range(30)
    ]
    path.write_text("b,x,colour,day,y\n" + "\n".join(lines))
    data = read(path, bag="b", target="y")
    assert data.notes == ("column 'x' holds numbers: '?' in 8 cells is read as missing",)
    prepared = Preparation.fit(data, np.arange(6))
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again == prepared
    names = prepared.content.names
    assert names[:2] == ("x", "day days")
    assert names[-4:] == ("x is missing", "colour = (empty)", "colour = blue", "colour = red")
    elements = prepared.features(data).read(np.array([0]))["elements"][0]
    frame = data.content.table.frame.iloc[:18]
    plain = (frame["x"] - frame["x"].mean()) / frame["x"].std(ddof=0)
    scale = plain.fillna(0).std(ddof=0)  # the encoded features are standardised like any others
    wanted = (plain.fillna(0) / scale).to_numpy()[:3]
    np.testing.assert_allclose(elements[:, 0], wanted, atol=1e-6)
    assert (elements[:, -1] > 0).tolist() == [True, False, False]
    new = tmp_path / "new.csv"
    new.write_text("day,b,colour,x\n2024-01-01,p,green,900\n2024-01-02,p,red,-\n")
    found = read(new, bag="b", target="y", labelled=False)
    assert prepared.examine(found).unseen == {"colour": 1}
    assert prepared.examine(found).outside.tolist() == [1]
    assert prepared.features(found).read(np.array([0]))["elements"].shape == (1, 2, len(names))
    picked = data.take(np.array([4, 0]))
    torch.testing.assert_close(prepared.features(picked).read(np.array([1]))["elements"][0], elements)
    assert picked.fingerprint() != data.take(np.array([0, 4])).fingerprint()
    new.write_text("b,x,colour\np,1,red\n")
    with pytest.raises(DataError, match="column 'day' is missing"):
        prepared.features(read(new, bag="b", target="y", labelled=False))


def events(*, names: str = "value") -> pd.DataFrame:
    """Two bags whose events stand in no order, at seconds since 1970."""
    frame = pd.DataFrame({"who": list("abbab"), "t": [30.0, 7.0, 2.0, 10.0, 5.0], names: [1.0, 2.0, 3.0, 4.0, 5.0]})
    return frame.assign(t=frame["t"] + 1.7e9, y=[0.0, 1.0, 1.0, 0.0, 1.0])


def test_events_are_put_in_the_order_of_their_time_which_becomes_the_time_before_the_last(tmp_path):
    events().to_csv(tmp_path / "events.csv", index=False)
    data = read(tmp_path / "events.csv", bag="who", time_within="t", target="y")
    assert (data.content.names, data.content.time) == (("value", "t"), "t")
    assert data.content.bags.read(0).tolist() == [[4, -20], [1, 0]]
    assert data.content.bags.read(1).tolist() == [[3, -5], [5, -2], [2, 0]]
    assert data.take(np.array([1])).content.time == "t"
    dates = events().assign(t=["2024-01-31", "2024-01-02", "2024-01-01", "2024-01-30", "2024-02-01"])
    dates.to_csv(tmp_path / "dates.csv", index=False)
    data = read(tmp_path / "dates.csv", bag="who", time_within="t", target="y")
    assert data.content.bags.read(1).tolist() == [[3, -31], [2, -30], [5, 0]]


def test_the_time_keeps_its_place_through_preparation_also_beside_categories(tmp_path):
    for frame in (events(), events().assign(colour=list("rgrgr"))):
        frame.to_csv(tmp_path / "events.csv", index=False)
        data = read(tmp_path / "events.csv", bag="who", time_within="t", target="y")
        preparation = Preparation.fit(data, np.arange(2))
        again = Preparation.from_dict(json.loads(json.dumps(preparation.to_dict())))
        place = again.spec.time
        assert place is not None
        assert again.spec == preparation.spec
        one = again.features(data).read(np.array([1]))["elements"][0, :, place]
        torch.testing.assert_close(one.diff() / one.diff()[0], torch.tensor([1.0, 2 / 3]))


def test_times_that_are_not_there_or_no_numbers_are_problems(tmp_path):
    for change, message in (({"t": ["a", "b", "c", "d", "e"]}, "must be numbers or dates"), ({}, "no column 'when'")):
        events().assign(**change).to_csv(tmp_path / "events.csv", index=False)
        with pytest.raises(DataError, match=message):
            read(tmp_path / "events.csv", bag="who", time_within="t" if change else "when", target="y")
    with pytest.raises(DataError, match="time_within= has no meaning here"):
        read(tmp_path / "events.csv", time_within="t", target="y")
    np.savez(tmp_path / "bags.npz", values=np.zeros((2, 1)), lengths=[1, 1], y=[0.0, 1.0])
    with pytest.raises(DataError, match="time_within= is for long tables"):
        read(tmp_path / "bags.npz", time_within="t", target="y")
