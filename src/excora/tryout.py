"""Small files of every kind, made up, to try the commands on: ``excora demo --files FOLDER``.

They have the names that docs/start.md and the README use, so that the lines there can be pasted. The answers are known:
what a price, a survival or a score follows stands in the function that makes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora.errors import InputError, MissingExtraError
from excora.storage import write_atomically
from excora.tasks.sentiment import SentimentTask
from excora.tasks.slides import SlideTask

SLIDES, PATIENTS, NEW = 80, 20, 40


def write(folder: str | Path) -> dict[str, str]:
    """Write them; by name what each is. What needs an extra that is missing is left out, and says so.

    Nothing is overwritten: a folder that holds anything is an :class:`InputError`.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder: give another one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}; give another folder") from None
    told: dict[str, str] = {}
    for make in (_table, _features, _cells, _events, _spatial, _clips):
        try:
            told |= make(folder)
        except MissingExtraError as error:
            told[make.__name__.strip("_")] = f"left out: {error}"
    return told


def _table(folder: Path) -> dict[str, str]:
    """price = 3 size + district's level + a bend in age + noise of deviation 10."""
    random = np.random.default_rng(0)
    n = 400 + NEW
    size, age = random.uniform(30, 150, n), random.uniform(0, 80, n)
    district = random.choice(["harbour", "hill", "old town"], n)
    level = np.select([district == "hill", district == "old town"], [40.0, 90.0], 0.0)
    price = 3 * size + level + 0.03 * (age - 50) ** 2 + 10 * random.normal(size=n)
    columns = {"size": size.round(1), "age": age.round(0), "district": district, "price": price.round(1)}
    _save(folder / "table.csv", {name: values[:400] for name, values in columns.items()})
    _save(folder / "new.csv", {name: values[400:] for name, values in columns.items() if name != "price"})
    return {"table.csv": "400 rows with a price", "new.csv": f"{NEW} rows without"}


def _slides(first: int, number: int) -> tuple[list[Any], list[str], Any, Any]:
    """Patches (n, 8), their places, and survival: twice the mean of feature 0 over the lesion, with noise."""
    random = np.random.default_rng([1, first])
    patches = []
    for _ in range(number):
        places = random.uniform(0, 10, (random.integers(20, 60), 2))
        lesion = np.linalg.norm(places - random.uniform(3, 7, 2), axis=1) < 2.5
        elements = random.normal(size=(len(places), 8))
        elements[lesion, 0] += random.normal()
        elements[:, 1] += 3 * lesion
        patches.append((elements, places, elements[lesion, 0].mean() if lesion.any() else 0.0))
    survival = [2 * told + 0.2 * random.normal() for *_, told in patches]
    names = [f"slide{first + k:03d}" for k in range(number)]
    return patches, names, np.round(survival, 3), [f"patient{k % PATIENTS:02d}" for k in range(number)]


def _features(folder: Path) -> dict[str, str]:
    patches, names, survival, patient = _slides(0, SLIDES)
    (folder / "features").mkdir()
    for (elements, places, _), name in zip(patches, names, strict=True):
        arrays = {"features": elements.astype(np.float32), "coords": places.astype(np.float32)}
        np.savez(folder / "features" / f"{name}.npz", allow_pickle=False, **arrays)
    _save(folder / "labels.csv", {"id": names, "patient": patient, "survival": survival})
    return {
        "features/": f"patch features of {SLIDES} slides, one .npz each, with coords",
        "labels.csv": f"their survival, and {PATIENTS} patients",
    }


def _cells(folder: Path) -> dict[str, str]:
    """The same as long tables."""
    told = {}
    for file, first, number in (("cells.parquet", 0, SLIDES), ("new.parquet", 500, NEW)):
        patches, names, survival, patient = _slides(first, number)
        of = np.repeat(np.arange(number), [len(elements) for elements, *_ in patches])
        elements = np.concatenate([elements for elements, *_ in patches])
        columns: dict[str, Any] = {"slide": np.array(names)[of]}
        columns |= {f"f{k}": elements[:, k].round(4) for k in range(elements.shape[1])}
        if first == 0:
            columns |= {"patient": np.array(patient)[of], "survival": survival[of]}
        _save(folder / file, columns)
        told[file] = f"a row a cell of {number} slides" + ("" if first == 0 else ", without survival")
    return told


def _events(folder: Path) -> dict[str, str]:
    """y is the sum of the values, each worth exp(-time since / 5), with noise."""
    random = np.random.default_rng(2)
    rows: list[tuple[str, float, float, float]] = []
    for k in range(200):
        times = np.sort(random.uniform(0, 20, random.integers(4, 15)))
        values = random.normal(size=len(times))
        y = float(values @ np.exp((times - 20) / 5) + 0.1 * random.normal())
        rows += [(f"s{k:03d}", round(t, 2), round(v, 3), round(y, 3)) for t, v in zip(times, values, strict=True)]
    _save(folder / "events.csv", dict(zip(("id", "t", "value", "y"), map(list, zip(*rows, strict=True)), strict=True)))
    return {"events.csv": "200 sequences of events at irregular times"}


def _spatial(folder: Path) -> dict[str, str]:
    SlideTask().write(folder / "slides", slides=6)
    return {"slides/": "six .h5ad with expression and picture, and patch features; the gene PLANTED can be told"}


def _clips(folder: Path) -> dict[str, str]:
    SentimentTask(text=1.0).write(folder / "clips.pkl", clips=(150, 50, 50))
    return {"clips.pkl": "250 clips of text, audio and vision in MMSA's layout"}


def _save(path: Path, columns: dict[str, Any]) -> None:
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    frame = pd.DataFrame(columns)
    write_atomically(path, frame.to_csv(index=False) if path.suffix == ".csv" else frame.to_parquet(index=False))
