"""How often is one of several equal models called better? (At most 5 % is promised, for all pairs together.)

``python -m checks.false_wins [SIMULATIONS] [--resamples N] [--only WORDS] [--keep FOLDER]``, from the root of the
repository. First six models that are equally good by construction: the share of comparisons in which any of the 15
pairs is said to differ, in PCC and in MSE. Then how many of real differences are found. Then false wins of two models
under more circumstances, and of two that are really trained: random networks that differ by their start, and ridge
regressions that read different but equally good features. ``--only`` takes the figures whose name has these words; with
``--keep`` each is kept in a file of its own, and a second call goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from excora.stats.family import judge
from excora.stats.paired import Predicted, draw
from excora.stats.units import sample_units
from tests.oracles.bootstrap import World, equal_models

RESAMPLES = 2000  # as compare
MODELS = 6
FEW = {"2 folds, 1 seed": (2, 1), "5 folds, 1 seed": (5, 1), "10 folds, 1 seed": (10, 1), "5 folds, 3 seeds": (5, 3)}
NULLS = {
    "as it is": {},
    "luck of training": {"luck": 0.1},
    "luck of one model alone": {"luck": 0.1, "lucky": 0},
    "10 groups": {"groups": 10},
    "10 groups, luck of training": {"groups": 10, "luck": 0.1},
    "heavy tails": {"tails": 3.0},
    "errors 95 % the same": {"shared": 0.95, "unstable": 0.05},
    "time-ordered, lag-one correlation 0.8": {"lag": 0.8},
}
TWO = {
    "200 samples, 3 seeds": {},
    "30 samples": {"n": 30},
    "1,000 samples": {"n": 1000},
    "5 seeds": {"seeds": 5},
    "luck of training": {"luck": 0.05},
    "luck of training, 1,000 samples": {"luck": 0.1, "n": 1000},
    "errors new in each seed": {"unstable": 0.9},
    "PCC 0.97": {"pcc": 0.97},
    "PCC 0.1": {"pcc": 0.1},
    "30 groups": {"groups": 30},
    "a test part of 20 % a seed, 1,000 samples": {"hold_out": 0.2, "n": 1000},
    "a test part a seed, luck of training": {"hold_out": 0.2, "n": 1000, "luck": 0.05},
    "a test part a seed, 5 seeds, luck of training": {"hold_out": 0.2, "n": 1000, "luck": 0.05, "seeds": 5},
    "a test part a seed of 100 groups, luck of training": {"hold_out": 0.2, "n": 1000, "luck": 0.05, "groups": 100},
    "the last 20 % in time, lag-one correlation 0.8, 2,000 samples": {"hold_out": 0.2, "n": 2000, "lag": 0.8},
    "time-ordered, lag-one correlation 0.8, 1,000 samples": {"lag": 0.8, "n": 1000},
}
#: What the last of the models has more than the others, and how the rest is.
DIFFERENCES = {
    "two models, +0.05": {"models": 2, "better": 0.05},
    "two models, +0.05, luck of training": {"models": 2, "better": 0.05, "luck": 0.05},
    "two models, +0.05, 1,000 samples": {"models": 2, "better": 0.05, "n": 1000},
    "two models, +0.10, 1 seed": {"models": 2, "better": 0.1, "seeds": 1},
    "six models, one +0.10": {"models": 6, "better": 0.1},
    "six models, one +0.10, 1 seed": {"models": 6, "better": 0.1, "seeds": 1},
    "six models, one +0.25, 1 seed, heavy tails": {"models": 6, "better": 0.25, "seeds": 1, "tails": 3.0},
}
WIDTH = 10  # features of a trained model


def sides(world: World, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Whether each pair is said to differ, in PCC and in MSE: (2, pairs), the pairs of the last model first."""
    unit = sample_units(len(world.target), group=world.group, time=world.time)
    draws = draw(by_seed(world, unit), resamples=resamples, seed=seed)
    pairs = list(itertools.combinations(reversed(range(world.prediction.shape[1])), 2))
    found = [judge(draws[name], pairs, correlation=name == "pcc", seed=seed) for name in ("pcc", "mse")]
    return np.array([[bounds.side != 0 for bounds in one] for one in found])


def by_seed(world: World, unit: np.ndarray) -> list[Predicted]:
    """What each seed predicted, of its test part where it has one."""
    everything = np.ones(world.fold.shape, bool) if world.tested is None else world.tested
    return [
        Predicted(one[:, rows], world.target[rows], unit[rows], fold[rows])
        for one, fold, rows in zip(world.prediction, world.fold, everything, strict=True)
    ]


