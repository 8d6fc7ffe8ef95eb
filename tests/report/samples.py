"""Folders as `excora fit` and `excora compare` leave them, without any training; and a page read back."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from excora.diagnosis import verdict
from excora.monitor.epoch import FIELDS
from excora.report import page_of_run, write_page
from excora.settings import Settings

SLIDES = tuple(f"slide {k:02}" for k in range(1, 13))
MODELS = {  # label, level of PCC
    "mean": ("Mean", 0.61), "softmax": ("Softmax attention", 0.742), "gated": ("Gated attention", 0.748),
    "eca-paper": ("ECA (paper)", 0.772), "eca": ("ECA", 0.801), "ridge": ("Ridge regression", 0.58),
    "knn": ("Nearest neighbours", 0.655), "lightgbm": ("LightGBM", 0.752),
}  # fmt: skip
HOSTILE = "<script>alert(1)</script>"
CLOSING = "</script>"
LINK = "<a href='https://example.org'>x</a>"
IMAGE = '"><img src=x onerror=alert(1)>&lt;b&gt; {{plotly}} \u2028 @c1 %{x} $x$'
VOID = {"meta", "link", "col", "br", "img", "input", "hr"}
Rows = list[dict[str, Any]]


def write_run(
    folder: Path,
    *,
    targets: tuple[str, ...] = ("expression",),
    groups: tuple[str, ...] = SLIDES,
    bag: str = "bag {}",
    element: str = "patch {}",
    note: str = "3 rows without a label were left out",
    samples: int = 600,
    seed: int = 0,
) -> Path:
    """A run folder, ``samples`` in validation and test each; ``bag`` and ``element`` take a number into the name."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    records, metrics = _epochs(rng)
    best = int(np.argmin([row["validation_criterion"] for row in metrics]))
    write_json(folder / "monitor.json", {"fields": FIELDS, "records": records})
    write_csv(folder / "metrics.csv", metrics)
    rows = _predictions(rng, targets, groups, bag, samples)
    write_csv(folder / "predictions.csv", rows)
    results = {
        "best_epoch": best, "epochs": len(records), "seconds": 93.2, "stopped": "patience",
        "counts": {"train": 3 * samples, "validation": samples, "test": samples}, **_scores(rows, targets),
        "groups": {"test": _group_scores(rows, targets)}, "verdict": verdict(records).to_dict(), "notes": [note],
    }  # fmt: skip
    write_json(folder / "results.json", results)
    write_json(folder / "attention.json", _attention(rng, rows, targets, element))
    write_json(folder / "config.json", _config(targets, groups))
    return folder


