"""Sentiment models: ALMT's eight queries against all of them; training steps at the size of MOSI against plain code."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.plain_clips import DLF, MULT, EarlyFusion, LateFusion, Parts, Transformers
from benchmarks.timing import Row, row
from excora.models import models
from excora.models.sentiment.almt import ALMT, ALMTOptions
from excora.models.sentiment.almt_layers import Reader
from excora.models.sentiment.parts import Sequence
from excora.pooling import Pooled
from excora.reduce import Penalty

UNALIGNED = {"text": (768, 50), "audio": (5, 375), "vision": (20, 500)}
ALIGNED = {"text": (768, 50), "audio": (5, 50), "vision": (20, 50)}
#: Clips of a step, and torch's own layers at the same sizes. Other models are these layers and a product: no row.
PLAIN: dict[str, tuple[int, str, Callable[[], nn.Module]]] = {
    "lf-dnn": (128, "torch's layers", LateFusion),
    "ef-lstm": (32, "torch's layers", EarlyFusion),
    "misa": (16, "packed LSTMs of torch", Parts),
    "mult": (16, "its layers by nn.MultiheadAttention, aligned clips", lambda: Transformers(MULT)),
    "dlf": (16, "its layers by nn.MultiheadAttention", lambda: Transformers(DLF)),
}
MATCHED = ("ef-lstm", "mult", "dlf")


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


def inputs(streams: dict[str, tuple[int, int]], batch: int, *, full: bool = True) -> dict[str, Tensor]:
    """Clips that fill their arrays, or of a quarter to all of the steps, as real ones; one does fill them."""
    share = torch.ones(batch) if full else torch.linspace(0.25, 1.0, batch)
    found = {}
    for name, (width, longest) in streams.items():
        length = (share * longest).long()
        behind = torch.arange(longest) >= length.unsqueeze(1)
        found[name] = torch.randn(batch, longest, width).masked_fill(behind.unsqueeze(2), 0.0)
        found[f"{name}_length"] = length
    return found


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


def plain_stepping(network: nn.Module, batch: dict[str, Tensor]) -> Callable[[], None]:
    """The same of plain code: one loss."""
    optimizer = torch.optim.AdamW(network.parameters(), foreach=True)
    target = torch.randn(len(batch["text"]), 1).round()

    def step() -> None:
        optimizer.zero_grad()
        (network.train()(batch) - target).square().mean().backward()
        optimizer.step()

    return step


def seconds(*steps: Callable[[], None], rounds: int) -> list[float]:
    """The least CPU time of each on one thread, taken in turns: another process on the machine hardly changes it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    least = [float("inf")] * len(steps)
    for number in range(rounds + 1):
        for k, step in enumerate(steps):
            start = time.process_time()
            step()
            if number:
                least[k] = min(least[k], time.process_time() - start)
    torch.set_num_threads(threads)
    return least


def run() -> list[Row]:
    """ALMT both ways, then models against plain code of the same sizes."""
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
    for name, (size, words, make) in PLAIN.items():
        model = models[name]
        streams = ALIGNED if name in MATCHED else UNALIGNED
        network = model.Network(streams, model.Options())  # type: ignore[attr-defined]
        clips = inputs(streams, size, full=False)
        mine, theirs = seconds(stepping(network, clips), plain_stepping(make(), clips), rounds=5)
        label = f"{name}, a step of {size} clips / {words}, CPU time"
        rows.append(
            Row(name=label, target=1.2, at_least=False, ratio=mine / theirs, ours=mine * 1e3, other=theirs * 1e3)
        )
    (took,) = seconds(stepping(ALMT(UNALIGNED), inputs(UNALIGNED, 64)), rounds=2)
    label = "almt, a step of 64 clips of full length, CPU seconds / 1"
    rows.append(Row(name=label, target=0.9, at_least=False, ratio=took, ours=took * 1e3, other=1e3))
    return rows
