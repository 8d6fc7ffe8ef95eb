"""Random inputs against the oracles: ``python -m checks.fuzz [--inputs N] [--seed S] [--start CASE]``.

Pools and the statistics of bags (:mod:`checks.fuzz_pools`), losses, metrics and the statistics of predictions
(:mod:`checks.fuzz_samples`), values and gradients, each against float64 within a bound that is derived for that very
input. An input is one bag or one batch of predictions; a case is what one call is given. A failing case is printed with
the line that runs it alone. Interrupt it at any time: the summary says where to go on. Exit code 1 on failure.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some CPUs die on a bf16 product otherwise

import numpy as np
import torch

from checks import fuzz_pools, fuzz_samples
from checks.fuzz_pools import Check

SHOWN = 20


@dataclass
class Tally:
    """What has been seen so far."""

    inputs: int = 0
    checks: int = 0
    failures: list[str] = field(default_factory=list)
    nearest: dict[str, float] = field(default_factory=dict)  # by quantity: the largest error / tolerance

    def add(self, seed: int, case: int, check: Check) -> None:
        """Count one comparison; a NaN never passes."""
        self.checks += 1
        if not check.error <= check.tolerance:
            line = f"python -m checks.fuzz --seed {seed} --case {case}"
            self.failures.append(f"{line}  # {check.what}: off by {check.error:.3g}, allowed {check.tolerance:.3g}")
            if len(self.failures) <= SHOWN:
                print("FAILED", self.failures[-1], flush=True)
        elif check.error > 0:
            quantity = check.what.split(": ")[-1].split(" of (")[0]
            self.nearest[quantity] = max(self.nearest.get(quantity, 0.0), check.error / check.tolerance)


def run_case(seed: int, case: int, tally: Tally) -> None:
    """One case, the same whenever it is run: bags and predictions in turns."""
    source = fuzz_samples if case % 2 else fuzz_pools
    with np.errstate(all="ignore"):  # the bounds of rounding overflow where nothing can be known
        inputs, checks = source.case(np.random.default_rng([seed, case]))
        for check in checks:
            tally.add(seed, case, check)
    tally.inputs += inputs


def run(inputs: int, seed: int, start: int = 0, every: float = 5.0) -> tuple[Tally, int]:
    """Cases from ``start`` on until there were enough inputs, or Ctrl-C; also the next case."""
    tally, case, said = Tally(), start, time.monotonic()
    try:
        while tally.inputs < inputs:
            run_case(seed, case, tally)
            case += 1
            if time.monotonic() - said > every:
                said = time.monotonic()
                print(
                    f"{tally.inputs:,} inputs, {len(tally.failures)} failures, case {case}", file=sys.stderr, flush=True
                )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return tally, case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first case: where an interrupted run goes on")
    parser.add_argument("--case", type=int, help="this case alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    only = given.case is not None
    tally, case = run(1 if only else given.inputs, given.seed, given.case if only else given.start)
    for quantity, share in sorted(tally.nearest.items(), key=lambda pair: -pair[1]):
        print(f"  {quantity:45s} at most {share:.3f} of its tolerance")
    print(f"{tally.inputs:,} inputs, {tally.checks:,} comparisons, {len(tally.failures)} failures; next case: {case}")
    print(f"{time.process_time():.0f} s of CPU time, seed {given.seed}, torch {torch.__version__}")
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
