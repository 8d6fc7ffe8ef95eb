"""Study ``modality-flow``: does attention that goes to a modality mean that the prediction uses it?

Samples of 6 text and 4 audio elements; the label is a sum over some of the elements: text alone, audio alone, or both.
A layer of extrapolating self-attention and a mean over elements are trained on each. Two figures a modality: the share
of attention that goes to it (:func:`excora.diagnosis.modality_flow.modality_flow`), and how much of the correlation is
lost when it is masked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from excora import ExtrapolativeAttention
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.modality_flow import modality_flow
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

NAMES = ("text",) * 6 + ("audio",) * 4
CASES = {"text": (1.0, 0.0), "audio": (0.0, 1.0), "both": (0.7, 0.7)}
DIM = 8


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    return {"seeds": list(range(seeds or (1 if quick else 3))), "steps": 5 if quick else 250}


def sample(case: str, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """(n, 10, dim) and labels (n,): channel 0 of the elements that count, channel 1 tells the modality."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, DIM, generator=g)
    x[..., 1] = torch.tensor([1.0] * 6 + [-1.0] * 4)
    text, audio = CASES[case]
    return x, text * x[:, :6, 0].sum(1) / 6**0.5 + audio * x[:, 6:, 0].sum(1) / 2


class Small(nn.Module):
    """x + attention(x), a mean, a line."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = ExtrapolativeAttention(DIM, 2, batch_first=True), nn.Linear(DIM, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, elements, dim) to (n,)."""
        mixed: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return self.head((x + mixed).mean(1))[:, 0]


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk a case and seed."""

    def one(case: str, seed: int) -> Chunk:
        return Chunk(f"{case}, seed {seed}", 1, lambda _, tick: _case(configuration["steps"], case, seed, tick))

    return [one(case, seed) for case in CASES for seed in configuration["seeds"]]


def _case(steps: int, case: str, seed: int, tick: Tick) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = Small()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        x, y = sample(case, 64, 1000 * (seed + 1) + step)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, y = sample(case, 500, seed)
    with torch.no_grad():
        whole = _pcc(model(x), y)
        lost = {}
        for name, part in (("text", slice(0, 6)), ("audio", slice(6, 10))):
            masked = x.clone()
            masked[:, part, 0] = masked[:, part, 2:].mean(-1)  # nothing of the label, and as alive as before
            lost[name] = whole - _pcc(model(masked), y)
    weights = attention_maps(model.eval(), lambda: model(x[:50]))[-1]
    flows = [modality_flow(one.numpy(), NAMES) for one in weights]
    tick()
    return {
        "pcc": whole, "lost": lost, "between": float(np.mean([f.between for f in flows])),
        "used": {name: float(np.mean([f.used()[name] for f in flows])) for name in ("text", "audio")},
    }  # fmt: skip


def _pcc(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Attention to each modality beside what masking it costs."""
    rows = []
    for case in CASES:
        runs = [results[f"{case}, seed {seed}"] for seed in configuration["seeds"]]
        row: dict[str, Any] = {"label from": case, "PCC": float(np.mean([r["pcc"] for r in runs]))}
        row["flow"] = float(np.mean([r["between"] for r in runs]))
        for name in ("text", "audio"):
            row[f"attention to {name}"] = float(np.mean([r["used"][name] for r in runs]))
            row[f"lost without {name}"] = float(np.mean([r["lost"][name] for r in runs]))
        rows.append(row)
    x = [float(k) for k in range(len(rows))]
    ticks = {place: f"label from {case}" for place, case in zip(x, CASES, strict=True)}
    shown = (("where attention goes", "attention to", "share"), ("what masking costs", "lost without", "PCC lost"))
    panels = []
    for title, key, y in shown:
        lines = [
            Line(label=m, x=x, y=[row[f"{key} {m}"] for row in rows], markers=True, joined=False)
            for m in ("text", "audio")
        ]
        panels.append(Panel(title=title, x="", y=y, lines=lines, ticks=ticks))
    figure = Figure(title="Attention to a modality, and its use", panels=panels, columns=2, size=(5.0, 3.2))
    return Report(rows, {}, {"modality-flow": figure}, [])


def _block(contents: Contents) -> str:
    found = contents["modality-flow"]["table"]
    keys = [key for key in found[0] if key != "label from"]
    return table(("label from", *keys), [[row["label from"], *(f"{row[key]:.2f}" for key in keys)] for row in found])


#: For the pages: what stands between the marks of that name.
BLOCKS = {"modality-flow": _block}
