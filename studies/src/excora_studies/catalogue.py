"""The studies by name, each with a line on what it does. Nothing heavy is imported: the command line lists them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A study as an entry point gives it: the module that has its name is imported when it runs."""

    name: str
    summary: str

    def module(self) -> Any:
        """What runs it: see :mod:`excora_studies.runner`."""
        return importlib.import_module(f"excora_studies.{self.name.replace('-', '_')}")

    def run(
        self,
        output: Path,
        *,
        data: Path | None = None,
        seeds: int | None = None,
        preset: str = "cpu",
        only: Sequence[str] = (),
        console: Any = None,
    ) -> dict[str, Any]:
        """Run it into ``output``: :func:`excora_studies.reproduce` has the options."""
        from excora.errors import InputError

        if seeds is not None and seeds < 1:
            raise InputError(f"seeds must be at least 1, got {seeds}")
        study = self.module()
        presets = getattr(study, "PRESETS", ("quick", "cpu"))
        if preset not in presets:
            raise InputError(f"the preset of {self.name} must be one of {', '.join(presets)}, got {preset!r}")
        runner = importlib.import_module("excora_studies.runner")
        options = {"seeds": seeds, "preset": preset, "data": data, "only": only, "console": console}
        return runner.run(self.name, study, Path(output), **options)


synthetic = Entry("synthetic", "mean, softmax, ECA and its ablations at four homogeneity levels (Fig 5)")
gradients = Entry(
    "gradients", "the PCC/MSE gradient ratio, its bound and the spread of predictions over training (Fig 3, 4)"
)
batch_size = Entry("batch-size", "the plateau at batch sizes 32, 64 and 128 (Fig 10)")
grid = Entry("grid", "where extrapolation helps and where it costs: 12 settings of the signal")
plateau = Entry(
    "plateau", "MSE still falling after PCC is flat, on 8 small UCI sets, with softmax and with ECA (Fig 7)"
)
tabular = Entry("tabular", "Excora's tabular models and what users would pick instead, on three UCI sets (Table 1)")
elements = Entry("elements", "superconductors as bags of chemical elements, against 81 features made by hand")
verdicts = Entry("verdicts", "what the monitor says of runs trained into a known fault: the confusion matrix")
single_location = Entry(
    "single-location", "does attention find the one informative token: risk and descent in closed form"
)
gains = Entry("gains", "where extrapolating attention gains on real data, every arm tuned with the same budget")
sentiment = Entry("sentiment", "MOSI with label-free features: ridge, plain pools, ALMT and nine baselines (Table 2)")

spectral = Entry("spectral", "when the signal of pooled sequences leaves the noise, by which weights (random matrices)")
in_context = Entry(
    "in-context", "what one linear step makes of labelled examples: trained, under drift, with retrieval"
)
elliptical = Entry("elliptical", "channels that count by what they move: what the metric gains, and what dirt costs it")
primal = Entry("primal", "self-attention without a matrix of pairs: its objective, its largest tensor, its rank")
event_times = Entry("event-times", "functional time: kernels, invariance, and what the time between events is worth")
transport = Entry("transport", "how far maps and trained encoders are from an optimal map, and how straight they go")
spatial = Entry(
    "spatial",
    "gene expression from slide images on sections never seen: ridge, EGN, spots, with and without ECA (Table 3)",
)

#: In the order of the pages.
STUDIES = {
    entry.name: entry
    for entry in (
        *(
            synthetic,
            gradients,
            batch_size,
            grid,
            plateau,
            tabular,
            elements,
            verdicts,
            single_location,
            gains,
            sentiment,
            spatial,
        ),
        *(spectral, in_context, elliptical, primal, event_times, transport),
    )
}
