"""The probe: the oracle's ridge, and signal told from noise."""

from __future__ import annotations

import numpy as np
import torch
from oracles import diagnosis as oracle

from excora.monitor.probe import RIDGES, _features, _out_of_fold, probe_correlation


def test_probe_is_the_oracle_and_tells_signal_from_noise() -> None:
    n = 300
    mean, value = torch.randn(n, 6, dtype=torch.float64), torch.randn(n, 6, dtype=torch.float64)
    noise = torch.randn(n, 1, dtype=torch.float64)
    signal = mean[:, :1] + value[:, 1:2]
    table = {
        "prediction": mean[:, :1],
        "target": signal + 0.1 * noise,
        "known": torch.ones(n, 1),
        "mean": mean,
        "value": value,
    }
    x, y = _features(table), table["target"][:, 0]
    ours = _out_of_fold(x, y).numpy()
    theirs = [oracle.out_of_fold(x.numpy(), y.numpy(), 5, ridge) for ridge in RIDGES]
    np.testing.assert_allclose(ours, min(theirs, key=lambda f: ((f - y.numpy()) ** 2).mean()), atol=1e-8)
    assert probe_correlation(table)["probe_gain"] > 0.25
    assert probe_correlation(table | {"target": mean[:, :1] + 2 * noise})["probe_gain"] < 0.02
    few = {name: column[:30] for name, column in table.items()}
    assert probe_correlation(few) == {"probe_pcc": None, "probe_gain": None, "probe_error": None}
    wide = table | {"value": torch.cat([value, torch.zeros(n, 500)], 1)}
    assert probe_correlation(wide)["probe_pcc"] > 0.99