def any_false(world: World, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Of equal models: whether one is said to differ from another, in PCC and in MSE."""
    return sides(world, seed, resamples).any(1)


def found(world: World, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """Of models of which the last is better: the share of the others that it is told from."""
    return sides(world, seed, resamples)[:, : world.prediction.shape[1] - 1].mean(1)


class Tally:
    """Prints shares, and keeps them in a folder if there is one."""

    def __init__(self, simulations: int, resamples: int, only: str, folder: Path | None) -> None:
        self.simulations, self.resamples, self.only, self.folder = simulations, resamples, only, folder

    def __call__(
        self, kind: str, name: str, make: Callable[[np.random.Generator], World],
        measure: Callable[[World, int, int], np.ndarray] = any_false,
    ) -> None:  # fmt: skip
        if self.only not in f"{kind}, {name}":
            return
        code = hashlib.sha256(f"{kind}, {name} {self.simulations} {self.resamples}".encode()).hexdigest()[:16]
        path = None if self.folder is None else self.folder / f"{code}.json"
        if path is not None and path.exists():
            pcc, mse = json.loads(path.read_text())["shares"]
        else:
            generator = np.random.default_rng(0)
            shares = [measure(make(generator), seed, self.resamples) for seed in range(self.simulations)]
            pcc, mse = np.mean(shares, 0).tolist()
            if path is not None:
                counts = {"simulations": self.simulations, "resamples": self.resamples}
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"name": f"{kind}, {name}", **counts, "shares": [pcc, mse]}))
        print(f"  {kind}, {name}: PCC {pcc:.1%}, MSE {mse:.1%}", flush=True)


def trained(generator: np.random.Generator, kind: str, n: int, seeds: int) -> World:
    """Two equally good learners: random tanh networks, or ridge regressions on different halves of the features."""
    x = generator.normal(size=(n, 2 * WIDTH))
    y = 0.5 * (np.sin(x[:, :4]).sum(1) + np.sin(x[:, WIDTH : WIDTH + 4]).sum(1)) + generator.normal(size=n)
    fold = np.stack([generator.permutation(n) % 5 for _ in range(seeds)])
    prediction = np.empty((seeds, 2, n, 1))
    for s, m, k in np.ndindex(seeds, 2, 5):
        start = generator.normal(size=(2 * WIDTH, 40)) * 0.4
        h = np.tanh(x @ start) if kind == "networks" else x[:, m * WIDTH : (m + 1) * WIDTH]
        test = fold[s] == k
        mean, level = h[~test].mean(0), y[~test].mean()
        a = h[~test] - mean
        w = np.linalg.solve(a.T @ a + 3 * np.eye(h.shape[1]), a.T @ (y[~test] - level))
        prediction[s, m, test, 0] = (h[test] - mean) @ w + level
    return World(prediction, y[:, None], fold)


def main(simulations: int, resamples: int, only: str, folder: Path | None) -> None:
    tally = Tally(simulations, resamples, only, folder)
    print(f"shares of {simulations} comparisons, {resamples} resamples each")
    for (name, changes), (how, (folds, seeds)) in itertools.product(NULLS.items(), FEW.items()):
        given = {"models": MODELS, "folds": folds, "seeds": seeds, **changes}
        tally("six equal models", f"{name}; {how}", lambda g, c=given: equal_models(g, **c))
    for name, changes in DIFFERENCES.items():
        tally("a real difference that is found", name, lambda g, c=changes: equal_models(g, **c), found)
    for name, changes in TWO.items():
        tally("two equal models", name, lambda g, c=changes: equal_models(g, **c))
    for kind, n, seeds in itertools.product(("networks", "different features"), (50, 100, 200, 400), (1, 3)):
        name = f"{kind}, {n} samples, {seeds} seed{'s' * (seeds > 1)}"
        tally("two that are trained", name, lambda g, k=kind, n=n, s=seeds: trained(g, k, n, s))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulations", type=int, nargs="?", default=200, help="comparisons a figure")
    parser.add_argument("--resamples", type=int, default=RESAMPLES, help="of each comparison; compare has 2,000")
    parser.add_argument("--only", default="", metavar="WORDS", help="figures whose name has these words")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where figures are kept")
    given = parser.parse_args()
    main(given.simulations, given.resamples, given.only, given.keep)
