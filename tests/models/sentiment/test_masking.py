"""Steps that are hidden together and guessed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from excora.models import models
from excora.models.sentiment.masking import WEIGHT, MaskedSteps, alike
from excora.models.sentiment.parts import Sequence
from excora.pooling import Pooled
from excora.reduce import Penalty
from models.sentiment.cases import STREAMS, batch


def sequence(seed: int, n: int = 5, longest: int = 9, width: int = 3) -> Sequence:
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(1, longest + 1, (n,), generator=generator)
    values = torch.randn(n, longest, width, dtype=torch.float64, generator=generator)
    return Sequence(values, length)


@given(st.integers(0, 10_000), st.floats(0.01, 0.99))
def test_hidden_steps_are_the_most_alike(seed, share):
    one = sequence(seed)
    first = (torch.rand(5, generator=torch.Generator().manual_seed(seed)) * one.length).long()
    found = alike(one, first, share).numpy()
    for k, length in enumerate(one.length.tolist()):
        x = one.values[k, :length].numpy()
        x = x - x.mean(0)
        many = min(int(np.ceil(np.float32(share) * np.float32(length))), length - 1)
        assert found[k].sum() == many
        assert not found[k, length:].any()
        if many:
            assert found[k, first[k]]
            norm = np.linalg.norm(x, axis=1)
            near = x @ x[first[k]] / np.maximum(norm * norm[first[k]], 1e-12)
            near[first[k]] = 2.0
            assert near[found[k, :length]].min() >= near[~found[k, :length]].max() - 1e-9


def test_the_loss_is_the_mean_over_hidden_steps():
    masked = MaskedSteps({"audio": (2, 9)}, 4, 0.5).double()
    one = Sequence(torch.randn(3, 9, 2, dtype=torch.float64), torch.tensor([9, 4, 1]))
    zero = torch.zeros(())
    pooled = {"audio": Pooled(torch.randn(3, 4, dtype=torch.float64), torch.ones(3, 9), Penalty(zero, zero), {})}
    hidden = alike(one, torch.tensor([0, 1, 0]), 0.5)
    found = masked.loss(pooled, {"audio": one}, {"audio": hidden})
    guess = masked.guess["audio"](pooled["audio"].value).detach().numpy()
    wrong = [
        np.mean((one.values[k, t].numpy() - guess[k]) ** 2) for k in range(3) for t in range(9) if bool(hidden[k, t])
    ]
    assert int(found.count) == len(wrong) == 5 + 2
    assert (found.sum / found.count).item() == pytest.approx(WEIGHT * np.mean(wrong))


def test_what_is_hidden_is_zero_and_the_rest_is_as_it_was():
    masked = MaskedSteps({"audio": (3, 9)}, 4, 0.4)
    one = sequence(3)
    covered, hidden = masked.hide({"audio": one})
    gone = hidden["audio"].unsqueeze(2).expand_as(one.values)
    assert hidden["audio"].any()
    assert not covered["audio"].values[gone].any()
    assert torch.equal(covered["audio"].values[~gone], one.values[~gone])


@pytest.mark.parametrize("model", ["streams", "almt"])
def test_it_is_a_loss_of_training_alone(model):
    kind = models[model]
    small = dict(kind.small) or {"dim": 6}
    network = kind.Network(STREAMS, kind.Options(**small, masked=0.4), 1).double()
    inputs = batch()
    assert network.eval()(inputs).losses == {}
    network.train()
    torch.manual_seed(0)
    output = network(inputs)
    (loss,) = output.losses.values()
    assert loss.sum.item() > 0
    (output.prediction.square().sum() + loss.sum).backward()
    reached = {name for name, p in network.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert {f"masked.guess.{name}.weight" for name in STREAMS} <= reached
    torch.manual_seed(0)
    assert torch.equal(network(inputs).prediction, output.prediction)
    torch.manual_seed(1)
    assert not torch.equal(network(inputs).prediction, output.prediction)


@pytest.mark.parametrize("model", ["streams", "almt"])
def test_without_it_nothing_is_added(model):
    kind = models[model]
    network = kind.Network(STREAMS, kind.Options(**(dict(kind.small) or {"dim": 6})), 1).double().train()
    assert network.masked is None
    assert not any(name.startswith("masked") for name in network.state_dict())
    assert network(batch()).losses == {}
