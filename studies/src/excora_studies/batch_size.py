"""Study ``batch-size`` (Fig 10): the plateau at batch sizes 32, 64 and 128.

The ``synthetic`` task at sigma~ = 0.24, softmax attention with the joint loss and our pool, every epoch looked at, the
detector's rule applied while training. All else is equal, so a smaller batch takes more steps an epoch: an arm has one
learning rate for all sizes, the one with the highest mean validation PCC over them.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from excora.tasks.plateau import LEVELS
from excora.theory import gradient_ratio
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table, with_spread
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.stacked import Stack, Variant, scores
from excora_studies.synthetic import spread, tasks
from excora_studies.training import OURS, SOFTMAX, Look, Protocol, sample, train
from excora_studies.tuning import TUNING_SEED, trials
from excora_studies.watch import watch

LEVEL = 1  # sigma~ = 0.24
SIZES = (32, 64, 128)
VARIANTS = (Variant(name=SOFTMAX, pool="softmax", correlation="pcc"), Variant(name=OURS, pool="eca"))


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on; ``data`` is not used."""
    protocol = Protocol.quick(15) if preset == "quick" else Protocol(epochs=100)
    protocol = dataclasses.replace(protocol, looks=protocol.epochs)
    return {
        "sigma~": LEVELS[LEVEL],
        "batch": list(SIZES),
        "seeds": list(range(seeds or (1 if preset == "quick" else 3))),
        "tuning_seed": TUNING_SEED,
        "protocol": dataclasses.asdict(protocol),
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """The learning rates first, then a chunk for each batch size, all seeds in it."""
    protocol = Protocol(**configuration["protocol"])

    def tuning(_: Results, tick: Tick) -> Any:
        return _tune(protocol, tick)

    def size_chunk(size: int) -> Chunk:
        own = dataclasses.replace(protocol, batch=size)

        def compute(done: Results, tick: Tick) -> Any:
            return _train(configuration["seeds"], done["tuning"]["rates"], own, tick)

        return Chunk(f"batch {size}", protocol.epochs, compute)

    return [Chunk("tuning", protocol.epochs * len(SIZES), tuning), *map(size_chunk, SIZES)]


def _tune(protocol: Protocol, tick: Tick) -> dict[str, Any]:
    """By name of the arm, the rate with the highest mean validation PCC over the sizes, and that PCC by rate."""
    setting = [tasks(TUNING_SEED)[LEVEL]]
    found = [trials(VARIANTS, setting, dataclasses.replace(protocol, batch=size), tick)[0] for size in SIZES]
    mean = torch.stack(found).mean(0)  # (arms, rates)
    names = [variant.name for variant in VARIANTS]
    rates = [protocol.rates[best] for best in mean.argmax(1)]
    return {
        "rates": dict(zip(names, rates, strict=True)),
        "validation_pcc": dict(zip(names, mean.tolist(), strict=True)),
    }


def _train(seeds: list[int], rates: dict[str, float], protocol: Protocol, tick: Tick) -> list[dict[str, Any]]:
    """Per seed and variant the curves by epoch, and the test scores of the epoch chosen on validation."""
    settings = [tasks(seed)[LEVEL] for seed in seeds]
    training, validation, test = sample(settings, seeds, protocol)
    stack = Stack(VARIANTS, seeds, settings[0].dim)
    looks: list[Tensor] = []

    def observe(look: Look) -> None:
        parts = [*scores(look.train, training.target), *scores(look.validation, validation.target)]
        wide = training.target.unsqueeze(1).expand_as(look.train)
        ratio = gradient_ratio(*(t.reshape(-1, t.shape[-1]).T.double() for t in (look.train, wide)))
        looks.append(torch.stack([*parts, ratio.view(parts[0].shape)]))

    begin = torch.tensor([[rates[variant.name] for variant in VARIANTS]])
    train(stack, (training, validation), protocol, begin, observe=observe, tick=tick)
    with torch.no_grad():
        pcc, mse = scores(stack(test).prediction, test.target)
    history = torch.stack(looks, -1)  # (curves, groups, variants, looks)
    keys = ("train_pcc", "train_mse", "validation_pcc", "validation_mse", "ratio")
    return [
        {
            variant.name: {
                "pcc": pcc[g, v].item(),
                "mse": mse[g, v].item(),
                "watch": watch(history[0, g, v].tolist(), history[1, g, v].tolist()),
                "curves": dict(zip(keys, history[:, g, v].tolist(), strict=True)),
            }
            for v, variant in enumerate(VARIANTS)
        }
        for g in range(len(seeds))
    ]


def report(configuration: dict[str, Any], results: Results) -> Report:
    """Whether the batch size moves the plateau, the end or the gradient ratio."""
    rows = []
    for variant in VARIANTS:
        for size in SIZES:
            runs = [seed[variant.name] for seed in results[f"batch {size}"]]
            (pcc, sd), mse = spread([run["pcc"] for run in runs]), spread([run["mse"] for run in runs])[0]
            row: dict[str, Any] = {"variant": variant.name, "batch": size, "PCC": pcc, "PCC sd": sd, "MSE": mse}
            row |= {"rate": results["tuning"]["rates"][variant.name]}
            row |= {"gradient ratio end": spread([run["curves"]["ratio"][-1] for run in runs])[0]}
            found = [run["watch"] for run in runs if run["watch"]["first"] is not None]
            row |= {"plateau": f"{len(found)} of {len(runs)}"}
            row |= {
                label: statistics.fmean([float(one[key]) for one in found]) if found else None
                for label, key in _COLUMNS.items()
            }
            flat = row["PCC flat from epoch"]
            steps = configuration["protocol"]["train"] // size
            row |= {"PCC flat from step": None if flat is None else flat * steps}
            rows.append(row | {"paper": "same plateau at each size" if variant.name == SOFTMAX else None})
    softmax = [row["PCC"] for row in rows if row["variant"] == SOFTMAX]
    summary = {"softmax PCC range over batch sizes": max(softmax) - min(softmax), "tuning": results["tuning"]}
    notes = [f"softmax PCC differs by {max(softmax) - min(softmax):.4f} between batch sizes"]
    return Report(rows, summary, {"batch-size": _figure(configuration, results)}, notes)


_COLUMNS = {
    "PCC flat from epoch": "flat_from",
    "noticed at epoch": "first",
    "PCC after": "pcc_after",
    "MSE after %": "mse_after_percent",
}


def _figure(configuration: dict[str, Any], results: Results) -> Figure:
    epochs = Protocol(**configuration["protocol"]).evaluations()
    panels = []
    for metric in ("pcc", "mse"):
        for variant in VARIANTS:
            lines = []
            for size in SIZES:
                runs = [seed[variant.name]["curves"][f"train_{metric}"] for seed in results[f"batch {size}"]]
                middle, low, high = ([f(x) for x in zip(*runs, strict=True)] for f in (statistics.fmean, min, max))
                lines.append(Line(label=f"batch {size}", x=epochs, y=middle, low=low, high=high))
            title = f"{variant.name}, training {metric.upper()}"
            panels.append(Panel(title=title, x="epoch", y=metric.upper(), lines=lines, log_y=metric == "mse"))
    return Figure(title="The plateau does not depend on the batch size", panels=panels, columns=2)


def _block(contents: Contents) -> str:
    """End, ratio and plateau by batch size."""
    rows = [
        [
            row["variant"],
            str(row["batch"]),
            with_spread(row, "PCC", 4),
            number(row["gradient ratio end"], 3),
            row["plateau"],
            number(row["PCC flat from epoch"], 0),
            number(row["PCC flat from step"], 0),
            number(row["PCC after"], 4),
            number(row["MSE after %"], 1),
        ]
        for row in contents["batch-size"]["table"]
    ]
    header = (
        "variant",
        "batch",
        "test PCC",
        "ratio, end",
        "plateau seen",
        "PCC flat from epoch",
        "from step",
        "PCC after",
        "MSE after, %",
    )
    return table(header, rows)


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "batch-size": _block,
}
