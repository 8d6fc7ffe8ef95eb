"""accumulate_backward against the gradient of the one large batch."""

from __future__ import annotations

import copy
import random
from functools import partial

import pytest
import torch
from oracles.accumulation import one_backward
from torch import Tensor, nn

from excora.accumulation import accumulate_backward
from excora.errors import InputError
from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.reduce import Penalty

SIZES = (6, 1, 9, 4)
LOSSES = [PearsonLoss(), DispersionNormalizedPearsonLoss(), ConcordanceLoss(), JointLoss(weight=0.7)]


def batches(sizes=SIZES, targets: int = 3) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return [
        {"x": draw(n, 5), "target": draw(n, targets), "mask": draw(n, targets) > -1, "weight": draw(n).exp()}
        for n in sizes
    ]


def network(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), *layers, nn.Linear(8, 3)).double()


def forward(model: nn.Module, batch: dict[str, Tensor], *, keys=("target",)) -> dict[str, Tensor]:
    return {"prediction": model(batch["x"]), **{key: batch[key] for key in keys}}


def with_penalty(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor | Penalty]:
    hidden = model[0](batch["x"])
    penalty = Penalty(hidden.square().sum(0)[:2], torch.full((2,), float(len(hidden)), dtype=torch.float64))
    return {**forward(model, batch, keys=("target", "mask", "weight")), "penalty": penalty}


def gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in model.parameters()]


def both(model, loss, micro, run=forward):
    """Gradients and loss in two passes, the same from the oracle on a copy, and the copy."""
    twin = copy.deepcopy(model)
    torch.manual_seed(7)
    value = accumulate_backward(model, partial(run, model), loss, micro)
    after = torch.get_rng_state()
    torch.manual_seed(7)
    expected = one_backward(partial(run, twin), loss, micro)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients(model), gradients(twin), rtol=0, atol=1e-10)
    assert torch.equal(after, torch.get_rng_state()), "the random state must be where one pass leaves it"
    assert max(g.abs().max() for g in gradients(model)) > 1e-3, "a zero gradient proves nothing"
    return twin


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("sizes", [SIZES, (20,), (1,) * 5], ids=str)
def test_gradient_is_that_of_the_large_batch(loss: nn.Module, sizes: tuple[int, ...]) -> None:
    both(network(), loss, batches(sizes))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_masks_and_weights(loss: nn.Module) -> None:
    micro = batches()
    micro[-1]["mask"][:] = False
    micro[-1]["target"][:] = torch.nan
    both(network(), loss, micro, partial(forward, keys=("target", "mask", "weight")))


def test_penalty_is_summed_over_micro_batches() -> None:
    model, micro = network(), batches()
    both(model, JointLoss(weight=0.7), micro, with_penalty)
    without = network()
    accumulate_backward(without, partial(forward, without, keys=("target", "mask", "weight")), JointLoss(), micro)
    assert not torch.allclose(without[0].weight.grad, model[0].weight.grad)


def test_several_penalties_are_summed_entry_by_entry() -> None:
    def run(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor | list[Penalty]]:
        output = with_penalty(model, batch)
        bias = Penalty(model[-1].bias.square().sum() * len(batch["x"]), torch.tensor(len(batch["x"])))
        return {**output, "penalty": [output["penalty"], bias]}

    both(network(), JointLoss(weight=0.7), batches(), run)


def test_what_is_compared_between_samples_has_its_gradient() -> None:
    def run(model, batch):
        return {**forward(model, batch), "compared": model[0](batch["x"]).tanh()}

    def loss(prediction, target, compared):
        return (prediction - target).square().mean() + (compared @ compared.T).square().mean()

    both(network(), loss, batches(), run)


def test_a_constant_penalty_is_no_obstacle() -> None:
    def run(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor | Penalty]:
        return {**forward(model, batch), "penalty": Penalty(torch.zeros(()), torch.ones(()))}

    both(network(), JointLoss(), batches(), run)


def test_gradients_add_to_what_is_there() -> None:
    model, micro = network(), batches()
    for _ in range(2):
        accumulate_backward(model, partial(forward, model), PearsonLoss(), micro)
    once = network()
    accumulate_backward(once, partial(forward, once), PearsonLoss(), micro)
    torch.testing.assert_close(gradients(model), [2 * g for g in gradients(once)])


def test_naive_accumulation_is_wrong() -> None:
    model, naive, micro = network(), network(), batches((6, 9, 5))
    accumulate_backward(model, partial(forward, model), PearsonLoss(), micro)
    for batch in micro:
        (PearsonLoss()(naive(batch["x"]), batch["target"]) * len(batch["x"]) / 20).backward()
    relative = (naive[0].weight.grad - model[0].weight.grad).norm() / model[0].weight.grad.norm()
    assert relative > 0.1


def test_dropout_is_replayed() -> None:
    model = network(nn.Dropout(0.4), nn.Linear(8, 8), nn.Dropout(0.2))
    both(model, JointLoss(), batches())
    still = copy.deepcopy(model).eval()
    still.zero_grad()
    accumulate_backward(still, partial(forward, still), JointLoss(), batches())
    assert not torch.allclose(still[0].weight.grad, model[0].weight.grad)


