"""Study ``tabular``: sets and splits, tuning and selection, peers, intervals, and the parts on disk."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from excora.data.table import TableSpec
from excora.errors import ExcoraError, InputError
from excora.stats.correlation import pearson
from excora_studies import reproduce, tabular
from excora_studies.tabular import networks, page, sets
from excora_studies.tabular.peers import peers
from excora_studies.tabular.rows import Part, Row
from excora_studies.tabular.scores import paired, scores, unpack
from excora_studies.tabular.table import BOTH, DEFAULT, SEVERAL

ROWS = 150


def fake_sets(folder: Path) -> Path:
    """Files of the three sets with few rows and fewer columns."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    numbers = pd.DataFrame(draw.normal(size=(ROWS, 4)).round(3), columns=list("abcd"))
    target = (150 + 20 * numbers["a"] + 5 * draw.normal(size=ROWS)).round(2)
    dates = pd.date_range("2016-01-11 17:00", periods=ROWS, freq="10min").strftime("%Y-%m-%d %H:%M:%S")
    energy = pd.concat([pd.Series(dates, name="date"), target.rename("Appliances"), numbers], axis=1)
    energy.to_csv(folder / "energydata_complete.csv.xz", index=False)
    numbers.assign(critical_temp=target).to_csv(folder / "superconductivity.csv.xz", index=False)
    names = pd.Series([f"Cu{i}" for i in draw.integers(0, 30, ROWS)], name="composition")
    names.to_frame().to_csv(folder / "superconduct_composition.csv.xz", index=False)
    news = numbers.assign(shares=np.exp(target / 40).round().clip(1), source="x", digits=1)
    news.to_csv(folder / "online_news_partial.csv.xz", index=False)
    return folder


def test_random_split_covers_every_row_once_and_changes_with_the_seed(tmp_path: Path) -> None:
    data = sets.load("Superconductivity", fake_sets(tmp_path / "uci"))
    one, other = (sets.make_split(data, "random", seed) for seed in (0, 1))
    assert sorted(np.concatenate(one)) == list(range(ROWS))
    assert [len(part) for part in one] == [96, 24, 30]
    assert set(one.test) != set(other.test)


def test_grouped_split_keeps_compositions_together(tmp_path: Path) -> None:
    data = sets.load("Superconductivity", fake_sets(tmp_path / "uci"))
    assert data.group is not None
    for a, b in itertools.combinations(sets.make_split(data, "grouped", 3), 2):
        assert not {*data.group[a]} & {*data.group[b]}


def test_time_split_is_in_order(tmp_path: Path) -> None:
    data = sets.load("Appliances", fake_sets(tmp_path / "uci"))
    assert data.time is not None
    train, validation, test = sets.make_split(data, "time", 0)
    assert data.time[train].max() < data.time[validation].min()
    assert data.time[validation].max() < data.time[test].min()
    assert len(test) == ROWS // 5


def test_clock_adds_the_time_of_day_and_the_weekday(tmp_path: Path) -> None:
    folder = fake_sets(tmp_path / "uci")
    plain, clock = sets.load("Appliances", folder).content.frame, sets.load("Appliances + clock", folder).content.frame
    added = [*clock.columns[len(plain.columns) :]]
    assert added[:2] == ["clock_sin", "clock_cos"]
    assert clock["clock_sin"].iloc[0] == pytest.approx(np.sin(2 * np.pi * 17 / 24))
    assert clock[added[2:]].to_numpy().sum(1).tolist() == [1.0] * ROWS


def test_news_target_is_the_logarithm_and_leaves_no_bookkeeping_in(tmp_path: Path) -> None:
    data = sets.load("News (partial)", fake_sets(tmp_path / "uci"))
    shares = pd.read_csv(tmp_path / "uci" / "online_news_partial.csv.xz")["shares"]
    assert data.target[:, 0].tolist() == pytest.approx(np.log(shares).tolist())
    assert [*data.content.frame.columns] == list("abcd")


def test_fingerprint_sees_features_target_and_split(tmp_path: Path) -> None:
    data = sets.load("Appliances", fake_sets(tmp_path / "uci"))
    split = sets.make_split(data, "random", 0)
    first = sets.fingerprint(data, split)
    assert first == sets.fingerprint(data, sets.make_split(data, "random", 0))
    assert first != sets.fingerprint(data, sets.make_split(data, "random", 1))
    data.content.frame.iloc[3, 1] += 1e-9
    assert first != sets.fingerprint(data, split)


def test_matrix_is_standardised_by_the_training_part_alone(tmp_path: Path) -> None:
    data = tabular.parts(sets.load("Appliances", fake_sets(tmp_path / "uci")), "time", 0)
    assert data.train.x.mean(0) == pytest.approx(0.0, abs=1e-6)
    assert data.train.y.std() == pytest.approx(1.0, abs=1e-6)
    assert abs(data.test.x.mean(0)).max() > 1e-3
    assert len(data.both.y) + len(data.test.y) == ROWS


def toy(n: int = 300, seed: int = 0) -> Part:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 3))
    return Part(x, x[:, 0] + np.abs(x[:, 1]) - 0.8 + 0.1 * draw.normal(size=n))


