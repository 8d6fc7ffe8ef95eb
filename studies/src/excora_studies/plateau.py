"""Study ``plateau`` (Fig 7): MSE still falling after PCC is flat, on 8 small UCI sets, with softmax and with ECA.

A small :class:`FTTransformer`. ECA is the same model with ``attention="eca"``, trained with DNPL in place of the PCC
loss; both start from the same weights and see the same batches. Whether PCC is flat while MSE falls is for
:func:`detect_plateau` to say, as one watches the run: on the curves of the training rows and on those of the validation
rows.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from excora.data.dataset import Inputs, each
from excora.data.table import TableSpec
from excora.losses import DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.models.ft_transformer import FTTransformer
from excora.moments import pearson
from excora_studies.figures import Figure, Line, Panel
from excora_studies.markdown import Contents, number, table, with_spread
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.small_tables import SETS, find_folder, load
from excora_studies.synthetic import spread
from excora_studies.watch import watch

VARIANTS = ("softmax", "ECA")
PARTS = ("train", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """Model and training."""

    epochs: int = 100
    batch: int = 64
    rate: float = 1e-3
    dim: int = 32
    heads: int = 4
    blocks: int = 2
    dropout: float = 0.1  # of the attention and of the feed-forwards
    weight: float = 0.5


class Rows(NamedTuple):
    """Rows of a table, numbers standardised, with their standardised target (n,)."""

    x: Inputs
    target: Tensor

    def take(self, index: Tensor) -> Rows:
        """The rows of ``index``."""
        return Rows(each(self.x, lambda part: part[index]), self.target[index])


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:
    """Everything that the numbers depend on, but for the folder of the files."""
    folder = find_folder(data)
    quick = preset == "quick"
    setup = Setup(epochs=14, dim=8, heads=2, blocks=1) if quick else Setup()
    names = ["Servo"] if quick else list(SETS)
    sizes = {name: len(load(name, folder)[2]) for name in names}
    return {"sets": sizes, "seeds": list(range(seeds or (1 if quick else 3))), "setup": dataclasses.asdict(setup)}


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """A chunk for each set and seed."""
    setup, folder = Setup(**configuration["setup"]), find_folder(data)

    def one(name: str, seed: int) -> Chunk:
        ticks = setup.epochs * len(VARIANTS)
        return Chunk(f"{name}, seed {seed}", ticks, lambda _, tick: _compare(name, seed, setup, folder, tick))

    return [one(name, seed) for name in configuration["sets"] for seed in configuration["seeds"]]


def parts(rows: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row numbers of the parts: 70 % training, 15 % validation, 15 % test, at random.

    >>> [len(part) for part in parts(20, 0)]
    [14, 3, 3]
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    first, second = round(0.7 * rows), round(0.85 * rows)
    return order[:first], order[first:second], order[second:]


def split(name: str, seed: int, folder: Path) -> tuple[Rows, Rows, Rows]:
    """Training, validation and test rows, standardised by the figures of the training rows."""
    numeric, codes, target = (torch.tensor(part.to_numpy()) for part in load(name, folder))
    places = parts(len(target), seed)
    seen, label, missing = numeric[places[0]], target[places[0]], numeric.isnan()
    mean = seen.nanmean(0).nan_to_num()
    deviation = (seen - mean).square().nanmean(0).sqrt()
    numeric = torch.where(missing, 0.0, (numeric - mean) / torch.where(deviation > 0, deviation, 1.0))
    y = (target - label.mean()) / label.std(correction=0)
    rows = Rows({"numeric": numeric.float(), "missing": missing, "codes": codes}, y.float())
    training, validation, test = (rows.take(part) for part in places)
    return training, validation, test


def build(variant: str, spec: TableSpec, seed: int, setup: Setup) -> FTTransformer:
    """The model of a variant; for one seed all start from the same weights.

    >>> spec, setup = TableSpec(targets=1, numeric=2), Setup(dim=8, heads=2)
    >>> missing, codes = torch.zeros(3, 2, dtype=torch.bool), torch.zeros(3, 0, dtype=torch.long)
    >>> x = {"numeric": torch.randn(3, 2), "missing": missing, "codes": codes}
    >>> first, second = (build(variant, spec, 0, setup).eval()(x).prediction for variant in VARIANTS)
    >>> torch.allclose(first, second, atol=1e-6)
    True
    """
    torch.manual_seed(seed)
    plain = FTTransformer(spec, **_options(setup))
    if variant == "softmax":
        return plain
    model = FTTransformer(spec, attention="eca", **_options(setup))
    model.load_state_dict(plain.state_dict(), strict=False)  # all but gain and temperature, which softmax has not
    return model


def _options(setup: Setup) -> dict[str, Any]:
    rates = {"attention_dropout": setup.dropout, "feedforward_dropout": setup.dropout}
    return {"dim": setup.dim, "blocks": setup.blocks, "heads": setup.heads} | rates


def _compare(name: str, seed: int, setup: Setup, folder: Path, tick: Tick) -> dict[str, Any]:
    rows = split(name, seed, folder)
    sizes = tuple(int(column.max()) + 1 for column in load(name, folder)[1].to_numpy().T)
    spec = TableSpec(targets=1, numeric=cast(Tensor, rows[0].x["numeric"]).shape[1], categories=sizes)
    return {variant: _fit(variant, rows, spec, seed, setup, tick) for variant in VARIANTS}


def _fit(
    variant: str, rows: tuple[Rows, Rows, Rows], spec: TableSpec, seed: int, setup: Setup, tick: Tick
) -> dict[str, Any]:
    """Train one model; its curves, what the detector says of them, and the test scores of the chosen epoch.

    A loop of its own, as the figures on file are of it: :func:`excora.training.train` draws other batches, and has of
    the training rows what its monitor sees in the steps of an epoch, with dropout, where this looks at them afterwards.
    """
    training, validation, test = rows
    curves: dict[str, list[float]] = {f"{part}_{metric}": [] for part in PARTS for metric in ("pcc", "mse")}
    chosen, best = -1, {}
    with torch.random.fork_rng(devices=[]):
        model = build(variant, spec, seed, setup)
        torch.manual_seed(seed)  # the same batches and dropout for all
        loss = JointLoss(DispersionNormalizedPearsonLoss() if variant == "ECA" else PearsonLoss(), weight=setup.weight)
        optimizer = torch.optim.Adam(model.parameters(), lr=setup.rate)
        for epoch in range(setup.epochs):
            model.train()
            for index in torch.randperm(len(training.target)).split(setup.batch):
                batch = training.take(index)
                optimizer.zero_grad()
                output = model(batch.x)
                loss(output.prediction[:, 0], batch.target, penalty=output.penalties).backward()
                optimizer.step()
            for part, seen in zip(PARTS, (training, validation), strict=True):
                for metric, value in zip(("pcc", "mse"), _score(model, seen), strict=True):
                    curves[f"{part}_{metric}"].append(value)
            if curves["validation_pcc"][-1] > max([-2.0, *curves["validation_pcc"][:-1]]):
                chosen, best = epoch, {key: value.clone() for key, value in model.state_dict().items()}
            tick()
    model.load_state_dict(best)
    scores = _score(model, test)
    watched = {part: watch(curves[f"{part}_pcc"], curves[f"{part}_mse"]) for part in PARTS}
    return {"epoch": chosen + 1, "pcc": scores[0], "mse": scores[1], "watch": watched, "curves": curves}


@torch.no_grad()
def _score(model: FTTransformer, rows: Rows) -> tuple[float, float]:
    model.eval()
    prediction = model(rows.x).prediction[:, 0]
    return pearson(prediction, rows.target).item(), (prediction - rows.target).square().mean().item()


def report(configuration: dict[str, Any], results: Results) -> Report:
    """How often the rule finds a plateau, when, and how the two variants end."""
    rows = []
    for name, count in configuration["sets"].items():
        for variant in VARIANTS:
            runs = [results[f"{name}, seed {seed}"][variant] for seed in configuration["seeds"]]
            (pcc, sd), (mse, mse_sd) = spread([run["pcc"] for run in runs]), spread([run["mse"] for run in runs])
            row: dict[str, Any] = {"set": name, "rows": count, "variant": variant}
            for part in PARTS:
                found = [run["watch"][part] for run in runs if run["watch"][part]["first"] is not None]
                row[f"plateau ({part})"] = f"{len(found)} of {len(runs)}"
                for label, key in _COLUMNS.items():
                    values = [float(one[key]) for one in found]
                    row[f"{label} ({part})"] = statistics.fmean(values) if found else None
            row |= {"test PCC": pcc, "test PCC sd": sd, "test MSE": mse, "test MSE sd": mse_sd}
            rows.append(row | {"paper": "plateau (curves only)"})
    summary = _summary(configuration, results, rows)
    notes = [
        f"plateaus on training rows: softmax {summary['softmax, train']}, ECA {summary['ECA, train']} of "
        f"{summary['runs']} runs; "
        f"on validation rows: {summary['softmax, validation']} and {summary['ECA, validation']}",
        f"test PCC of ECA - softmax: {summary['ECA - softmax test PCC']:+.4f} "
        f"(sd over runs {summary['sd over runs']:.4f})",
    ]
    columns = ["set", "variant", "plateau (train)", "PCC flat from (train)", "MSE after % (train)"]
    columns += ["plateau (validation)", "test PCC", "test MSE", "paper"]
    return Report(rows, summary, {"plateau": _figure(configuration, results)}, notes, columns)


def _summary(configuration: dict[str, Any], results: Results, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of runs by what the rule says, and the paired difference of the test PCC."""
    summary: dict[str, Any] = {
        f"{variant}, {part}": sum(int(row[f"plateau ({part})"].split()[0]) for row in rows if row["variant"] == variant)
        for variant in VARIANTS
        for part in PARTS
    }
    summary["final"] = {
        f"{variant}, {part}": dict(Counter(chunk[variant]["watch"][part]["final"] for chunk in results.values()))
        for variant in VARIANTS
        for part in PARTS
    }
    total = len(configuration["sets"]) * len(configuration["seeds"])
    summary |= {"runs": total}
    paired = [
        results[key]["ECA"]["pcc"] - results[key]["softmax"]["pcc"]
        for key in (f"{name}, seed {seed}" for name in configuration["sets"] for seed in configuration["seeds"])
    ]
    summary |= {"ECA - softmax test PCC": spread(paired)[0], "sd over runs": spread(paired)[1]}
    summary |= {"runs with ECA above softmax": sum(one > 0 for one in paired)}
    return summary


