"""EGN against its oracle, the number of its parameters, and its read-outs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import samples_data
import torch
from oracles import egn as oracle
from oracles.rows import randomised
from safetensors.torch import load, save

from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.models import Samples, models
from excora.models.egn import EGN
from excora.models.files import restore
from excora.settings import Settings

SMALL = {
    "width": 5, "targets": 3, "patches": 6, "size": 4, "dim": 8, "layers": 4, "heads": 2, "head_width": 3, "hidden": 12,
    "exemplar_heads": 2, "exemplar_width": 5,
}  # fmt: skip
FORMS = {
    "softmax": {},
    "eca": {"residual": "free", "temperature": "learned", "cap": 4.0},
    "eca-paper": {"residual": "paper", "temperature": (0.5, 1.0), "cap": 2.0},
}


def inputs(n: int = 3, exemplars: int = 4, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    """Windows of 8 x 12 pixels: 6 patches of 4 x 4."""
    torch.manual_seed(1)
    found = {
        "window": torch.randn(n, 3, 8, 12), "feature": torch.randn(n, 5),
        "exemplar_features": torch.randn(n, exemplars, 5), "exemplar_targets": torch.randn(n, exemplars, 3),
    }  # fmt: skip
    return {name: x.to(dtype) for name, x in found.items()}


def made(**changes: object) -> EGN:
    torch.manual_seed(0)
    return randomised(EGN(**(SMALL | changes)).double(), 0.3).eval()


@pytest.mark.parametrize("pool", FORMS)
@pytest.mark.parametrize("alone", [False, True])
def test_it_is_the_oracle_to_1e_10(pool, alone):
    network, given = made(pool=pool, alone=alone), inputs()
    state = {name: t.numpy() for name, t in network.state_dict().items()}
    shape = {"size": 4, "layers": 4, "heads": 2, "every": 2, "exemplar_heads": 2, "projector": 2}
    with torch.no_grad():
        output = network(given)
    read = output.pooled["patches"]
    for k in range(3):
        wanted = oracle.forward(state, *(x[k].numpy() for x in given.values()), **shape, form=FORMS[pool], alone=alone)
        np.testing.assert_allclose(output.prediction[k], wanted["prediction"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(read.value[k], wanted["value"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(read.weights[k], wanted["weights"], rtol=0, atol=1e-10)
        if pool != "softmax":
            assert read.details["gamma"][k].item() == pytest.approx(wanted["gamma"], abs=1e-12)
            assert read.details["temperature"][k].item() == pytest.approx(wanted["temperature"], abs=1e-12)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 143_846_650),
        ({"exemplar_heads": 8}, 133_356_794),
        ({"dim": 128, "layers": 4, "heads": 4, "hidden": 512, "exemplar_heads": 4, "exemplar_width": 32}, 2_555_898),
        ({"dim": 256, "layers": 4, "heads": 8, "hidden": 1024, "exemplar_heads": 8, "exemplar_width": 32}, 7_831_034),
    ],
)
def test_it_has_the_parameters_of_the_reference(options, count):
    with torch.device("meta"):
        network = EGN(width=2048, targets=250, **options)
    assert sum(p.numel() for p in network.parameters()) == count


def test_the_preset_is_the_network_of_the_paper():
    setup = Settings("egn", preset="paper").settled("spatial", 100)
    spec = SimpleNamespace(width=2048, targets=250)
    with torch.device("meta"):
        network = models["egn"].network(spec, setup.options, {"exemplars": 100, "patches": 64})
    assert sum(p.numel() for p in network.parameters()) == 143_846_650
    assert network.count == 9
    assert (setup.recipe.epochs, setup.recipe.batch_size, setup.recipe.learning_rate) == (50, 32, 5e-4)
    assert (setup.recipe.correlation, setup.recipe.correlation_weight) == ("pearson", 0.5)


def test_the_reference_never_trains_four_million_of_them():
    with torch.device("meta"):
        network = EGN(width=2048, targets=250)
    assert sum(p.numel() for p in network.parameters() if not p.requires_grad) == 4_200_448


def test_eca_starts_as_egn():
    torch.manual_seed(0)
    plain = EGN(**SMALL).double()
    ours = EGN(**SMALL, pool="eca").double()
    ours.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(ours(inputs()).prediction, plain(inputs()).prediction)
    assert set(ours.pool(*torch.randn(2, 3, 6, 8, dtype=torch.float64)).details["gamma"].tolist()) == {1.0}


def test_the_effective_weights_are_what_they_say_on_average():
    """One channel has its own weights; where all channels agree the value is their sum over the patches."""
    pool = made(pool="eca").pool
    with torch.no_grad():
        pool.head.weight.copy_(torch.ones(8, 8) / 8)
        pool.head.bias.zero_()
    x, before = torch.randn(2, 3, 6, 8, dtype=torch.float64)
    pooled = pool(x, before)
    torch.testing.assert_close(pooled.value, torch.bmm(pooled.effective.unsqueeze(1), pool.head(x)).squeeze(1))


def test_the_temperature_follows_the_patches_before_positions():
    network = made(pool="eca")
    with torch.no_grad():
        network.pool.extrapolation.temperature.slope.fill_(1.0)
        flat = inputs() | {"window": torch.ones(3, 3, 8, 12, dtype=torch.float64)}
        details = network(flat).pooled["patches"].details
    assert details["dispersion"].abs().max() < 1e-12


@pytest.mark.parametrize("pool", ["mean", "softmax", "eca"])
def test_an_exemplar_that_is_not_real_does_not_count(pool):
    network, given = made(exemplar_pool=pool), inputs(exemplars=4)
    mask = torch.tensor([[True, True, True, False]] * 3)
    fewer = given | {name: x[:, :3] for name, x in given.items() if name.startswith("exemplar")}
    given["exemplar_targets"][:, 3] = 1e3
    found = network(given | {"exemplar_mask": mask})
    torch.testing.assert_close(found.prediction, network(fewer).prediction, rtol=1e-12, atol=1e-12)
    assert found.pooled["exemplars"].weights[:, 3].abs().max() == 0


def test_patches_may_be_features():
    network = made(size=0)
    given = inputs() | {"elements": torch.randn(3, 6, 5, dtype=torch.float64)}
    assert network(given).prediction.shape == (3, 3)
    with pytest.raises(InputError, match="windows of 6 patches of 5 numbers, got"):
        network(given | {"elements": torch.randn(3, 7, 5, dtype=torch.float64)})


def test_its_patches_have_names():
    assert made().element_names(None)[-1] == "patch 6"
    assert made(patches=4).element_names(None) == ["patch 1, 1", "patch 1, 2", "patch 2, 1", "patch 2, 2"]


def test_it_may_re_rank_its_exemplars():
    """All else starts as without; what was learned comes back from a file and stays when it goes on."""
    dataset, model, rows = samples_data.spatial(targets=2), models["egn"], np.arange(42)
    settings = {**model.small, "patches": "grid"}
    plain, options = model.Options(**settings), model.Options(**settings, rerank=True)
    assert model.Options.from_dict(settings) == plain
    prepared = Preparation.fit(dataset, rows, **model.prepares(plain))
    samples = Samples(prepared.features(dataset), prepared.scale(dataset.target), rows)
    (first, near), (second, best) = (model.build(prepared.spec, samples, one, seed=0) for one in (plain, options))
    before, after = first.state_dict(), second.state_dict()
    assert all(torch.equal(t, after[name]) for name, t in before.items())
    assert all(name.startswith(("bank.company.", "bank.scale")) for name in set(after) - set(before))
    assert not torch.equal(near.found, best.found)
    assert best.allowed.all()
    again = restore("egn", prepared.spec, options, second.learned, load(save(after)))
    assert torch.equal(again.look_up(prepared.features(dataset)).found, best.found)
    on, _ = model.go_on(second, prepared.spec, samples._replace(train=np.arange(10, 50)), options)
    assert torch.equal(on.bank.company.reranker.inner.weight, second.bank.company.reranker.inner.weight)
