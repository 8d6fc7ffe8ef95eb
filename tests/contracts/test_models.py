"""What every model keeps to: the registry says which there are, so that a new one is tested by existing."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import numpy as np
import pytest
import samples_data
import torch
from oracles.rows import randomised
from safetensors.torch import load, save
from torch import Tensor

from contracts.cases import CASES, CHOICES, PARTS, Case
from excora.data import sources
from excora.data.dataset import none_of
from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.models import Network, Output, default_model
from excora.models.files import restore
from excora.options import ByRows, Options
from excora.ragged import Ragged
from excora.settings import Recipe, Settings, Setup
from excora.training.building import build
from excora.training.evaluation import answers

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_choice = pytest.mark.parametrize("case", CHOICES, ids=str)


def objective(output: Output) -> Tensor:
    """A loss that everything in an output takes part in."""
    compared = 0.0 if output.compared is None else output.compared.square().sum()
    return output.prediction.square().sum() + compared + sum(penalty.sum for penalty in output.penalties)


# What it declares.


@every_case
def test_it_says_what_it_is(case):
    model = case.model
    assert model.name == case.name
    assert model.says
    assert "\n" not in model.says
    assert all(kind in sources for kind in model.reads)
    assert set(model.default_for) <= set(model.reads)
    assert default_model(case.kind) in {other.name for other in CASES if other.kind == case.kind}
    assert issubclass(model.Options, Options)
    assert all(field.metadata["help"] for field in dataclasses.fields(model.Options))


@every_case
def test_its_presets_are_settings(case):
    for name, named in case.model.presets.items():
        assert Settings(case.name, preset=name).named == named


@every_case
def test_its_recipe_is_one(case):
    assert set(case.model.recipe) <= set(Recipe.names())
    for rows in (1, 100, 10_000, 10**7):
        wanted = {name: x(rows) if isinstance(x, ByRows) else x for name, x in case.model.recipe.items()}
        recipe = Settings(model=case.name).settled(case.kind, rows).recipe
        assert recipe == Recipe(**wanted)


@every_choice
def test_its_options_survive_json(case):
    options = case.options()
    assert case.model.Options.from_dict(json.loads(json.dumps(options.to_dict()))) == options
    setup = Setup(case.name, options)
    assert Setup.from_dict(json.loads(json.dumps(setup.to_dict()))) == setup
    assert Settings(**setup.flat()).settled(case.kind, 100) == setup
    with pytest.raises(InputError, match="unknown options flavour"):
        case.model.Options.from_dict({"flavour": 1})


@every_choice
def test_its_preparation_is_one_that_the_source_knows(case):
    prepared = Preparation.fit(case.dataset(), PARTS.train, **case.model.prepares(case.options()))
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again.spec == prepared.spec
    case.model.check(again.spec, case.options())


@every_case
def test_samples_of_another_kind_are_refused(case):
    for kind in set(samples_data.KINDS) - set(case.model.reads):
        dataset = samples_data.KINDS[kind]()
        spec = Preparation.fit(dataset, PARTS.train).spec
        with pytest.raises(InputError, match=f"model '{case.name}' reads .*, and these are {kind}"):
            case.model.check(spec, case.options())


# A fresh network.


@every_choice
def test_its_start_depends_on_the_seed_alone(case):
    state = torch.get_rng_state()
    first, second, other = (
        build(case.dataset(), PARTS.train, case.setup(seed=seed)).network.state_dict() for seed in (3, 3, 4)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@every_choice
@pytest.mark.parametrize("targets", [1, 3])
def test_shapes(case, targets):
    built = case.built(targets=targets)
    inputs = built.features.read(PARTS.validation)
    output = built.network.eval()(inputs)
    n = len(PARTS.validation)
    assert output.prediction.shape == (n, targets)
    assert output.prediction.isfinite().all()
    for pooled in output.pooled.values():
        assert len(pooled.value) == n
        assert pooled.weights.shape == pooled.effective.shape
        assert len(pooled.weights) == (n if pooled.weights.dim() == 2 else int(pooled.real.sum()))
    assert all(part.shape == () for penalty in output.penalties for part in penalty)
    monitored = built.network.monitored
    assert monitored is None or all(hasattr(built.network, name) for name in monitored)


@every_choice
def test_a_sample_does_not_depend_on_its_batch(case):
    built = case.built()
    network = randomised(built.network, 0.1).eval()
    with torch.no_grad():
        together = network(built.features.read(PARTS.validation)).prediction
        alone = [network(built.features.read(PARTS.validation[k : k + 1])).prediction for k in range(6)]
    torch.testing.assert_close(torch.cat(alone), together[:6], rtol=1e-5, atol=1e-5)


@every_case
def test_a_batch_without_samples_has_no_predictions_and_gradients_of_zero(case):
    """What a rank has that got none of a small last batch."""
    built = case.built()
    inputs = none_of(built.features.read(PARTS.train))
    assert all((len(x.lengths) if isinstance(x, Ragged) else len(x)) == 0 for x in inputs.values())
    output = built.network.train()(inputs)
    assert output.prediction.shape == (0, 1)
    if case.model.trained:
        objective(output).backward()
    assert not any(p.grad is not None and p.grad.any() for p in built.network.parameters())
    assert all(float(penalty.count) == 0 for penalty in output.penalties)


@every_choice
def test_a_gradient_reaches_every_parameter_that_asks_for_one(case):
    built = case.built(targets=2)
    assert any(p.requires_grad for p in built.network.parameters()) == case.model.trained
    if not case.model.trained:
        return
    network = randomised(built.network, 0.3).train()
    objective(network(built.features.read(PARTS.train))).backward()
    wanted = {name for name, p in network.named_parameters() if p.requires_grad}
    assert {name for name, p in network.named_parameters() if p.grad is not None and p.grad.any()} == wanted


@every_case
def test_it_says_what_its_pools_did_with_each_sample(case):
    built = case.built()
    names = built.network.element_names(built.preparation.element_names)
    found = list(answers(built.network, built.features, PARTS.validation, case.setup()))
    assert [answer.position for answer in found] == PARTS.validation.tolist()
    for answer in found:
        for pool, attention in answer.attention.items():
            assert attention.weight.shape == attention.effective.shape, pool
            assert np.isfinite(attention.effective).all()
        first = next(iter(answer.attention.values()), None)
        assert first is None or names is None or len(first.weight) == len(names)


# Files.


def written(case: Case) -> tuple[Any, Network, dict[str, Tensor], Any]:
    """Samples, a network away from its start, and its tensors and description after their way through a file."""
    built = case.built()
    network = randomised(built.network, 0.1).eval()
    return built, network, load(save(network.state_dict())), json.loads(json.dumps(network.learned))


@every_choice
def test_it_comes_back_from_files(case):
    built, network, tensors, learned = written(case)
    again = restore(case.name, built.preparation.spec, case.options(), learned, tensors)
    assert not again.training
    assert again.learned == learned
    plain = built.preparation.features(case.dataset())
    with torch.no_grad():
        found = again(again.look_up(plain).read(PARTS.test)).prediction
        assert torch.equal(found, network(built.features.read(PARTS.test)).prediction)
    copied = [copy.deepcopy(network), pickle.loads(pickle.dumps(network))]
    for other in copied:
        with torch.no_grad():
            assert torch.equal(found, other(built.features.read(PARTS.test)).prediction)


def numbers_in(value: Any) -> list[tuple[Any, ...]]:
    """Where whole numbers stand in a description."""
    if isinstance(value, dict):
        return [(key, *rest) for key, part in value.items() for rest in numbers_in(part)]
    if isinstance(value, list):
        return [(k, *rest) for k, part in enumerate(value) for rest in numbers_in(part)]
    return [()] if type(value) is int else []


def with_number(value: Any, path: tuple[Any, ...], number: Any) -> Any:
    """The description with another one there."""
    if not path:
        return number
    found = copy.copy(value)
    found[path[0]] = with_number(value[path[0]], path[1:], number)
    return found


@pytest.fixture
def frugal(monkeypatch):
    """Makes a network that is built for a foreign file an error, unless it is one without memory."""

    def guard(case: Case) -> None:
        kind = type(case.model)
        original = kind.network

        def network(self: Any, *arguments: Any) -> Network:
            if torch.empty(0).device.type != "meta":
                raise MemoryError("this took memory before it was refused")
            return original(self, *arguments)

        monkeypatch.setattr(kind, "network", network)

    return guard


@every_choice
def test_foreign_descriptions_are_refused_before_memory_is_taken(case, frugal):
    built, _, tensors, learned = written(case)
    spec, options = built.preparation.spec, case.options()
    frugal(case)
    wrong = [None, [], {**learned, "surplus": 1}, dict.fromkeys(learned) or 7]
    huge = (-1, 10**12, 2**62, 10**30, 0.5, "x")
    wrong += [with_number(learned, path, number) for path in numbers_in(learned) for number in huge]
    for description in wrong:
        with pytest.raises(InputError):
            restore(case.name, spec, options, description, tensors)


@every_case
def test_foreign_weights_are_refused_before_memory_is_taken(case, frugal):
    built, _, tensors, learned = written(case)
    frugal(case)
    name = min(tensors)  # of no scorer: one of 0.1, of another shape, is taken
    renamed = {f"{key}x" if key == name else key: t for key, t in tensors.items()}
    for wrong in (
        {}, renamed, {**tensors, "surplus": torch.zeros(1)}, {key: t for key, t in tensors.items() if key != name},
        {**tensors, name: tensors[name].unsqueeze(0)}, {**tensors, name: tensors[name].to(torch.complex64)},
    ):  # fmt: skip
        with pytest.raises(InputError):
            restore(case.name, built.preparation.spec, case.options(), learned, wrong)


@every_case
def test_options_that_no_file_could_fill_are_refused(case):
    """Whatever whole number a stranger's options have, a network of another shape than the file's is never made."""
    built, _, tensors, learned = written(case)
    for field in dataclasses.fields(case.model.Options):
        for number in (10**3, 10**9, 2**40, 2**62) if field.type in ("int", int) else ():
            options = dataclasses.replace(case.options(), **{field.name: number})
            try:
                again = restore(case.name, built.preparation.spec, options, learned, tensors)
            except InputError:
                continue
            assert {key: t.shape for key, t in again.state_dict().items()} == {k: t.shape for k, t in tensors.items()}
