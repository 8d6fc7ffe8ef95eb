"""Sentiment models: ALMT's eight queries against all of them; each model's training step at the size of MOSI."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import Row, row
from excora.models import models
from excora.models.sentiment.almt import ALMT, ALMTOptions
from excora.models.sentiment.almt_layers import Reader
from excora.models.sentiment.parts import Sequence
from excora.pooling import Pooled
from excora.reduce import Penalty

UNALIGNED = {"text": (768, 50), "audio": (5, 375), "vision": (20, 500)}
ALIGNED = {"text": (768, 50), "audio": (5, 50), "vision": (20, 50)}
#: Batch, and seconds of a step of the reference code on two quiet cores of another machine; none is known of ICCN.
STEPS: dict[str, tuple[int, float]] = {
    "tfn": (32, 0.156), "lmf": (64, 0.052), "ef-lstm": (32, 0.067), "lf-dnn": (128, 0.107), "graph-mfn": (32, 0.297),
    "misa": (16, 0.020), "dlf": (16, 0.331), "mult": (16, 12.4), "almt": (64, 0.757),
}  # fmt: skip
MATCHED = ("ef-lstm", "graph-mfn", "dlf")


class FullReader(Reader):
    """The reader as published: every token and every frame asks, and all but the tokens' answers are thrown away."""

    def forward(self, sequence: Sequence) -> tuple[Tensor, Pooled]:
        """The tokens; what they looked at is left out."""
        layer, few = self.layer, len(self.tokens)
        frames = self.project(sequence.values)
        x = torch.cat([self.tokens.expand(len(frames), -1, -1), frames], 1) + self.positions
        q, k, v = (
            project(norm(x)).unflatten(2, (layer.heads, -1)).transpose(1, 2)
            for project, norm in (
                (layer.to_q, layer.norm_q), (layer.to_k, layer.norm_k), (layer.to_v, layer.norm_v)
            )
        )  # fmt: skip
        attended = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
        x = x + layer.to_out(attended.transpose(1, 2).flatten(2))
        x = x + layer.second(F.gelu(layer.first(layer.norm(x))))
        zero = x.new_zeros(())
        return x[:, :few], Pooled(x[:, 0], x[:, :, 0], Penalty(zero, zero), {})


def inputs(streams: dict[str, tuple[int, int]], batch: int) -> dict[str, Tensor]:
    """Clips that fill their arrays."""
    found = {name: torch.randn(batch, longest, width) for name, (width, longest) in streams.items()}
    return found | {f"{name}_length": torch.full((batch,), longest) for name, (_, longest) in streams.items()}


def stepping(network: Any, batch: dict[str, Tensor]) -> Callable[[], None]:
    """A training step with the losses of the network, AdamW included."""
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], foreach=True)
    target = torch.randn(len(batch["text"]), 1).round()

    def step() -> None:
        optimizer.zero_grad()
        output = network.train()(batch)
        loss = (output.prediction - target).square().mean() + sum(
            p.sum / p.count.clamp_min(1) for p in output.penalties
        )
        if output.compared is not None:
            loss = loss + sum(network.compare(output.compared, target, None).values())
        loss.backward()
        optimizer.step()

    return step


def milliseconds(step: Callable[[], None], rounds: int) -> float:
    """Median, after one that does not count; of a single round the first counts, as a step takes long."""
    times: list[float] = []
    if rounds > 1:
        step()
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def run() -> list[Row]:
    """ALMT both ways, then every model against what the reference code takes."""
    torch.manual_seed(0)
    batch = inputs(UNALIGNED, 16)
    ours, full = ALMT(UNALIGNED), ALMT(UNALIGNED)
    full.load_state_dict(ours.state_dict())
    for reader in full.readers.values():
        reader.__class__ = FullReader
    with torch.no_grad():
        gap = float((ours.eval()(batch).prediction - full.eval()(batch).prediction).abs().max())
    assert gap < 1e-5, gap
    eca = ALMT(UNALIGNED, ALMTOptions(vision_pool="eca", audio_pool="eca", text_pool="eca"))
    rows = [
        row("ALMT, eight queries / all queries, batch 16", 0.2, stepping(ours, batch), stepping(full, batch), rounds=3),
        row("ALMT, ECA in all streams / softmax, batch 16", 1.3, stepping(eca, batch), stepping(ours, batch), rounds=5),
    ]
    for name, (size, known) in STEPS.items():
        model = models[name]
        streams = ALIGNED if name in MATCHED else UNALIGNED
        network = model.Network(streams, model.Options())  # type: ignore[attr-defined]
        took = milliseconds(stepping(network, inputs(streams, size)), 1 if name == "mult" else 5)
        other = known * 1e3
        label = f"{name}, a step of {size} clips / reference code elsewhere"
        rows.append(Row(name=label, target=1.2, at_least=False, ratio=took / other, ours=took, other=other))
    return rows