_COLUMNS = {
    "PCC flat from": "flat_from",
    "noticed at": "first",
    "PCC after": "pcc_after",
    "MSE after %": "mse_after_percent",
}


def _figure(configuration: dict[str, Any], results: Results) -> Figure:
    epochs = list(range(1, configuration["setup"]["epochs"] + 1))
    panels = []
    for name in configuration["sets"]:
        for part in PARTS:
            lines = []
            for variant in VARIANTS:
                runs = [results[f"{name}, seed {seed}"][variant]["curves"] for seed in configuration["seeds"]]
                for metric in ("pcc", "mse"):
                    middle = [statistics.fmean(x) for x in zip(*(run[f"{part}_{metric}"] for run in runs), strict=True)]
                    lines.append(Line(label=f"{variant} {metric.upper()}", x=epochs, y=middle, dashed=metric == "mse"))
            panels.append(Panel(title=f"{name}, {part}", x="epoch", y="PCC, MSE", lines=lines))
    return Figure(title="PCC and MSE by epoch, mean over seeds", panels=panels, columns=4)


def _block(contents: Contents) -> str:
    """The eight sets, and the totals."""
    rows = [
        [
            row["set"],
            row["variant"],
            row["plateau (train)"],
            number(row["PCC flat from (train)"], 0),
            number(row["PCC after (train)"], 3),
            number(row["MSE after % (train)"], 0),
            row["plateau (validation)"],
            number(row["MSE after % (validation)"], 0),
            with_spread(row, "test PCC", 3),
            with_spread(row, "test MSE", 3),
        ]
        for row in contents["plateau"]["table"]
    ]
    header = ("set", "variant", "plateau, training", "flat from epoch", "PCC after", "MSE after, %")
    total = contents["plateau"]["summary"]
    line = (
        f"Runs with a plateau, of {total['runs']}: training rows softmax {total['softmax, train']}, ECA "
        f"{total['ECA, train']}; validation rows softmax {total['softmax, validation']}, ECA "
        f"{total['ECA, validation']}. Test PCC of ECA − softmax: {total['ECA - softmax test PCC']:+.4f} (standard "
        f"deviation over runs {total['sd over runs']:.4f}), above in {total['runs with ECA above softmax']} of "
        f"{total['runs']} runs: {_verdict(total['ECA - softmax test PCC'], total['sd over runs'], total['runs'])}."
    )
    states = ("improving", "plateau", "converged", "worsening", "too short")
    final = [[key, *(str(counts.get(state, 0)) for state in states)] for key, counts in total["final"].items()]
    more = ("plateau, validation", "MSE after, %", "test PCC", "test MSE")
    ends = f"What the rule says of the whole run, in numbers of runs:\n\n{table(('rows', *states), final)}"
    return f"{table((*header, *more), rows)}\n\n{line}\n\n{ends}"


def _verdict(mean: float, deviation: float, runs: int) -> str:
    """By two standard errors."""
    error = deviation / runs**0.5
    if abs(mean) <= 2 * error:
        return f"**no difference that shows** (standard error {error:.4f})"
    return f"**ECA {'above' if mean > 0 else 'below'} softmax** (standard error {error:.4f})"


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "plateau": _block,
}
