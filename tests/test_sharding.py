"""FSDP2 on two gloo ranks: sharded parameters get the gradients of one process, those of gain and temperature too."""

from __future__ import annotations

import datetime
import multiprocessing
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from excora.attention import ExtrapolativeAttention
from excora.convert import extrapolate_
from excora.pooling import ECAPool
from excora.reduce import penalties

WORLD, BAGS, LENGTH, DIM, HEADS = 2, 6, 5, 8, 2
HIDDEN = torch.arange(LENGTH) >= torch.tensor([5, 3, 4, 5, 2, 1])[:, None]


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = ExtrapolativeAttention(DIM, HEADS, batch_first=True, penalty_weight=3.0)
        self.head = nn.Linear(DIM, 2)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        h, _ = self.inner(x, x, x, key_padding_mask=hidden, need_weights=False)
        penalty = penalties(self)
        return self.head(h.masked_fill(hidden[..., None], 0.0).sum(1)), (penalty.sum / penalty.count).sum()


class Converted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(DIM, HEADS, 16, dropout=0.0, batch_first=True)
        extrapolate_(self.inner, penalty_weight=3.0)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        h = self.inner(x, src_key_padding_mask=hidden)
        penalty = penalties(self)
        return h.masked_fill(hidden[..., None], 0.0).sum(1), (penalty.sum / penalty.count).sum()


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = ECAPool(DIM, penalty_weight=3.0)
        self.head = nn.Linear(DIM, 2)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        pooled = self.inner(x, ~hidden)
        return self.head(pooled.value), pooled.penalty.sum / pooled.penalty.count


class Both(Pooling):
    def __init__(self) -> None:
        super().__init__()
        self.attending = Attending()

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        prediction, first = self.attending(x, hidden)
        pooled, second = super().forward(x, hidden)
        return prediction * pooled, first + second


MODELS = {"attention": Attending, "converted": Converted, "pool": Pooling, "both": Both}


def build(name: str) -> nn.Module:
    """A model away from its start, where every parameter has a gradient."""
    torch.manual_seed(1)
    model = MODELS[name]().double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def step(model: nn.Module, rows: slice) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(BAGS, LENGTH, DIM, generator=generator, dtype=torch.float64)
    prediction, penalty = model(x[rows], HIDDEN[rows])
    (prediction.pow(2).mean() + penalty).backward()
    return {name: getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for name, p in model.named_parameters()}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD,
        timeout=datetime.timedelta(seconds=30),  # a deadlock is a failure, not a wait
    )
    mesh = init_device_mesh("cpu", (WORLD,))
    results: dict[str, Any] = {}
    for name in MODELS:
        model = build(name)
        try:
            for module in (model.inner, model):
                fully_shard(module, mesh=mesh)
            results[name] = step(model, slice(rank * BAGS // WORLD, (rank + 1) * BAGS // WORLD))
            assert all(isinstance(p, DTensor) for p in model.parameters())
        except ValueError as error:  # refused before anything is communicated, so on every rank alike
            results[name] = str(error)
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.set_forkserver_preload(["torch._dynamo", "excora.attention", "excora.pooling"])
    mp.start_processes(work, args=(str(folder),), nprocs=WORLD, start_method="forkserver")
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


@pytest.mark.parametrize("name", MODELS)
def test_sharded_gradients_are_those_of_one_process(ranks, name: str) -> None:
    expected = step(build(name), slice(0, BAGS))
    for found in ranks:
        assert not isinstance(found[name], str), found[name]
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-10)
    ours = [key for key in expected if "gain" in key or "temperature" in key]
    assert ours
    assert all(expected[key].abs().max() > 1e-6 for key in ours), "a zero gradient proves nothing"