def write_comparison(folder: Path, *, names: dict[str, str] | None = None, seed: int = 0) -> Path:
    """A comparison folder; ``names`` gives models other labels."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_model(rng, model, (names or {}).get(model, label), level) for model, (label, level) in MODELS.items()]
    pcc = {row["model"]: row["pcc"] for row in rows}
    pairs = []
    for against in ("softmax", "lightgbm"):
        for model in MODELS:
            if model not in ("softmax", against):
                difference, width = pcc[model] - pcc[against], rng.uniform(0.014, 0.02)
                low, high = difference - width, difference + 1.1 * width
                word = "better" if low > 0 else "worse" if high < 0 else "cannot tell"
                pairs.append({"model": model, "against": against, "difference": difference, "low": low, "high": high,
                              "verdict": word})  # fmt: skip
    content = {
        "reference": "softmax", "rows": rows, "pairs": pairs,
        "sentence": "ECA is better than Softmax attention here: PCC differs by +0.058, 95 % interval +0.040 to +0.075.",
        "notes": ["only 12 groups are resampled: intervals are rough"],
        "setup": {"data": "data/slides.parquet", "target": ["expression"], "folds": 5, "seeds": [0, 1, 2]},
        "rerun": "excora compare data/slides.parquet --target expression --group slide --bag spot --folds 5 --seeds 3",
    }  # fmt: skip
    write_json(folder / "comparison.json", content)
    return folder


def write_both(folder: Path, **names: Any) -> Path:
    """A run and a comparison in one folder."""
    return write_comparison(write_run(folder, **names))


def write_hostile(folder: Path) -> Path:
    """Both, and every name that a user can choose is an attack."""
    groups = (HOSTILE, CLOSING, LINK, IMAGE)
    write_run(folder, targets=(HOSTILE, CLOSING, IMAGE), groups=groups, bag=HOSTILE + "{}", element=CLOSING + "{}",
              note=IMAGE, samples=120)  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    config["environment"][HOSTILE] = CLOSING
    config["data"]["path"] = HOSTILE
    config["rerun"] = f"excora fit '{HOSTILE}'"
    write_json(folder / "config.json", config)
    return write_comparison(folder, names={"eca": HOSTILE, "softmax": LINK, "ridge": CLOSING})


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1), "utf-8")


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _model(rng: np.random.Generator, model: str, label: str, level: float) -> dict[str, Any]:
    left = 1 - level**2
    runs = [
        {"seed": seed, "fold": fold, "pcc": level + rng.normal(0, 0.012), "mse": 12.4 * left + rng.normal(0, 0.2),
         "mae": 2.1 * left**0.5 + rng.normal(0, 0.03), "seconds": 40 * level * rng.uniform(0.9, 1.1)}
        for seed in range(3) for fold in range(5)
    ]  # fmt: skip
    row: dict[str, Any] = {"model": model, "label": label, "runs": runs}
    for name in ("pcc", "mse", "mae", "seconds"):
        values = [run[name] for run in runs]
        row |= {name: float(np.mean(values)), f"{name}_sd": float(np.std(values, ddof=1))}
    return row


def _epochs(rng: np.random.Generator, epochs: int = 60) -> tuple[Rows, Rows]:
    """Training that levels off, and validation that turns."""
    records, metrics = [], []
    for t in range(epochs):
        rho = float(0.83 * (1 - np.exp(-(t + 1) / 6)) + rng.normal(0, 0.004))
        spread = float(0.25 + 0.62 * (1 - np.exp(-(t + 1) / 15)))
        bound = 1 / (2 * spread**1.5)
        parts = {"mse_offset": 0.25 * 0.7**t + 0.002, "mse_scale": (1 - spread) ** 2}
        parts["mse_correlation"] = 2 * spread * (1 - rho)
        known = {
            "epoch": t, "bags": 1800, "pcc": rho, "mse": sum(parts.values()), "mse_affine": 1 - rho**2,
            "sigma_ratio": spread, "gradient_ratio": bound * (1 - rho**2) ** 0.5 * 0.6, "gradient_ratio_bound": bound,
            "achievable_ceiling": 0.86, "achievable_used": rho / 0.86, "probe_pcc": 0.9, "probe_gain": 0.9 - rho,
            "effective_elements": 9.0, "attention_spread": 0.3, "mean_cosine": 0.2 + 0.003 * t,
        }  # fmt: skip
        records.append(dict.fromkeys(FIELDS) | parts | known)
        seen = float(0.79 * (1 - np.exp(-(t + 1) / 6)) - 0.0006 * max(0, t - 30) + rng.normal(0, 0.006))
        mse = 1.05 - 0.62 * seen + 0.001 * max(0, t - 30)
        metrics.append({"epoch": t, "train_loss": known["mse"] + 0.5 * (1 - rho), "validation_pcc": seen,
                        "validation_mse": mse, "validation_criterion": mse + 1 - seen,
                        "learning_rate": 1e-3 * (1 - t / epochs)})  # fmt: skip
    return records, metrics


def _predictions(
    rng: np.random.Generator, targets: tuple[str, ...], groups: tuple[str, ...], bag: str, samples: int
) -> Rows:
    rows = []
    shift = dict(zip(groups, rng.normal(0, 0.8, len(groups)), strict=True))
    for k in range(2 * samples):
        row: dict[str, Any] = {"id": bag.format(k), "part": "validation" if k < samples else "test"}
        if groups:
            row["group"] = groups[int(len(groups) * rng.random() ** 1.5)]
        for place, name in enumerate(targets):
            y = 5 + 2 * rng.normal() + shift.get(row.get("group", ""), 0.0)
            row[column(targets, "target", name)] = y
            row[column(targets, "prediction", name)] = 5 + 0.66 * (y - 5) + (1.1 + 0.3 * place) * rng.normal()
        rows.append(row | {"outside": 3 * int(rng.random() < 0.02)})
    return rows


def column(targets: tuple[str, ...], kind: str, name: str) -> str:
    return f"{kind}:{name}" if len(targets) > 1 else kind


def _score(rows: Rows, targets: tuple[str, ...], name: str) -> dict[str, Any]:
    y, x = (np.array([row[column(targets, kind, name)] for row in rows]) for kind in ("target", "prediction"))
    pcc = float(np.corrcoef(x, y)[0, 1]) if len(rows) > 2 else None
    return {"pcc": pcc, "mse": float(np.mean((x - y) ** 2)), "mae": float(np.mean(abs(x - y)))}


def _scores(rows: Rows, targets: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in ("validation", "test"):
        mine = [row for row in rows if row["part"] == part]
        found[part] = {name: _score(mine, targets, name) for name in targets}
    for score in found["test"].values():
        score |= {"low": score["pcc"] - 0.024, "high": score["pcc"] + 0.021}
    return found


def _group_scores(rows: Rows, targets: tuple[str, ...]) -> Rows:
    test = [row for row in rows if row["part"] == "test" and "group" in row]
    found = []
    for group in sorted({row["group"] for row in test}):
        mine = [row for row in test if row["group"] == group]
        found.append({"group": group, "n": len(mine)} | _score(mine, targets, targets[0]))
    return found


def _attention(rng: np.random.Generator, rows: Rows, targets: tuple[str, ...], element: str) -> dict[str, Any]:
    test = [row for row in rows if row["part"] == "test"]
    sizes = rng.integers(20, 240, len(test))
    gamma, temperature = 1 + 0.45 * rng.beta(2, 3, len(test)), np.exp(rng.normal(0.1, 0.25, len(test)))
    bags = []
    for k in range(min(8, len(test))):
        n = int(sizes[k])
        weight = np.sort(rng.dirichlet(np.full(n, 0.3)))[::-1]
        effective = (1 - gamma[k]) / n + gamma[k] * weight
        top = [
            {"label": element.format(int(rng.integers(0, 999))), "weight": weight[i], "effective": effective[i]}
            for i in (*range(7), *range(n - 3, n))
        ]
        values = {kind: [test[k][column(targets, kind, name)] for name in targets] for kind in ("prediction", "target")}
        bags.append({"id": test[k]["id"], "gamma": gamma[k], "temperature": temperature[k], "elements": n, "top": top}
                    | {kind: value if len(targets) > 1 else value[0] for kind, value in values.items()})  # fmt: skip
    effective_elements = (sizes * rng.beta(2, 8, len(test))).clip(1)
    figures = {"gamma": gamma, "temperature": temperature, "effective_elements": effective_elements, "elements": sizes}
    return {name: values.tolist() for name, values in figures.items()} | {"bags": bags}


def _config(targets: tuple[str, ...], groups: tuple[str, ...]) -> dict[str, Any]:
    roles = {"group": "slide" if groups else None, "time": None, "weight": None, "bag": "spot", "labels": None}
    named = " ".join(f"--target {name!r}" for name in targets)
    versions = {"python": "3.11.2", "torch": "2.13.0", "lightning": "2.6.0", "numpy": "2.3.1", "platform": "Linux"}
    return {
        "excora": "0.1.0", "rerun": f"excora fit data/slides.parquet {named} --bag spot --group slide --output run",
        "data": {"path": "data/slides.parquet", "target": list(targets), **roles, "id": None, "drop": []},
        "split": {"validation": 0.2, "test": 0.2}, "settings": Settings("pool").settled("bags", 100).to_dict(),
        "inputs": {"targets": len(targets)}, "state": "finished", "environment": versions,
    }  # fmt: skip


class Page(HTMLParser):
    """Elements with their attributes, and the text of each section."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.sections: dict[str, str] = {}
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.path: list[str] = []
        self.feed(path.read_text("utf-8").replace(get_plotlyjs(), ""))
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "section":
            self.path.append(dict(attrs)["id"])
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"<{tag}> is not nested well"
        if tag == "section":
            self.path.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.path:
            self.texts.append(data)
            self.sections[self.path[-1]] = self.sections.get(self.path[-1], "") + data

    @property
    def plots(self) -> dict[str, Any]:
        return {plot["name"]: plot["views"] for plot in json.loads(self.scripts[1])}


def read_csv(path):
    return pd.read_csv(path, float_precision="round_trip")


def plain(folder):
    """The contents of a run folder as `fit` has them before it writes them."""
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("config", "results")}
    found["monitor"] = json.loads((folder / "monitor.json").read_text())["records"]
    found["attention"] = {"pool": json.loads((folder / "attention.json").read_text())}
    found["metrics"] = read_csv(folder / "metrics.csv").to_dict("records")
    return found | {"predictions": dict(read_csv(folder / "predictions.csv").items())}


def shown(record, tmp_path):
    return Page(write_page(tmp_path / "page.html", page_of_run(record)))


def broken(name: str, change) -> None:
    return pytest.param(name, change, id=f"{name} {change.__name__}")
