"""A small file in MMSA's layout."""

from __future__ import annotations

import pickle

import numpy as np

SIZES = {"train": 8, "valid": 4, "test": 4}


def part(name: str, n: int, *, aligned: bool = False) -> dict:
    generator = np.random.default_rng(n + len(name))
    steps = {"text": 5, "audio": 5 if aligned else 7, "vision": 5 if aligned else 9}
    width = {"text": 6, "audio": 3, "vision": 4}
    text = 1 + np.arange(n) % 5
    lengths = {
        "text": text,
        "audio": text if aligned else 1 + np.arange(n) % 7,
        "vision": text if aligned else 2 + np.arange(n) % 7,
    }
    found: dict = {}
    for key, most in steps.items():
        values = generator.normal(size=(n, most, width[key])).astype(np.float32) + 3
        values[np.arange(most) >= lengths[key][:, None]] = 0
        found[key] = values
    if not aligned:
        found |= {f"{key}_lengths": lengths[key].tolist() for key in ("audio", "vision")}
    bert = np.zeros((n, 3, 5))
    for k, length in enumerate(text):
        bert[k, 0, :length], bert[k, 1, :length] = 100 + np.arange(length), 1
    words = [" ".join(f"w{j}" for j in range(length)) for length in text]
    return found | {
        "raw_text": np.array(words), "id": np.array([f"{name}{k // 2}$_${k}" for k in range(n)], object),
        "text_bert": bert,
        "annotations": np.array(["Neutral"] * n), "classification_labels": np.zeros(n),
        "regression_labels": np.linspace(-3, 3, n).astype(np.float32),
    }  # fmt: skip


def content(**more) -> dict:
    return {name: part(name, n, **more) for name, n in SIZES.items()}


def write(path, held=None):
    held = content() if held is None else held
    if path.suffix == ".npz":
        flat = {f"{part}/{key}": np.asarray(value) for part, one in held.items() for key, value in one.items()}
        np.savez(path, **{key: value.astype(str) if value.dtype == object else value for key, value in flat.items()})
    else:
        path.write_bytes(pickle.dumps(held, 4))
    return path
