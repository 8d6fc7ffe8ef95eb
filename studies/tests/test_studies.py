"""The studies: files, resuming, tables, figures, and what the committed results must show."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from excora.errors import InputError
from excora.storage import write_atomically
from excora.tasks.plateau import LEVELS
from excora_studies import STUDIES, grid, plateau, region, reproduce, runner, small_tables, store, synthetic, tabular
from excora_studies.figures import Figure, Line, Panel, html, png
from excora_studies.pages import blocks, main, read, render
from excora_studies.runner import Chunk, Report
from excora_studies.store import Store, csv_text, plain
from excora_studies.tabular.networks import ft_transformer
from excora_studies.watch import watch

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["synthetic", "gradients", "batch-size", "grid"])
def test_quick_study_writes_everything(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        region, "figure", lambda: Figure(title="", panels=[Panel(title="", x="", y="")], columns=1)
    )  # slow, drawn below
    console = Console(file=io.StringIO(), width=250)
    content = reproduce(name, tmp_path, seeds=1, preset="quick", console=console)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored == content
    assert stored["complete"]
    assert stored["study"] == name
    assert stored["configuration"]["seeds"] == [0]
    assert "torch" in stored["versions"]
    table = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(table) == len(stored["table"]) > 5
    assert any(key.startswith("paper") for key in table[0])
    assert next(tmp_path.glob("*.png")).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "figures.html").read_text()
    assert "Plotly.newPlot" in page
    assert 'src="http' not in page
    assert f"excora reproduce {name}" in console.file.getvalue()


def toy(values: list[Callable[[], Any]]) -> Any:
    """A study whose chunks return what ``values`` give."""

    def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
        return [
            Chunk(f"part {i}", 2, lambda done, tick, value=value: (tick(), tick(), [len(done), value()])[-1])
            for i, value in enumerate(values)
        ]

    def report(configuration: dict[str, Any], results: dict[str, Any]) -> Report:
        line = Line(label="a", x=[1, 2], y=[0.5, None], low=[0.4, None], high=[0.6, None])
        panel = Panel(title="t", x="x", y="y", lines=[line])
        rows = [{"part": key, "value": value[1]} for key, value in results.items()]
        return Report(rows, {"n": len(rows)}, {"one": Figure(title="T", panels=[panel], columns=2)}, [])

    return SimpleNamespace(configure=lambda **options: {"seeds": options["seeds"]}, chunks=chunks, report=report)


def run(study: Any, folder: Path, **options: Any) -> dict[str, Any]:
    return runner.run("toy", study, folder, **{"seeds": 1, "preset": "cpu", "data": None, "console": None} | options)


def test_interrupted_and_resumed_is_as_if_never_stopped(tmp_path: Path) -> None:
    def stop() -> float:
        raise KeyboardInterrupt

    console = Console(file=io.StringIO(), width=250)
    with pytest.raises(KeyboardInterrupt):
        run(toy([lambda: 1 / 3, stop]), tmp_path / "a", console=console)
    assert "the same command goes on" in console.file.getvalue()
    assert not json.loads((tmp_path / "a" / "results.json").read_text())["complete"]
    assert [file.name for file in (tmp_path / "a" / "parts").iterdir()] == ["part-0.json"]
    resumed = run(toy([stop, lambda: 2 / 3]), tmp_path / "a")
    whole = run(toy([lambda: 1 / 3, lambda: 2 / 3]), tmp_path / "b")
    for key in ("table", "summary", "configuration", "complete"):
        assert resumed[key] == whole[key]
    assert list(resumed["chunks"]) == list(whole["chunks"]) == ["part 0", "part 1"]
    assert not list((tmp_path / "a" / "parts").iterdir())
    assert [row["value"] for row in whole["table"]] == [0.333333, 0.666667]
    assert (tmp_path / "a" / "table.csv").read_bytes() == (tmp_path / "b" / "table.csv").read_bytes()
    assert (tmp_path / "a" / "one.png").read_bytes() == (tmp_path / "b" / "one.png").read_bytes()


def test_training_resumes_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reproduce("gradients", tmp_path / "whole", seeds=2, preset="quick")
    chunk = Store.chunk

    def dies_after_one(self: Store, key: str, compute: Callable[[], Any]) -> bool:
        chunk(self, key, compute)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "chunk", dies_after_one)
    with pytest.raises(KeyboardInterrupt):
        reproduce("gradients", tmp_path / "cut", seeds=2, preset="quick")
    monkeypatch.setattr(Store, "chunk", chunk)
    assert len(list((tmp_path / "cut" / "parts").iterdir())) == 1
    resumed = reproduce("gradients", tmp_path / "cut", seeds=2, preset="quick")
    assert resumed["table"] == whole["table"]


def test_a_folder_of_another_configuration_is_refused(tmp_path: Path) -> None:
    study = toy([lambda: 1.0])
    assert run(study, tmp_path) == run(study, tmp_path)  # nothing was computed again: the times are the same too
    with pytest.raises(InputError, match="another configuration"):
        run(study, tmp_path, seeds=2)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(InputError, match="not the results of a study"):
        run(study, tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_atomically(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_plain_numbers_survive_json() -> None:
    assert plain({1: (float("nan"), 1 / 3, "x", None, True)}) == {"1": [None, 0.333333, "x", None, True]}
    assert csv_text([{"a": 1, "b": None}]) == "a,b\n1,\n"
    assert csv_text([]) == "\n"


def test_figures_draw_gaps_maps_and_references() -> None:
    gap = Line(label="a | training", x=[1.0, 2.0, 3.0], y=[1.0, None, 2.0], dashed=True, markers=True)
    panels = [
        Panel(title="t", x="x", y="y", lines=[gap], log_x=True, log_y=True, level=1.5, ticks={1.0: "one"}),
        region.figure().panels[0],
    ]
    figure = Figure(title="T", panels=panels, columns=1)
    apart = Line(label="b", x=[0.0, 1.0], y=[1.0, 2.0], low=[0.5, 1.5], high=[2.0, 4.0], joined=False)
    points = html("T", [Figure(title="T", panels=[Panel(title="t", x="", y="y", lines=[apart])], columns=1)])
    assert '"array":[1.0,2.0],"arrayminus":[0.5,0.5]' in points
    assert '"mode":"markers"' in points
    assert figure.rows == 2
    assert list(figure.colours()) == ["a"]
    assert png(figure) == png(figure)
    assert png(figure).startswith(b"\x89PNG")
    assert html("T", [figure, figure]).count("Plotly.newPlot(") == 2


def test_watch_follows_the_detector() -> None:
    pcc = [0.8 * (1 - 0.8**epoch) for epoch in range(60)]
    seen = watch(pcc, [1 / (1 + epoch) for epoch in range(60)])
    assert seen["final"] == "plateau"
    assert 15 <= seen["first"] <= 45
    assert seen["flat_from"] < seen["first"]
    assert abs(seen["pcc_after"]) < 0.1
    assert seen["mse_after_percent"] < -30
    assert 0 < seen["share"] <= 1
    rising = watch([0.01 * epoch for epoch in range(60)], [1 - 0.01 * epoch for epoch in range(60)])
    assert rising["first"] is None
    assert rising["share"] == 0.0
    assert rising["final"] == "improving"
    assert watch([0.1], [0.2])["final"] == "too short"


def test_the_tasks_have_the_papers_levels_and_one_rule() -> None:
    for level, task in zip(LEVELS, synthetic.tasks(4), strict=True):
        assert task.dispersion == pytest.approx(level, rel=1e-9)
        assert task.kappa == pytest.approx(3.0 * task.eta)
        assert task.nu == pytest.approx(0.55 / 0.6 * task.eta)
    assert [(t.kappa, t.eta, t.nu) for t in grid.tasks(0)][5] == (1.0, 0.6, 0.55)
    assert len(grid.tasks(0)) == 12


def test_the_rule_lies_in_the_region_where_the_papers_gains_are_possible() -> None:
    for level in range(len(LEVELS)):
        assert region.margin(level, stretch=synthetic.STRETCH, marker=synthetic.MARKER) > 0
        low, high = region.interval(level, marker=synthetic.MARKER)
        assert low is not None
        assert high is not None
        assert low <= synthetic.STRETCH <= high
        assert region.margin(level, stretch=low - 0.1, marker=synthetic.MARKER) < 0
    gain, reduction = region.expected(dataclasses.replace(synthetic.tasks(0)[1], kappa=0.1))
    assert gain == pytest.approx(0.0, abs=1e-6)
    assert reduction < 1.0


def fake_sets(folder: Path) -> Path:
    """A folder with small files of the formats of the real ones."""
    folder.mkdir()
    (folder / "imports-85.data").write_text(
        "\n".join(",".join(["?", "3", "audi"] + ["1.5"] * 22 + [str(i)]) for i in range(9))
    )
    rows = [f'{i}.0   8   307.0   {"?" if i else 130}   3504.   12.0   70  {i % 3}\t"a car {i}"' for i in range(9)]
    (folder / "auto-mpg.data").write_text("\n".join(rows))
    days = pd.DataFrame(
        {key: range(9) for key in ("instant", "season", "weekday", "weathersit", "temp", "casual", "cnt")}
    )
    days.assign(dteday="2011-01-01", registered=1).to_csv(folder / "day.csv", index=False)
    garment = {
        "date": "1/1/2015",
        "department": ["sewing", "finishing ", "finishing"],
        "team": [1, 2, 3],
        "wip": [None, 2, 3],
    }
    pd.DataFrame(garment | {"actual_productivity": [0.1, 0.2, 0.3]}).to_csv(folder / "garments_worker_productivity.csv")
    price = {"No": [1, 2], "X1 age": [3.0, 4.0], "Y house price of unit area": [5.0, 6.0]}
    pd.DataFrame(price).to_excel(folder / "Real estate valuation data set.xlsx", index=False)
    (folder / "servo.data").write_text(
        "\n".join(f"{'ABCDE'[i % 5]},{'EDC'[i % 3]},{i % 4},2, {i % 5 + 0.1 * i}" for i in range(60))
    )
    shares = {"date": ["x", "y"], "ISE_TL": [1.0, 2.0], "ISE_USD": [1.0, 2.0], "SP": [3.0, 4.0]}
    pd.DataFrame(shares).to_excel(folder / "data_akbilgic.xlsx", index=False)
    (folder / "flare.data2").write_text("class area C M X\nH 1 0 0 0\nD 2 1 0 0\n")
    return folder


def test_small_sets_are_read_without_their_targets_in_sight(tmp_path: Path) -> None:
    folder = small_tables.find_folder(fake_sets(tmp_path / "uci").parent)
    assert folder == tmp_path / "uci" == small_tables.find_folder(folder)
    shapes = {name: tuple(part.shape for part in small_tables.load(name, folder)) for name in small_tables.SETS}
    assert shapes["Automobile"] == ((9, 24), (9, 1), (9,))
    assert shapes["Auto MPG"] == ((9, 6), (9, 1), (9,))
    assert shapes["Bike Sharing"] == ((9, 1), (9, 3), (9,))
    assert shapes["Shares"] == ((2, 1), (2, 0), (2,))
    assert shapes["Solar Flare"] == ((2, 1), (2, 1), (2,))
    assert small_tables.load("Garment", folder)[1]["department"].nunique() == 2
    assert int(small_tables.load("Auto MPG", folder)[0].isna().sum().sum()) == 8


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXCORA_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"missing: imports-85.data.*--data"):
        reproduce("plateau", tmp_path / "out", preset="quick")


def test_plateau_study_runs_on_a_users_folder(tmp_path: Path) -> None:
    content = reproduce("plateau", tmp_path / "out", data=fake_sets(tmp_path / "sets"), preset="quick")
    (chunk,) = (chunk["result"] for chunk in content["chunks"].values())
    assert content["configuration"]["sets"] == {"Servo": 60}
    for variant in ("softmax", "ECA"):
        curve = chunk[variant]["curves"]["validation_pcc"]
        assert len(curve) == 14
        assert chunk[variant]["epoch"] == curve.index(max(curve)) + 1
    assert chunk["ECA"]["curves"] != chunk["softmax"]["curves"]


def test_plateau_rows_are_scaled_by_training_and_models_start_alike(tmp_path: Path) -> None:
    folder = fake_sets(tmp_path / "sets")
    rows = plateau.prepare("Auto MPG", 1, folder)
    assert sorted(int(place) for part in rows.split for place in part) == list(range(9))
    numeric, _, target = small_tables.load("Auto MPG", folder)
    label, x = target.to_numpy(), rows.features.read(np.arange(9))
    seen = label[rows.split.train]
    assert rows.target[:, 0].tolist() == pytest.approx(((label - seen.mean()) / seen.std()).tolist(), abs=1e-6)
    assert torch.equal(x["missing"], torch.tensor(numeric.isna().to_numpy()))
    assert not x["numeric"][x["missing"]].any()
    assert x["numeric"].isfinite().all()
    assert x["numeric"][rows.split.train].mean(0).abs().max() < 1e-6
    setup = plateau.Setup(dim=8, heads=2)
    first, second = (
        ft_transformer(rows.spec, setup.options(attention), 5).eval() for attention, _ in plateau.VARIANTS.values()
    )
    extra = second.state_dict().keys() - first.state_dict().keys()
    assert extra
    assert all("extrapolation" in name for name in extra)
    torch.testing.assert_close(first(x).prediction, second(x).prediction)


def test_committed_results_reach_the_figures() -> None:
    results = read(DOCS / "results")
    assert set(STUDIES) == set(results)
    unfinished = {"gains", "sentiment", "spatial"}  # their pages name what is missing
    assert all(one["complete"] for name, one in results.items() if name not in unfinished)
    ours = [row for row in results["synthetic"]["table"] if row["variant"] == "ECA (ours)"]
    assert len(results["synthetic"]["configuration"]["seeds"]) == 5
    assert len(ours) == 4
    for row, gain, less in zip(ours, (4.80, 5.76, 4.68, 3.05), (20.3, 40.8, 54.0, 66.7), strict=True):
        assert row["gain %"] >= gain
        assert row["MSE less %"] >= less
    assert len(results["grid"]["configuration"]["seeds"]) == 3
    assert len(results["grid"]["table"]) == 12
    for row in results["grid"]["table"]:
        assert row["ours - softmax"] >= -0.001
        assert row["ours - paper"] >= -0.001
    tables = {(row["set"], row["row"]): row["PCC"] for row in results["tabular"]["table"] if row["split"] == "random"}
    for name, least in (("Appliances", 0.76), ("Appliances + clock", 0.80), ("News (partial)", 0.42)):
        assert tables[name, "Excora"] > max(least, *(tables[name, peer] for peer in ("LightGBM", "ExtraTrees", "TabM")))


def test_the_committed_tables_hold_every_part() -> None:
    content = read(DOCS / "results")["tabular"]
    keys = [chunk.key for chunk in tabular.chunks(content["configuration"], None)]
    stored = {}
    for file in {f"{store.slug(tabular.table_of(key))}.json" for key in keys}:
        stored |= json.loads((DOCS / "results" / "tabular" / file).read_text())
    assert set(stored) == set(keys)
    for row in content["table"]:
        parts = [tabular.key(row["set"], row["split"], row["row"], f"seed {seed}") for seed in range(3)]
        if parts[0] in stored:  # else it is a mean of two rows
            mean = sum(stored[part]["result"]["PCC"] for part in parts) / 3
            assert mean == pytest.approx(row["PCC"], rel=1e-5)


def test_the_pages_show_the_committed_results() -> None:
    pages, results = [*DOCS.glob("*.md"), DOCS.parent / "README.md"], read(DOCS / "results")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert render(text, results) == text, "out of date: run python -m excora_studies.pages docs README.md"
    assert all(f"<!-- results: {block} -->" in text for block in blocks())
    with pytest.raises(InputError, match="must be one of synthetic"):
        render("<!-- results: none -->\n<!-- end -->", results)


def test_the_pages_of_any_folder_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs" / "results").mkdir(parents=True)
    shutil.copytree(DOCS / "results" / "grid", tmp_path / "docs" / "results" / "grid")
    mark = "<!-- results: grid -->\nold\n<!-- end -->\n"
    page, more = tmp_path / "docs" / "a.md", tmp_path / "more.md"
    for file in (page, more):
        file.write_text(mark)
    assert main([str(tmp_path / "docs"), str(more)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(page), str(more)]
    assert page.read_text() == more.read_text() == render(mark, read(DOCS / "results"))
    assert "old" not in page.read_text()
    assert main([]) == 2
