"""What a sample is without some of its elements, by kind: columns, elements of a bag, words of a clip, patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from excora.application.run import Run
from excora.data.dataset import Features
from excora.data.table import TableFeatures
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.explaining import beside_pool
from excora.errors import InputError
from excora.models import Network
from excora.pooling import Pooled
from excora.ragged import Ragged

#: How often a category that is left out is drawn anew; the predictions are averaged.
DRAWS = 16
#: Elements of a sample that may be left out: the heaviest.
HEAVIEST = 40

Mask = NDArray[np.bool_]
Weights = NDArray[np.float64]


class Case(NamedTuple):
    """A sample to explain."""

    predict: Callable[[Mask], float]  #: from which elements are there
    names: list[str]  #: of the elements
    attention: Any  #: as :func:`excora.diagnosis.explaining.explain` takes it; None: the model does not attend to them


def case_of(run: Run, features: Features, number: int, place: int) -> Case:
    """Sample ``number`` of prepared samples, and target ``place``, for a run's network."""
    kinds = {"table": _row, "modalities": _clip, "spatial": _spot}
    return kinds.get(run.preparation.kind, _bag)(run.network, features, number, run, place)


def _answer(run: Run, inputs: Any, place: int) -> float:
    """The mean prediction of some inputs, in the units of the target."""
    return float(run.preparation.unscale(run.network(inputs).prediction.double().numpy())[:, place].mean())


def _row(network: Network, features: Features, number: int, run: Run, place: int) -> Case:
    """A row of a table: numbers go to their training mean, categories to others of training, averaged."""
    spec: Any = run.preparation.spec
    content: Any = run.preparation.content
    row: Any = features.read(np.array([number]))
    names = run.preparation.element_names or []
    drawn = content.drawn(DRAWS)

    def predict(there: Mask) -> float:
        known = there[: spec.numeric]
        gone = ~there[spec.numeric :]
        times = DRAWS if gone.any() else 1
        numeric = np.where(known, row["numeric"].numpy(), 0.0).astype(np.float32).repeat(times, 0)
        missing = (row["missing"].numpy() & known).repeat(times, 0)
        codes = np.where(gone, drawn[:times], row["codes"].numpy()).astype(np.int64)
        rows = network.look_up(TableFeatures(numeric, missing, codes))
        return _answer(run, rows.read(np.arange(times)), place)

    inputs = network.look_up(features).read(np.array([number]))
    return Case(predict, list(names), _between_columns(network, inputs, len(names)))


def _between_columns(network: Network, inputs: Any, elements: int) -> Any:
    """Layers (elements + 1, elements + 1) between the elements and what is read, or a pool; None: there is neither."""
    found: list[Any] = []
    maps = [one for one in attention_maps(network, lambda: found.append(network(inputs))) if one.shape[0] == 1]
    layers = [one[0].double().numpy() for one in maps if one.dim() == 4]
    whole = [one for one in layers if one.shape[1:] == (elements + 1, elements + 1)]
    pooled = next(iter(found[0].pooled.values()), None)
    if whole:
        return whole
    if pooled is None or pooled.effective.numel() != elements:
        return None
    between = [one.mean(0) for one in layers if one.shape[1:] == (elements, elements)]
    return beside_pool(between[-1] if between else None, _effective(pooled))


def _effective(pooled: Pooled) -> Weights:
    weights: Weights = pooled.effective.flatten().double().numpy()
    return weights


def _heavy(weights: Weights) -> NDArray[np.intp]:
    """The places of the heaviest, in order."""
    return np.sort(np.argsort(-np.abs(weights), kind="stable")[:HEAVIEST])


def _bag(network: Network, features: Features, number: int, run: Run, place: int) -> Case:
    """A bag: elements that are left out are not there; without any, one at the mean of training is."""
    inputs: Any = network.look_up(features).read(np.array([number]))
    pooled = next(iter(network(inputs).pooled.values()), None)
    if pooled is None:
        raise InputError(f"the model {run.setup.model!r} has no pool: there are no elements to leave out")
    weight = _effective(pooled)
    heavy = _heavy(weight)

    def predict(there: Mask) -> float:
        keep = torch.ones(len(weight), dtype=torch.bool)
        keep[torch.from_numpy(heavy[~there])] = False
        if not keep.any():
            keep[0] = True
            return _answer(run, {name: _some(part, keep, 0.0) for name, part in inputs.items()}, place)
        return _answer(run, {name: _some(part, keep) for name, part in inputs.items()}, place)

    return Case(predict, [f"element {i}" for i in heavy], beside_pool(None, weight[heavy]))


def _some(part: Any, keep: torch.Tensor, times: float = 1.0) -> Any:
    """A bag without some of its elements, the others scaled: one alone is a tensor (1, elements, ...), or ragged."""
    if isinstance(part, Ragged):
        return Ragged(part.values[keep] * times, keep.sum().view(1))
    return part[:, keep] * times if part.dim() > 1 and part.shape[1] == len(keep) else part


