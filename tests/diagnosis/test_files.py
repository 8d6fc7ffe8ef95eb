"""diagnose on files and run folders."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

from diagnosis.samples import grouped
from excora.diagnosis import diagnose
from excora.diagnosis.files import diagnose_file
from excora.errors import InputError


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


def run_table(targets: tuple[str, ...] = ()) -> pd.DataFrame:
    """As `excora fit` writes predictions.csv: validation shifted, test not."""
    x, y, _ = grouped(4, 30, 0.9, 0.1)
    frame = pd.DataFrame({"id": range(120), "part": ["validation"] * 60 + ["test"] * 60})
    for k, name in enumerate(targets or ("",)):
        tail = f":{name}" if name else ""
        frame[f"target{tail}"] = y
        frame[f"prediction{tail}"] = [y, x][k % 2] + 3.0 * (frame["part"] == "validation")
    return frame


def test_parts_are_judged_apart_and_announced(tmp_path) -> None:
    run_table().to_csv(tmp_path / "predictions.csv", index=False)
    found = diagnose_file(tmp_path / "predictions.csv")
    assert list(found.parts) == ["part 'test'", "part 'validation'"]
    assert found.verdict.name == found.parts["part 'test'"].verdict.name == "healthy"
    assert found.verdict.sentence.startswith("Of part 'test': ")
    assert found.parts["part 'validation'"].verdict.name == "scale or offset only"
    assert found.figures["part 'test'"]["rows"] == 60
    assert "120 rows, judged apart: part 'test'; part 'validation'." in str(found)
    assert found.to_dict()["parts"]["part 'validation'"]["figures"]["pooled"]["rows"] == 60
    one = diagnose_file(tmp_path / "predictions.csv", part="validation")
    assert (one.verdict.name, one.notes[0]) == ("scale or offset only", "part 'validation': 60 of 120 rows.")
    with pytest.raises(InputError, match="no part 'train', only 'test', 'validation'"):
        diagnose_file(tmp_path / "predictions.csv", part="train")
    run_table().drop(columns="part").to_csv(tmp_path / "plain.csv", index=False)
    with pytest.raises(InputError, match="no column 'part'"):
        diagnose_file(tmp_path / "plain.csv", part="test")


def test_several_targets_are_judged_each_over_its_known_labels(tmp_path) -> None:
    frame = run_table(("a", "b"))
    frame.loc[100:, "target:b"] = None
    frame.to_csv(tmp_path / "predictions.csv", index=False)
    found = diagnose_file(tmp_path / "predictions.csv")
    assert len(found.parts) == 4
    assert found.figures["part 'test', target 'b'"]["rows"] == 40
    assert found.verdict.name == "cannot tell"
    assert "There is no one verdict: part 'test', target 'a' healthy" in found.verdict.sentence
    alike = run_table(("a", "b"))
    alike["prediction:b"] = alike["prediction:a"]
    alike.to_csv(tmp_path / "alike.csv", index=False)
    assert diagnose_file(tmp_path / "alike.csv").verdict.name == "healthy"
    chosen = diagnose_file(tmp_path / "alike.csv", prediction="prediction:b", target="target:b", part="test")
    assert chosen.figures["pooled"]["rows"] == 60