@pytest.mark.parametrize("name", ["ridge", "nearest neighbours", "ExtraTrees", "LightGBM", "TabM"])
def test_peer_learns_and_needs_no_validation_once_its_parameters_are_fixed(name: str) -> None:
    row = peers(trees=30, epochs=8)[name]
    train, validation, test = toy(), toy(100, 1), toy(100, 2)
    (trial,) = row.tune(train, validation, trials=1, budget=1.0, seed=0)
    assert trial.pcc > 0.5
    again = row.predict([trial.parameters], train, test.x, 0)
    assert pearson(again, test.y)[0] > 0.5
    assert again.tolist() == row.predict([trial.parameters], train, test.x, 0).tolist()


def test_ridge_on_the_logarithm_is_exact_for_an_exponential_of_the_features() -> None:
    x = np.random.default_rng(0).normal(size=(200, 2))
    raw = np.exp(0.5 * x[:, 0] + 3.0)
    part = Part(x, (raw - 20.0) / 10.0, scale=(20.0, 10.0))
    row = peers(trees=1, epochs=1)["ridge, log target"]
    found = row.predict([{"alpha": 1e-6}], part, x, 0)
    assert found == pytest.approx(part.y, abs=1e-4)


def test_trials_begin_with_the_defaults_and_end_with_the_budget() -> None:
    row = peers(trees=5, epochs=1)["ridge"]
    assert row.trials(10)[0] == row.defaults
    assert {trial["alpha"] for trial in row.trials(10)} > {1.0}
    assert len(row.tune(toy(), toy(50, 1), trials=4, budget=60.0, seed=0)) == 4
    assert len(row.tune(toy(), toy(50, 1), trials=4, budget=0.0, seed=0)) == 1
    errors = [trial.mse for trial in row.tune(toy(), toy(50, 1), trials=4, budget=60.0, seed=0)]
    assert errors == sorted(errors)


def test_a_row_of_members_is_their_mean() -> None:
    def fit(parameters, train, validation, seed):
        return (lambda x: np.full(len(x), parameters["level"] + seed)), parameters

    row = Row(fit, {}, {}, changes={"level": 5.0})
    assert row.predict([{"level": 1.0}, {}], toy(), np.zeros((2, 3)), 7).tolist() == [5 + (7 + 1007) / 2] * 2


def test_variants_of_the_ft_transformer_start_from_the_same_weights() -> None:
    rows = networks.ft_rows(dim=8, heads=2, blocks=2, epochs=1)
    draw = torch.Generator().manual_seed(0)
    known = {"missing": torch.zeros(6, 3, dtype=torch.bool), "codes": torch.zeros(6, 0).long()}
    x = {"numeric": torch.randn(6, 3, generator=draw), **known}
    found = {}
    for name in ("FT-Transformer", "FT + ECA (ours)", "FT + ECA w/o SRA", "FT + ECA w/o DATS"):
        given = rows[name].defaults | rows[name].changes
        options = {key: value for key, value in given.items() if key not in networks.TRAINING}
        found[name] = networks.ft_transformer(TableSpec(targets=1, numeric=3), options, 5).eval()(x).prediction
    for name, prediction in found.items():
        assert torch.equal(prediction, found["FT-Transformer"]), name


def test_paired_differences_are_those_of_the_scores_with_the_interval_of_comparisons() -> None:
    draw = np.random.default_rng(0)
    n, seeds = 400, 3
    target = [draw.normal(size=n) for _ in range(seeds)]
    first = [y + 0.5 * draw.normal(size=n) for y in target]
    second = [y + 0.8 * draw.normal(size=n) for y in target]
    unit = [draw.permutation(500)[:n] for _ in range(seeds)]
    found = paired(first, second, target, unit)
    exact = [scores(a, y)["PCC"] - scores(b, y)["PCC"] for a, b, y in zip(first, second, target, strict=True)]
    assert found["PCC"]["difference"] == pytest.approx(np.mean(exact))
    assert found["MSE"]["difference"] < found["MSE"]["high"] < 0
    # Trainings of very different luck: three of them say little, whatever the number of rows.
    lucky = [y + level * draw.normal(size=n) for y, level in zip(target, (0.4, 0.8, 1.2), strict=True)]
    wide, narrow = (paired(one, second, target, unit)["PCC"] for one in (lucky, first))
    assert wide["high"] - wide["low"] > 3 * (narrow["high"] - narrow["low"])


def test_equal_predictions_cannot_be_told_apart() -> None:
    y = np.random.default_rng(0).normal(size=50)
    found = paired([y + 1], [y + 1], [y], [np.arange(50)])
    assert found["PCC"] == found["MSE"] == {"difference": 0.0, "low": 0.0, "high": 0.0}