def _clip(network: Network, features: Features, number: int, run: Run, place: int) -> Case:
    """A clip: words go to the mean of training, ids are cut out; without a text, steps of the first modality."""
    spec, inputs = run.preparation.spec, dict(network.look_up(features).read(np.array([number])))
    one: Any = spec["text"] if "text" in spec else spec.modalities[0]  # type: ignore[operator, index, attr-defined]
    key, steps = ("text_ids" if one.ids else one.name), int(inputs[f"{one.name}_length"])  # type: ignore[arg-type]
    values: Any = inputs[key]
    name: Any = getattr(features, "element_name", lambda *_: "")
    words = _told_apart([name(one.name, number, k) for k in range(steps)], one.name)
    pooled = network(inputs).pooled.get(one.name)
    weight = None if pooled is None else _effective(pooled)[network.leading :][:steps]
    weight = weight if weight is not None and len(weight) == steps else None
    heavy = np.arange(min(steps, HEAVIEST)) if weight is None else _heavy(weight)
    mean = _mean_step(run, one)

    def predict(there: Mask) -> float:
        gone, changed = torch.from_numpy(heavy[~there]), values.clone()
        if not one.ids:
            changed[0, gone] = mean
            return _answer(run, {**inputs, key: changed}, place)
        kept = torch.ones(values.shape[1], dtype=torch.bool)
        kept[gone] = False
        changed = torch.cat([values[:, kept], values.new_zeros(1, len(gone))], 1)
        length = torch.tensor([max(steps - len(gone), 1)])  # without any, one that is padding is read
        return _answer(run, {**inputs, key: changed, "text_length": length}, place)

    attention = None if weight is None else beside_pool(None, weight[heavy])
    return Case(predict, [words[k] for k in heavy], attention)


def _told_apart(words: list[str], modality: str) -> list[str]:
    """Words by themselves, and with their place where a clip has them twice; steps without a word by their place.

    >>> _told_apart(["so", "so", "good", "3"], "text")
    ['so (word 1)', 'so (word 2)', 'good', 'text step 4']
    """
    nameless = [word in ("", str(k)) for k, word in enumerate(words)]
    return [
        f"{modality} step {k + 1}" if none else f"{word} (word {k + 1})" if words.count(word) > 1 else word
        for k, (word, none) in enumerate(zip(words, nameless, strict=True))
    ]


def _mean_step(run: Run, one: Any) -> torch.Tensor:
    """The mean of training as the network reads it: 0 where features are standardised."""
    content: Any = run.preparation.content
    if one.ids or content.scaling == "standard":
        return torch.zeros(one.width)
    return torch.tensor(content.statistics[one.name].mean, dtype=torch.float32)


def _spot(network: Network, features: Features, number: int, run: Run, place: int) -> Case:
    """A spot: vectors of its patches and neighbours go to the mean of training; of a picture, to its mean colour."""
    inputs: Any = dict(network.look_up(features).read(np.array([number])))
    found = network(inputs).pooled
    weights = {name: _effective(found[name]) for name in ("patches", "neighbours") if name in found}
    if not weights:
        raise InputError(f"the model {run.setup.model!r} weighs no patches: there are none to leave out")
    weight = np.concatenate([*weights.values()])
    heavy, own = _heavy(weight), len(next(iter(weights.values())))
    cells: Any = inputs.get("elements")
    cells = cells.values if isinstance(cells, Ragged) else None if cells is None else cells[0]

    def predict(there: Mask) -> float:
        gone = heavy[~there]
        if cells is None:
            return _answer(run, {**inputs, "window": _blotted(inputs["window"], gone, own)}, place)
        changed = cells.clone()
        changed[torch.from_numpy(gone)] = 0.0
        whole = inputs["elements"]
        again = Ragged(changed, whole.lengths) if isinstance(whole, Ragged) else changed.unsqueeze(0)
        return _answer(run, {**inputs, "elements": again}, place)

    return Case(predict, [_part_name(k, own) for k in heavy], beside_pool(None, weight[heavy]))


def _blotted(window: torch.Tensor, gone: NDArray[np.intp], patches: int) -> torch.Tensor:
    """A picture (1, 3, side, side) of patches by patches, some of them at the mean colour of all."""
    across = round(patches**0.5)
    size, changed = window.shape[-1] // across, window.clone()
    for k in gone.tolist():
        y, x = (k // across) * size, (k % across) * size
        changed[..., y : y + size, x : x + size] = window.mean((2, 3), keepdim=True)
    return changed


def _part_name(k: int, own: int) -> str:
    """Patches by row and column from the top left, neighbours by their rank in distance."""
    if k >= own:
        return f"neighbour {k - own + 1}"
    side = round(own**0.5)
    if own == 1:
        return "the spot"
    return f"patch {k // side + 1}, {k % side + 1}" if side * side == own else f"patch {k + 1}"
