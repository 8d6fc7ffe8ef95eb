"""The plateau detector as somebody who watches a run sees it: its rule after every few epochs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from excora.diagnosis.trend import detect_plateau


def watch(pcc: Sequence[float], mse: Sequence[float], *, every: int = 5) -> dict[str, Any]:
    """What :func:`detect_plateau` says of the first n epochs, for n in steps of ``every``; one entry an epoch.

    ``first``: the epoch at which it first says "plateau" (None: never); ``share``: of its answers that do; ``final``:
    the last answer. ``flat_from``: the epoch from which PCC is flat in that first answer; ``pcc_after`` and
    ``mse_after_percent``: how PCC and MSE go on from there to the end, over means of ``every`` epochs.
    """
    answers = [(n, detect_plateau(pcc[:n], mse[:n])) for n in range(len(pcc), 0, -every)][::-1]
    found = [(n, answer) for n, answer in answers if answer.state == "plateau"]
    result: dict[str, Any] = {"first": None, "flat_from": None, "pcc_after": None, "mse_after_percent": None}
    if found:
        n, answer = found[0]
        start = answer.start or 0
        here, end = slice(start, start + every), slice(-every, None)
        before, after = statistics.fmean(mse[here]), statistics.fmean(mse[end])
        result = {"first": n, "flat_from": start, "pcc_after": statistics.fmean(pcc[end]) - statistics.fmean(pcc[here])}
        result["mse_after_percent"] = 100.0 * (after / before - 1.0)
    judged = [answer for _, answer in answers if answer.state != "too short"]
    share = sum(answer.state == "plateau" for answer in judged) / max(len(judged), 1)
    return result | {"share": share, "final": answers[-1][1].state}
