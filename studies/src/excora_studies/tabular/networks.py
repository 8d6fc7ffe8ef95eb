"""Our rows: the FT-Transformer with its ablations, attention over neighbours, and the one declared as "Excora"."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from excora import TabularRegressor
from excora.data.dataset import Features, Index
from excora.data.scaling import normal_scores, quantiles_of
from excora.data.splits import Split
from excora.data.table import TableFeatures, TableSpec
from excora.estimators.ensemble import COMMON, listed
from excora.models import Network, Samples, models
from excora.models.base import seeded
from excora.models.ft_transformer import FTTransformer
from excora.models.parts.retrieval import RetrievalNetwork
from excora.settings import Machine, Recipe
from excora.training import train as run
from excora.training.evaluation import outputs
from excora_studies.tabular.rows import Floats, Parameters, Part, Predict, Row
from excora_studies.tabular.table import DEFAULT, EXCORA, SEVERAL

#: Of a row's parameters, what :class:`Recipe` takes; the rest are options of the network.
TRAINING = (
    "correlation", "correlation_weight", "epochs", "batch_size", "learning_rate", "weight_decay", "schedule", "average",
    "clip",
)  # fmt: skip
RECIPE: Parameters = {"schedule": "cosine", "clip": 1.0, "batch_size": 256, "correlation_weight": 0.5}


def _rows(x: Floats) -> TableFeatures:
    n = len(x)
    return TableFeatures(x.astype(np.float32), np.zeros(x.shape, bool), np.zeros((n, 0), np.int64))


def _train(network: Network, features: Features, target: Floats, parameters: Parameters, seed: int) -> None:
    """Train in place on all rows, for all epochs: the step size ends with them, so the last is the one to keep."""
    given = {name: parameters[name] for name in TRAINING if name in parameters}
    recipe = Recipe(seed=seed, patience=given["epochs"], criterion="mse", **given)
    everything = Split(np.arange(len(target)), np.arange(0), np.arange(0))
    run(
        network,
        features,
        target[:, None].astype(np.float32),
        everything,
        recipe,
        Machine(accelerator="cpu"),
        progress=False,
    )


def predict(network: Network, features: Features, index: Index) -> Floats:
    """The samples of ``index``, (n,), on the standardised scale."""
    every = outputs(network, features, index, max_elements=Recipe().max_elements)
    return np.concatenate([output.prediction[:, 0].double().numpy() for _, output in every])


def fit_ft_transformer(
    parameters: Parameters,
    train: Part,
    validation: Part | None,  # noqa: ARG001  (the epochs are given)
    seed: int,
) -> tuple[Predict, Parameters]:
    """An FT-Transformer of the package on the standardised features."""
    options = {name: value for name, value in parameters.items() if name not in TRAINING}
    network = ft_transformer(TableSpec(targets=1, numeric=train.x.shape[1]), options, seed)
    _train(network, _rows(train.x), train.y, parameters, seed)
    return lambda x: predict(network, _rows(x), np.arange(len(x))), parameters


def ft_transformer(spec: TableSpec, options: Parameters, seed: int) -> FTTransformer:
    """Every variant of one seed starts from the weights of the plain one: gain and temperature are all it adds.

    >>> spec, options = TableSpec(targets=1, numeric=2), {"dim": 8, "heads": 2, "blocks": 1}
    >>> x = {"numeric": torch.randn(3, 2), "missing": torch.zeros(3, 2, dtype=torch.bool)}
    >>> x["codes"] = torch.zeros(3, 0, dtype=torch.long)
    >>> first, second = (ft_transformer(spec, options | {"attention": a}, 0).eval()(x) for a in ("softmax", "eca"))
    >>> torch.allclose(first.prediction, second.prediction, atol=1e-6)
    True
    """
    shape = {name: options[name] for name in ("dim", "heads", "blocks")}
    with seeded(seed):
        plain = FTTransformer(spec, attention="softmax", **shape)
        network = FTTransformer(spec, **options)
    network.load_state_dict(plain.state_dict(), strict=False)
    return network


def fit_retrieval(
    parameters: Parameters,
    train: Part,
    validation: Part | None,  # noqa: ARG001
    seed: int,
) -> tuple[Predict, Parameters]:
    """Attention over the nearest rows of the training part."""
    names = {name: "layers" if name == "blocks" else name for name in parameters if name not in TRAINING}
    model = models["retrieval"]
    options = model.Options(**{names[name]: parameters[name] for name in names})
    scale = _scaling(parameters["scaling"], train.x)
    target = train.y[:, None].astype(np.float32)
    samples = Samples(_rows(scale(train.x)), target, np.arange(len(target)), group=train.group)
    network, features = model.build(TableSpec(targets=1, numeric=train.x.shape[1]), samples, options, seed=seed)
    assert isinstance(network, RetrievalNetwork)
    _start_alike(network, seed)
    _train(network, features, train.y, parameters, seed)
    return lambda x: predict(network, network.look_up(_rows(scale(x))), np.arange(len(x))), parameters


@torch.no_grad()
def _start_alike(network: RetrievalNetwork, seed: int) -> None:
    """Every pool of one seed starts from the weights of the network with softmax; the linear key is the data's own."""
    options = network.options | {"pool": "softmax"}
    with seeded(seed):
        plain = dict(RetrievalNetwork(network.spec, **options).named_parameters())
    for name, parameter in network.named_parameters():
        if name in plain and name != "encoder.linear_key":
            parameter.copy_(plain[name])