def test_random_numbers_drawn_in_backward_leave_the_state_where_the_first_pass_did() -> None:
    model = network(nn.Dropout(0.4))
    model[0].weight.register_hook(lambda grad: grad + 0 * torch.rand_like(grad))
    both(model, JointLoss(), batches())
    torch.manual_seed(7)
    accumulate_backward(model, partial(forward, model), JointLoss(), batches())
    after = torch.get_rng_state()
    torch.manual_seed(7)
    for batch in batches():
        model(batch["x"])
    assert torch.equal(after, torch.get_rng_state())


def test_buffers_end_updated_once() -> None:
    model = network(nn.BatchNorm1d(8), nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)))
    sizes = (6, 2, 9, 3)  # batch norm refuses one sample in training
    twin = both(model, JointLoss(), batches(sizes))
    assert model[2].num_batches_tracked.item() == len(sizes)
    for (name, buffer), expected in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert torch.equal(buffer, expected), name


class Drifting(nn.Module):
    """Replaces its buffer by a new tensor at each call, and depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.level = 0.5 * self.level + x.detach().mean()
        return x - self.level


def test_a_buffer_that_is_replaced_is_restored() -> None:
    model = network(Drifting())
    twin = both(model, JointLoss(), batches())
    assert torch.equal(model[2].level, twin[2].level)


def test_a_loss_inside_the_model_keeps_its_count_of_undefined_targets() -> None:
    model, micro = network(), batches()
    loss = JointLoss()
    model.register_module("loss", loss)
    run = partial(forward, model[:-1])
    for batch in micro:
        batch["target"][:, 0] = 1.0
    accumulate_backward(model, run, loss, micro)
    assert loss.undefined.item() == 1


def test_inside_autocast_weights_still_get_their_gradient() -> None:
    model = network().float()
    micro = [{key: value.float() for key, value in batch.items()} for batch in batches()]
    twin = copy.deepcopy(model)
    with torch.autocast("cpu", torch.bfloat16):
        accumulate_backward(model, partial(forward, model), PearsonLoss(), micro)
        one_backward(partial(forward, twin), PearsonLoss(), micro)
    torch.testing.assert_close(gradients(model), gradients(twin), rtol=0.05, atol=1e-3)
    assert model[0].weight.grad.norm() > 1e-2


@pytest.mark.parametrize("noise", [random.random, partial(torch.rand, (), generator=torch.Generator())])
def test_a_forward_that_cannot_be_replayed_is_refused(noise) -> None:
    model = network()

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"prediction": model(batch["x"] + 0.01 * noise()), "target": batch["target"]}

    with pytest.raises(InputError, match="same prediction for a micro-batch in both passes"):
        accumulate_backward(model, run, PearsonLoss(), batches())


def test_a_small_spread_far_from_zero_does_not_hide_noise() -> None:
    model = network().float()

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        moved = model(batch["x"].float()) * 1e-2 * (1 + random.random()) + 100
        return {"prediction": moved, "target": batch["target"].float()}

    with pytest.raises(InputError, match="in both passes"):
        accumulate_backward(model, run, PearsonLoss(), batches())


def test_nan_in_a_masked_prediction_counts_as_replayed() -> None:
    model, micro = network(), batches()
    blank = torch.zeros(len(micro[0]["x"]), 3, dtype=torch.float64).index_fill(0, torch.tensor([0]), torch.nan)
    micro[0]["mask"][0] = False

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        output = forward(model, batch, keys=("target", "mask"))
        return {**output, "prediction": output["prediction"] + blank} if batch is micro[0] else output

    value = accumulate_backward(model, run, JointLoss(), micro)
    assert value.isfinite()
    assert all(g.isfinite().all() for g in gradients(model))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.zeros(3), "must return a mapping"),
        ({"target": torch.zeros(3)}, "a tensor 'prediction'"),
        ({"prediction": torch.zeros(())}, "a tensor 'prediction'"),
        ({"prediction": torch.zeros(3), "weight": torch.ones(2)}, "'weight' must be a tensor with the 3 samples"),
        ({"prediction": torch.zeros(3), "penalty": torch.zeros(3)}, "'penalty': a Penalty or several"),
        ({"prediction": torch.zeros(3), "target": torch.zeros(3)}, "depend on parameters"),
    ],
)
def test_what_forward_may_not_return(output, message: str) -> None:
    with pytest.raises(InputError, match=message):
        accumulate_backward(nn.Linear(1, 1), lambda _: output, PearsonLoss(), [0, 1])


def test_micro_batches_must_agree_and_exist() -> None:
    model, micro = network(), batches()

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor | None]:
        return {**forward(model, batch), "mask": batch["mask"] if batch is micro[0] else None}

    with pytest.raises(InputError, match="same keys and types for every micro-batch"):
        accumulate_backward(model, run, PearsonLoss(), micro)
    with pytest.raises(InputError, match="at least one micro-batch"):
        accumulate_backward(model, run, PearsonLoss(), [])


def test_a_loss_without_gradient_is_refused() -> None:
    model = network()
    with pytest.raises(InputError, match="differentiable"):
        accumulate_backward(
            model, partial(forward, model), lambda prediction, target: (prediction - target).detach().sum(), batches()
        )
