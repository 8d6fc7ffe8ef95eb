"""diagnose on files and run folders."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

from diagnosis.samples import grouped, records
from excora.diagnosis import diagnose
from excora.diagnosis.files import diagnose_file
from excora.errors import InputError
from excora.monitor import PlateauMonitor


def test_files_give_what_arrays_give(tmp_path) -> None:
    x, y, group = grouped(12, 20, 0.4, 1.0)
    frame = pd.DataFrame({"prediction": x, "target": y, "group": [f"g{g}" for g in group]})
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_csv(tmp_path / "p.tsv.gz", index=False, sep="\t")
    frame.rename(columns={"prediction": "yhat", "group": "slide"}).to_parquet(tmp_path / "p.parquet")
    wanted = diagnose(x, y, group).to_dict()
    found = [
        diagnose_file(tmp_path / "p.csv"),
        diagnose_file(str(tmp_path / "p.tsv.gz")),
        diagnose_file(tmp_path / "p.parquet", prediction="yhat", group="slide"),
    ]
    for one in found:
        got = json.loads(json.dumps(one.to_dict()))
        assert got["verdict"]["name"] == wanted["verdict"]["name"]
        assert got["figures"]["per group"]["groups"] == 12
        assert got["figures"]["pooled"]["PCC"]["value"] == pytest.approx(wanted["figures"]["pooled"]["PCC"]["value"])
    assert "per group" not in diagnose_file(tmp_path / "p.parquet", prediction="yhat").figures
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=200, record=True, file=io.StringIO())
    console.print(found[0])
    text = console.export_text()
    assert "per group" in text
    assert "next:" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.csv", "prediction,target\n", "at least 3 rows, got 0"),
        ("a.csv", "prediction,truth\n1,2\n3,4\n5,6\n", r"no column 'target', only 'prediction', 'truth'.*target="),
        ("a.csv", "prediction,target\n1,2\n3,x\n5,6\n", "column 'target'.*got 'x' in row 3"),
        ("a.csv", "prediction,target\n1,2\n3,\n5,6\n7,\n", r"column 'target'.*empty cell in row 3 \(2 such rows\)"),
        ("a.csv", "prediction,target\n1,2\ninf,3\n5,6\n", "column 'prediction'.*got inf in row 3"),
        ("a.csv", "prediction,target,epoch\n1,2,a\n3,3,b\n5,6,c\n", "column 'epoch'.*got 'a' in row 2"),
        ("a.csv", "prediction,target,group\n1,2,a\n3,3,\n5,6,c\n", "column 'group'.*empty cell in row 3"),
        ("a.csv", "prediction,target\n1,2\n3,4,5,6\n", "not readable as delimited text"),
        ("a.parquet", "nonsense", "not readable as Parquet"),
        ("a.json", "{", "not readable as JSON"),
        ("a.json", '{"records": []}', "PlateauMonitor.to_json"),
        ("a.txt", "", "expected a name ending in"),
    ],
)
def test_bad_files_are_named_with_column_and_row(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        diagnose_file(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_file_missing_option_column_and_bytes(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        diagnose_file(tmp_path / "absent.csv")
    (tmp_path / "a.csv").write_text("prediction,target\n1,2\n3,4\n5,7\n")
    with pytest.raises(InputError, match=r"no column 'slide'.*group="):
        diagnose_file(tmp_path / "a.csv", group="slide")
    (tmp_path / "b.csv").write_bytes(b"prediction,target\n\xff\x811,2\n")
    with pytest.raises(InputError, match="not readable"):
        diagnose_file(tmp_path / "b.csv")


def test_a_recorded_run_is_diagnosed_from_its_file(tmp_path) -> None:
    monitor = PlateauMonitor()
    monitor.records = [dict(r, epoch=t) for t, r in enumerate(records(achievable_used=0.99))]
    monitor.to_json(tmp_path / "run.json")
    found = diagnose_file(tmp_path / "run.json")
    assert (found.verdict.name, found.source) == ("capacity-limited", "full run")
    assert found.verdict == monitor.verdict()
    assert found.figures["last epoch"]["pcc"] == 0.7


def test_a_run_folder_is_diagnosed_in_view_of_validation(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no monitor\.json in this folder"):
        diagnose_file(tmp_path)
    monitor = PlateauMonitor()
    rising = [0.02 * t for t in range(30)]
    monitor.records = [{"epoch": t, "pcc": pcc, "mse": 1 - pcc} for t, pcc in enumerate(rising)]
    monitor.to_json(tmp_path / "monitor.json")
    assert diagnose_file(tmp_path).verdict.name == "still improving"  # it has not ended: there is no results.json
    ended = {"stopped": "patience", "epochs": 30, "best_epoch": 14}
    (tmp_path / "results.json").write_text(json.dumps(ended))
    found = diagnose_file(tmp_path)
    assert found.verdict.name == "overfitting"
    assert found.verdict.evidence["epochs after the best"].value == 15
    (tmp_path / "results.json").write_text(json.dumps(ended | {"stopped": "epochs"}))
    assert diagnose_file(tmp_path).verdict.name == "still improving"
    (tmp_path / "results.json").write_text(json.dumps(ended | {"epochs": "30"}))
    with pytest.raises(InputError, match="expected stopped, epochs and best_epoch"):
        diagnose_file(tmp_path)
