"""reduce.py in one process: the identity, penalties. Several processes are in test_distributed.py."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from excora.reduce import Penalty, all_reduce_max, all_reduce_sum, gathered, is_distributed, penalties


class Keeper(nn.Module):
    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(strength))
        self.last_penalty: Penalty | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last_penalty = Penalty(self.strength.square() * len(x), torch.tensor(float(len(x))))
        return x


@pytest.fixture
def torchrun(monkeypatch):
    """The environment that torchrun gives the one rank of a world of one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    yield
    dist.destroy_process_group()


def test_one_process_is_the_identity() -> None:
    x = torch.randn(3, requires_grad=True)
    assert not is_distributed()
    assert all_reduce_sum(x) is gathered(x) is x
    highest = all_reduce_max(x)
    assert torch.equal(highest, x)
    assert not highest.requires_grad


@pytest.mark.usefixtures("torchrun")
def test_a_world_of_one_rank_is_the_identity() -> None:
    dist.init_process_group("gloo")
    x = torch.randn(3, requires_grad=True)
    assert not is_distributed()
    assert all_reduce_sum(x) is x


def test_identity_compiles_without_a_graph_break() -> None:
    def spread(x: Tensor) -> tuple[Tensor, Penalty]:
        total = Penalty(all_reduce_sum(x.square().sum()), all_reduce_sum(torch.ones(())))
        return total.sum / total.count / all_reduce_max(x.abs().max()), total

    x = torch.tensor([1.0, -2.0], requires_grad=True)
    value, total = torch.compile(spread, fullgraph=True, backend="eager")(x)
    value.backward()
    assert value.item() == 2.5
    assert torch.equal(x.grad, torch.tensor([1.0, -2.0]))
    assert isinstance(total, Penalty)
    assert total.count.item() == 1.0


def test_penalties_are_stacked_with_their_gradient() -> None:
    model = nn.Sequential(Keeper(2.0), nn.ReLU(), nn.Sequential(Keeper(3.0)))
    model(torch.randn(4, 1))
    collected = penalties(model)
    assert torch.equal(collected.sum, torch.tensor([16.0, 36.0]))
    assert torch.equal(collected.count, torch.tensor([4.0, 4.0]))
    (collected.sum / collected.count).sum().backward()
    assert model[0].strength.grad.item() == 4.0
    assert model[2][0].strength.grad.item() == 6.0


def test_penalties_count_a_shared_module_once_and_nothing_of_what_was_not_called() -> None:
    shared, idle = Keeper(2.0), Keeper(5.0)
    model = nn.ModuleDict({"first": shared, "second": nn.Sequential(shared), "idle": idle})
    shared(torch.randn(3, 1))
    found = penalties(model)
    assert found.sum.tolist() == [12.0, 0.0]
    assert (found.sum / found.count).tolist() == [4.0, 0.0]
    assert (found.count + 3.0).tolist() == [6.0, 3.0]  # as ranks and micro-batches add up


def test_penalties_follow_the_last_call() -> None:
    layer = Keeper(1.0)
    for n in (7, 2):
        layer(torch.randn(n, 1))
    assert penalties(layer).count.tolist() == [2.0]


class Skipping(nn.Module):
    """Leaves layers out, as layer drop does."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Keeper(strength) for strength in (2.0, 3.0))

    def forward(self, x: Tensor, *, skip: tuple[int, ...]) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x if i in skip else layer(x)
        return x


def test_a_layer_that_the_last_call_left_out_counts_as_nothing() -> None:
    model, x = Skipping(), torch.randn(4, 1)
    for skip, sums in (((), [16.0, 36.0]), ((1,), [16.0, 0.0]), ((0, 1), [0.0, 0.0]), ((0,), [0.0, 36.0])):
        model(x, skip=skip)
        found = penalties(model)
        assert found.sum.tolist() == sums
        assert penalties(model).sum.tolist() == sums  # asked again, for a log
        assert (found.sum / found.count).sum().isfinite()
        if any(sums):
            (found.sum / found.count).sum().backward()  # a graph of an earlier step would be gone
    assert len(model._forward_pre_hooks) == 1


def test_no_penalty_is_empty_and_sums_to_zero() -> None:
    collected = penalties(nn.Linear(2, 1))
    assert collected.sum.shape == collected.count.shape == (0,)
    assert collected.sum.sum().item() == 0.0


@pytest.mark.usefixtures("torchrun")
def test_the_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[1] / "docs" / "distributed.md"
    names: dict[str, Any] = {"__name__": "train"}
    for example in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(example, names)
    assert names["value"].isfinite()
    assert all(p.grad.isfinite().all() for p in names["model"].parameters())