def test_parts_are_files_that_a_second_call_does_not_compute_again(tmp_path: Path) -> None:
    folder, data = tmp_path / "out", fake_sets(tmp_path / "uci")
    only = [f"Appliances | random | {row}" for row in ("test part", "ridge |", "nearest")]
    content = reproduce("tabular", folder, data=data, preset="quick", only=only)
    assert [row["row"] for row in content["table"]] == ["ridge", "nearest neighbours"]
    part = folder / "parts" / "appliances-random-ridge-seed-0.json"
    before = part.stat().st_mtime_ns
    (folder / "parts" / "appliances-random-ridge-tuning.json").unlink()
    again = reproduce("tabular", folder, data=data, preset="quick", only=only)
    assert part.stat().st_mtime_ns == before
    assert again["table"] == content["table"]
    assert json.loads(part.read_text())["result"]["PCC"] == content["table"][0]["PCC"]


def test_rows_of_other_data_are_refused(tmp_path: Path) -> None:
    folder, data = tmp_path / "out", fake_sets(tmp_path / "uci")
    only = ["Appliances | random | test part", "Appliances | random | ridge |"]
    reproduce("tabular", folder, data=data, preset="quick", only=only)
    part = folder / "parts" / "appliances-random-ridge-seed-0.json"
    content = json.loads(part.read_text())
    content["result"]["fingerprint"] = "0" * 16
    part.write_text(json.dumps(content))
    with pytest.raises(ExcoraError, match="other data"):
        reproduce("tabular", folder, data=data, preset="quick", only=only)


def test_every_kind_of_row_runs_and_is_compared(tmp_path: Path) -> None:
    data = fake_sets(tmp_path / "uci")
    wanted = ("test", "ridge", "ExtraTrees", "Excora", DEFAULT, "retrieval", "FT-Tr", "FT + ECA")
    only = [f"News (partial) | random | {row}" for row in wanted]
    content = reproduce("tabular", tmp_path / "out", data=data, preset="quick", only=only)
    rows = {row["row"]: row for row in content["table"]}
    assert {*rows} == {
        "ridge", "ExtraTrees", "Excora", "retrieval, softmax", "retrieval, ECA", "FT-Transformer", "FT + ECA (ours)",
        SEVERAL, BOTH, DEFAULT,
    }  # fmt: skip
    assert rows["FT-Transformer"]["paper PCC"] == 0.408
    pairs = {(pair["first"], pair["second"]) for pair in content["summary"]["pairs"]}
    assert pairs == {
        ("Excora", "ridge"), ("Excora", "ExtraTrees"), ("retrieval, ECA", "retrieval, softmax"),
        ("FT + ECA (ours)", "FT-Transformer"), (BOTH, "ExtraTrees"),
        (DEFAULT, "ridge"), (DEFAULT, "ExtraTrees"), ("Excora", DEFAULT), ("Excora", SEVERAL),
    }  # fmt: skip
    assert rows[BOTH]["seconds"] == pytest.approx(rows["Excora"]["seconds"] + rows["ExtraTrees"]["seconds"], rel=1e-4)
    one, alone, two, test = (
        json.loads((tmp_path / "out" / "parts" / f"news-partial-random-{name}-seed-0.json").read_text())["result"]
        for name in ("retrieval-several", "tabularregressor", "extratrees", "test-part")
    )
    std, y = test["std"], unpack(test["target"])
    half = 0.5 * (unpack(one["prediction"]) + unpack(alone["prediction"]))
    assert rows["Excora"]["MSE"] == pytest.approx(np.square(std * (half - y)).mean(), rel=1e-5)
    mean = 0.5 * (half + unpack(two["prediction"]))
    assert rows[BOTH]["MSE"] == pytest.approx(np.square(std * (mean - y)).mean(), rel=1e-3)
    assert rows[BOTH]["PCC"] == pytest.approx(np.corrcoef(mean, y)[0, 1], abs=1e-4)
    own = unpack(one["prediction"])  # 11 bits of a number are enough to find the scores on the raw scale again
    assert np.square(std * (own - y)).mean() == pytest.approx(one["MSE"], rel=3e-3)
    shown = page.together(content)
    assert shown.count("News (partial)") == 1
    assert page.default(content).count("News (partial)") == 2
    assert page.peers(content).count("News (partial)") == 4
    assert f"{rows[BOTH]['PCC']:.4f}" in shown
    assert (tmp_path / "out" / "peers.png").stat().st_size > 10_000


def test_unknown_part_preset_and_missing_files_are_named(tmp_path: Path) -> None:
    data = fake_sets(tmp_path / "uci")
    with pytest.raises(InputError, match="no part of this study is named Mars"):
        reproduce("tabular", tmp_path / "out", data=data, preset="quick", only=["Mars"])
    with pytest.raises(InputError, match="one of quick, cpu, paper, got 'huge'"):
        reproduce("tabular", tmp_path / "out", data=data, preset="huge")
    with pytest.raises(InputError, match=r"come from the part .*retrieval, softmax \| tuning'"):
        reproduce("tabular", tmp_path / "out", data=data, preset="quick", only=[f"Appliances | random | {SEVERAL}"])
    (data / "superconduct_composition.csv.xz").unlink()
    with pytest.raises(InputError, match=r"missing: .*superconduct_composition"):
        reproduce("tabular", tmp_path / "two", data=data, preset="quick", only=["Superconductivity | random | ridge"])
