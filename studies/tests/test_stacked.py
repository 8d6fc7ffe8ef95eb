"""Stacked training is separate training: the batched module against the real modules, loss and optimiser."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from excora.tasks.plateau import PlateauTask
from excora_studies.stacked import Bags, Stack, Variant, scores
from excora_studies.training import Look, Protocol, sample, train

VARIANTS = [
    Variant(name="softmax", pool="softmax", correlation="pcc"),
    Variant(name="mean", pool="mean", correlation="pcc"),
    Variant(name="ours", pool="eca"),
    Variant(name="paper", pool="paper"),
    Variant(name="paper, other constants", pool="paper", options={"t_min": 0.0, "beta": 3.0, "gamma_max": 1.8}),
    Variant(name="MSE only", pool="eca", correlation=None),
    Variant(name="w/o SRA", pool="eca", options={"residual": None}),
    Variant(name="w/o DATS", pool="eca", options={"temperature": None, "hidden": 4, "cap": 3.0, "penalty_weight": 0.1}),
]
SEEDS = [0, 3]


def data(bags: int = 60) -> list[tuple[Tensor, Tensor]]:
    tasks = [PlateauTask(kappa=2.0, dim=5, elements=4), PlateauTask(kappa=0.5, eta=1.5, dim=5, elements=4)]
    return [task.sample(bags, seed=seed, dtype=torch.float64) for task, seed in zip(tasks, SEEDS, strict=True)]


def predict(model: nn.ModuleDict, h: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    pooled = model["pool"](h)
    return model["head"](pooled.value).squeeze(1), pooled.penalty


@pytest.fixture(scope="module")
def trained() -> tuple[Stack, list[tuple[Tensor, Tensor]]]:
    """A stack after 20 steps of Adam on halves of the data in turn."""
    samples = data()
    stack, bags = Stack(VARIANTS, SEEDS, 5).double(), Bags.of(samples)
    optimizer = torch.optim.Adam(stack.parameters(), lr=0.02)
    for step in range(20):
        batch = bags.take(torch.arange(30) + 30 * (step % 2))
        optimizer.zero_grad()
        stack.loss(stack(batch), batch.target).backward()
        optimizer.step()
    return stack, samples


@pytest.mark.parametrize("group", range(len(SEEDS)))
@pytest.mark.parametrize("variant", range(len(VARIANTS)), ids=[v.name for v in VARIANTS])
def test_stacked_training_equals_separate_training(
    trained: tuple[Stack, list[tuple[Tensor, Tensor]]], group: int, variant: int
) -> None:
    stack, samples = trained
    h, y = samples[group]
    alone = VARIANTS[variant].model(5, SEEDS[group]).double()
    start = [parameter.clone() for parameter in alone.parameters()]
    loss, optimizer = VARIANTS[variant].loss(), torch.optim.Adam(alone.parameters(), lr=0.02)
    for step in range(20):
        half = slice(30 * (step % 2), 30 * (step % 2) + 30)
        prediction, penalty = predict(alone, h[half])
        optimizer.zero_grad()
        loss(prediction, y[half], penalty=penalty).backward()
        optimizer.step()
    together = stack.model(group, variant).double()
    for name, parameter in alone.named_parameters():
        if name != "pool.scorer.bias":  # no output depends on it: softmax does not see a shift
            other = together.get_parameter(name)
            torch.testing.assert_close(other, parameter, rtol=1e-7, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")
    expected, _ = predict(alone, h)
    torch.testing.assert_close(stack(Bags.of(samples)).prediction[group, variant], expected, rtol=1e-8, atol=1e-8)
    moved = sum((a - b).abs().sum() for a, b in zip(start, alone.parameters(), strict=True))
    assert moved > 0.2


def test_loss_is_the_sum_of_the_real_losses() -> None:
    samples = data()
    stack = Stack(VARIANTS, SEEDS, 5).double()
    expected = torch.zeros((), dtype=torch.float64)
    for group, (h, y) in enumerate(samples):
        for variant, spec in enumerate(VARIANTS):
            prediction, penalty = predict(stack.model(group, variant).double(), h)
            expected += spec.loss()(prediction, y, penalty=penalty)
    bags = Bags.of(samples)
    torch.testing.assert_close(stack.loss(stack(bags), bags.target), expected, rtol=1e-7, atol=0.0)


def test_head_and_scorer_start_alike_in_all_variants() -> None:
    stack = Stack(VARIANTS, SEEDS, 5)
    for name in ("head_weight", "head_bias", "scorer"):
        parameter = stack.stacked[name]
        assert torch.equal(parameter, parameter[:, :1].expand_as(parameter))
        assert not torch.equal(parameter[0], parameter[1])


def test_keep_where_takes_the_chosen_models_only() -> None:
    stack = Stack(VARIANTS, SEEDS, 5)
    before = stack.snapshot()
    with torch.no_grad():
        for parameter in stack.stacked.values():
            parameter.add_(1.0)
    kept = dict(before)
    better = torch.zeros(2, len(VARIANTS), dtype=torch.bool)
    better[1, 2] = True
    stack.keep_where(better, kept)
    stack.restore(kept)
    for group in range(2):
        for variant in range(len(VARIANTS)):
            shift = 1.0 if (group, variant) == (1, 2) else 0.0
            fresh = VARIANTS[variant].model(5, SEEDS[group])
            for name, parameter in stack.model(group, variant).named_parameters():
                if name != "pool.scorer.bias":
                    torch.testing.assert_close(parameter, fresh.get_parameter(name) + shift)


def test_scores_are_correlation_and_squared_error() -> None:
    prediction, target = torch.randn(2, 3, 50), torch.randn(2, 50)
    prediction[0, 0] = 1.0
    pcc, mse = scores(prediction, target)
    expected = torch.corrcoef(torch.stack([prediction[1, 2], target[1]]).double())[0, 1]
    torch.testing.assert_close(pcc[1, 2], expected)
    torch.testing.assert_close(mse[1, 2], (prediction[1, 2] - target[1]).double().square().mean())
    assert pcc[0, 0] == 0.0  # constant


def test_mean_pools_alone_need_no_scorer() -> None:
    samples = data()
    stack = Stack([VARIANTS[1]], SEEDS, 5).double()
    expected, _ = predict(stack.model(0, 0).double(), samples[0][0])
    output = stack(Bags.of(samples))
    torch.testing.assert_close(output.prediction[0, 0], expected)
    assert output.gamma.shape == (2, 0, 60)
    assert stack.loss(output, Bags.of(samples).target).isfinite()


def test_training_leaves_each_model_at_its_best_validation_epoch() -> None:
    task = PlateauTask(kappa=2.0)
    protocol = Protocol(epochs=12, batch=50, train=200, validation=40, test=10)
    training, validation, _ = sample([task], [0], protocol)
    stack = Stack(VARIANTS[:3], [0], task.dim)
    seen: dict[int, Tensor] = {}
    ticks: list[int] = []

    def observe(look: object) -> None:
        seen[look.epoch] = scores(look.validation, validation.target)[0]  # type: ignore[attr-defined]

    rates = torch.full((1, 1), 0.05)
    chosen = train(stack, (training, validation), protocol, rates, observe=observe, tick=lambda: ticks.append(1))
    final, _ = scores(stack(validation).prediction.detach(), validation.target)
    assert list(seen) == list(range(13))
    assert len(ticks) == 12
    for variant in range(3):
        epoch = int(chosen[0, variant])
        assert epoch == max(seen, key=lambda e, v=variant: seen[e][0, v].item())
        torch.testing.assert_close(final[0, variant], seen[epoch][0, variant])


def test_each_model_trains_at_its_own_rate() -> None:
    task, rates = PlateauTask(kappa=2.0, dim=5, elements=4), torch.tensor([[0.01, 0.05, 0.2]])
    protocol = Protocol(epochs=3, batch=20, train=60, validation=20, test=2)
    training, validation, _ = sample([task], [0], protocol)
    stack, ends = Stack(VARIANTS[:3], [0], 5), []

    def observe(look: Look) -> None:
        ends[:] = [look.stack.model(0, variant) for variant in range(3)]

    train(stack, (training, validation), protocol, rates, observe=observe)
    h, y = training.elements[0].transpose(0, 1), training.target[0]
    for variant, rate in enumerate(rates[0].tolist()):
        alone, generator = VARIANTS[variant].model(5, 0), torch.Generator().manual_seed(0)
        loss, optimizer = VARIANTS[variant].loss(), torch.optim.Adam(alone.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
        for index in (part for _ in range(3) for part in torch.randperm(60, generator=generator).split(20)):
            prediction, penalty = predict(alone, h[index])
            optimizer.zero_grad()
            loss(prediction, y[index], penalty=penalty).backward()
            optimizer.step()
            schedule.step()
        for name, parameter in alone.named_parameters():
            if name != "pool.scorer.bias":
                torch.testing.assert_close(ends[variant].get_parameter(name), parameter, rtol=1e-4, atol=1e-5)
