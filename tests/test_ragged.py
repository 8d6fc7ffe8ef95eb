"""ragged: collate, padding and back, blocks, and bounded memory for a bag of 100,000 elements."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora import Ragged
from excora.errors import InputError


@given(st.lists(st.integers(0, 8), min_size=1, max_size=9), st.integers(1, 3))
def test_padding_and_back_is_the_identity(lengths, width):
    values = torch.randn(sum(lengths), width)
    ragged = Ragged(values, torch.tensor(lengths))
    padded, mask = ragged.pad()
    back = Ragged.from_padded(padded, mask)
    assert torch.equal(back.values, values)
    assert back.lengths.tolist() == lengths
    assert mask.sum(1).tolist() == lengths
    assert (padded[~mask] == 0).all()
    assert torch.equal(padded[mask], values)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_blocks_visit_every_bag_and_every_row_once(lengths):
    ragged = Ragged(torch.arange(float(sum(lengths))).unsqueeze(1), torch.tensor(lengths))
    bags, rows = [], []
    for block in ragged.blocks():
        bags += block.bags.tolist()
        box = block.load(ragged.values).squeeze(-1)
        assert box.shape == block.shape
        rows += (box if block.mask is None else box[block.mask]).flatten().tolist()
    assert sorted(bags) == list(range(len(lengths)))
    assert sorted(rows) == list(range(sum(lengths)))


def test_collate_lays_bags_end_to_end():
    bags = [torch.ones(2, 3), torch.zeros(0, 3), torch.full((1, 3), 5.0)]
    ragged = Ragged.collate(bags)
    assert ragged.lengths.tolist() == [2, 0, 1]
    assert ragged.bag_index().tolist() == [0, 0, 2]
    assert torch.equal(ragged.values, torch.cat(bags))
    assert len(ragged) == 3
    assert ragged.to(torch.float64).values.dtype == torch.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Ragged(torch.zeros(3, 2), torch.tensor([1, 1])), "sum to the 3 rows.*sum of 2"),
        (lambda: Ragged(torch.zeros(3, 2), torch.tensor([4, -1])), "smallest of -1"),
        (lambda: Ragged(torch.zeros(3, 2), torch.tensor([3.0])), "integers"),
        (lambda: Ragged(torch.tensor(1.0), torch.tensor([1])), "scalar"),
        (lambda: Ragged.collate([]), "at least one bag"),
        (lambda: Ragged.collate([torch.zeros(1, 2), torch.zeros(1, 3)]), "one width"),
        (lambda: Ragged.from_padded(torch.zeros(2, 3, 1), torch.ones(2, 3)), "boolean"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


PROBE = """
import torch
from excora import ECAPool, Ragged
torch.set_num_threads(1)
pool = ECAPool(512)
lengths = torch.tensor([1000, 100_000, 37])
values = torch.randn(int(lengths.sum()), 512, requires_grad=True)
small = Ragged(torch.randn(50, 512, requires_grad=True), torch.tensor([50]))
pool(small).value.sum().backward()                      # code and libraries are in memory now
values.grad = torch.zeros_like(values)                  # the gradient itself is not extra memory
def peak():  # not ru_maxrss, which a child inherits from its parent
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
before = peak()
out = pool(Ragged(values, lengths)).value
forward = peak() - before
(grad,) = torch.autograd.grad(out.square().sum(), values)
print(forward, peak() - before - grad.numel() * 4 / 2**20)
"""


def test_a_bag_of_100_000_elements_pools_in_bounded_extra_memory():
    run = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    forward, backward = map(float, run.stdout.split())
    # The values take 197 MB; a tile 2 MB; the logits, weights and coefficients of 101,037 elements 3 MB.
    assert forward < 20
    assert backward < 20