def _scaling(kind: str, x: Floats) -> Predict:
    """The features as they are, or by their ranks in the training part, as normal quantiles."""
    if kind == "standard":
        return lambda given: given
    known = [quantiles_of(column) for column in x.T]
    return lambda given: np.stack([normal_scores(*pair) for pair in zip(given.T, known, strict=True)], 1)


def ft_rows(*, dim: int, heads: int, blocks: int, epochs: int) -> dict[str, Row]:
    """The FT-Transformer and its variants, all with the settings that suit plain softmax best."""
    plain: Parameters = RECIPE | {
        "dim": dim, "heads": heads, "blocks": blocks, "epochs": epochs, "attention": "softmax", "correlation": "none",
        "feedforward_dropout": 0.1, "learning_rate": 1e-3, "weight_decay": 1e-5,
    }  # fmt: skip
    space = {
        "learning_rate": (5e-4, 1e-3, 2e-3), "feedforward_dropout": (0.0, 0.1, 0.2), "weight_decay": (1e-5, 1e-2),
    }  # fmt: skip
    ours: Parameters = {"attention": "eca", "correlation": "dnpl"}
    paper: Parameters = {"attention": "eca-paper", "correlation": "dnpl"}
    changes: dict[str, Parameters] = {
        "FT + PCC loss": {"correlation": "pearson"},
        "FT + ECA (paper)": paper,
        "FT + ECA (paper, literal dispersion)": paper | {"scale": "paper"},
        "FT + ECA (ours)": ours,
        "FT + ECA w/o SRA": ours | {"residual": None},
        "FT + ECA w/o DATS": ours | {"temperature": None},
        "FT + ECA w/o DNPL": ours | {"correlation": "pearson"},
    }
    base = "FT-Transformer"
    rows = {name: Row(fit_ft_transformer, plain, {}, tuned_as=base, changes=change) for name, change in changes.items()}
    return {base: Row(fit_ft_transformer, plain, space), **rows}


def retrieval_rows(*, epochs: int) -> dict[str, Row]:
    """Attention over neighbours with softmax and with ECA, both with the settings that suit softmax best.

    The trials are those of :class:`excora.TabularEnsemble`.
    """
    common = {name: value for name, value in COMMON.items() if name not in ("model", "criterion")}
    plain = _network_options(common) | {"pool": "softmax", "epochs": epochs}
    trials = tuple(_network_options(trial) for trial in listed(epochs))
    base = "retrieval, softmax"
    ours = Row(fit_retrieval, plain, {}, tuned_as=base, changes={"pool": "eca"})
    return {base: Row(fit_retrieval, plain, {}, listed=trials), "retrieval, ECA": ours}


def _network_options(options: Parameters) -> Parameters:
    """Of a regressor, in the words of :class:`RetrievalNetwork`."""
    return {"blocks" if name == "layers" else name: value for name, value in options.items()}


def fit_steady(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:  # noqa: ARG001
    """The rule for rows in time order, on the target's own scale."""
    from excora_studies.steady import SteadyRegressor

    mean, std = train.scale
    model = SteadyRegressor(seed=seed, **parameters).fit(train.x, train.y * std + mean, time=train.time)
    return lambda x: (model.predict(x) - mean) / std, parameters


def declared_rows(ours: dict[str, Row], split: str, *, members: int) -> dict[str, Row]:
    """The row "Excora", which is compared with peers, or its halves: the default, several attentions over neighbours.

    In time order it is :class:`SteadyRegressor`, a rule that was chosen at rolling origins within the training and
    validation part, after attention over neighbours had done badly on this very test part.
    """
    default = {DEFAULT: Row(fit_default, {}, {}, tuned=False)}
    if split == "time":
        return {EXCORA: Row(fit_steady, {}, {}), **default}
    return {SEVERAL: dataclasses.replace(ours["retrieval, ECA"], members=members), **default}


def fit_default(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:  # noqa: ARG001
    """What a user has who sets nothing; all members, however busy the machine is."""
    model = TabularRegressor(random_state=seed, seconds=1e6, **parameters).fit(train.x, train.y, groups=train.group)
    return lambda x: np.asarray(model.predict(x), np.float64), parameters
